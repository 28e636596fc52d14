"""Partitions of records with and without keys."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.client.core.metadata import PartitionView, TopicView
from ottla.client.core.partitioners import (
    BrokerDelays,
    RoundRobin,
    Sticky,
    UniformRandom,
    partition_for_key,
    partitioner_of,
)
from ottla.client.errors import ConfigError
from ottla.records.key_hash import murmur2


class Counting:
    """Random numbers that are none: 0, 1, 2 and so on."""

    def __init__(self) -> None:
        self._next = -1

    def below(self, bound: int) -> int:
        self._next += 1
        return self._next % bound

    def bytes(self, count: int) -> bytes:
        return bytes(count)

    def fraction(self) -> float:
        return 0.0


def view(*leaders: int) -> TopicView:
    partitions = (PartitionView(index, leader, 0, (), (), ()) for index, leader in enumerate(leaders))
    return TopicView("t", bytes(16), None, False, tuple(partitions))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"", 275646681),
    ],
)
def test_the_hash_of_a_key_is_kafkas(key: bytes, value: int) -> None:
    assert murmur2(key, 0, len(key)) == value % 2**32
    assert murmur2(memoryview(b"12" + key), 2, len(key)) == value % 2**32
    assert partition_for_key(key, 7) == (value & 0x7FFF_FFFF) % 7


def test_round_robin_leaves_out_partitions_without_a_leader() -> None:
    partitioner = RoundRobin()
    assert [partitioner("t", b"k", None, view(0, -1, 2)) for _ in range(4)] == [0, 2, 0, 2]
    assert partitioner("u", None, None, view(-1, -1)) == 0


def test_random_uses_each_partition_that_has_a_leader() -> None:
    partitioner = UniformRandom(Counting())
    assert {partitioner("t", None, None, view(0, -1, 2)) for _ in range(9)} == {0, 2}


def test_sticky_stays_for_the_size_of_a_batch() -> None:
    sticky, topic = Sticky(100, Counting()), view(0, 0, 0)
    assert sticky.current(topic) == 0
    sticky.appended(99, topic)
    assert sticky.current(topic) == 0
    sticky.appended(1, topic)
    assert sticky.current(topic) == 1


def test_sticky_waits_for_a_batch_to_fill_up_but_not_for_ever() -> None:
    sticky, topic = Sticky(100, Counting()), view(0, 0, 0)
    sticky.current(topic)
    sticky.appended(150, topic, batches_full=False)
    assert sticky.current(topic) == 0
    sticky.appended(50, topic, batches_full=False)
    assert sticky.current(topic) == 1


def test_sticky_prefers_short_queues() -> None:
    sticky, topic = Sticky(1, Counting()), view(0, 0, 0)
    sticky.weigh([0, 3, 1], [0, 1, 2], 3)
    chosen: Counter[int] = Counter()
    for _ in range(80):
        chosen[sticky.current(topic)] += 1
        sticky.appended(1, topic)
    assert chosen == {0: 40, 1: 10, 2: 30}
    sticky.weigh([2, 2, 2], [0, 1, 2], 3)
    chosen.clear()
    for _ in range(60):
        sticky.appended(1, topic)
        chosen[sticky.current(topic)] += 1
    assert chosen == {0: 20, 1: 20, 2: 20}


def test_a_broker_that_takes_nothing_is_late_until_it_takes_something() -> None:
    delays = BrokerDelays(100)
    delays.had_records(1, 1000, taken=False)
    delays.had_records(1, 1100, taken=False)
    assert not delays.is_late(1)
    delays.had_records(1, 1101, taken=False)
    assert delays.is_late(1)
    delays.had_records(1, 1102, taken=True)
    assert not delays.is_late(1)
    assert not BrokerDelays(0).is_late(1)


def test_names_callables_and_classes_make_partitioners() -> None:
    assert partitioner_of(None, Counting()) is None
    robin = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    for setting in ("round_robin", robin, RoundRobin):
        assert isinstance(partitioner_of(setting, Counting()), RoundRobin)
    own = partitioner_of(lambda topic, key, value, view: 1, Counting())
    assert own is not None
    assert own("t", None, None, view(0, 0)) == 1
    for wrong in ("x.Y", 5, "org.apache.kafka.clients.producer.internals.DefaultPartitioner"):
        with pytest.raises(ConfigError, match=r"partitioner\.class"):
            partitioner_of(wrong, Counting())
