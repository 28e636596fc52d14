"""Consumers behind a faulty network, and while leaders and coordinators move: nothing is skipped or doubled.

The user of these tests keeps its offsets with its results: each record counts once, whatever happens.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ottla import Consumer, OffsetAndMetadata, TopicPartition
from ottla.client.errors import ClientError, LogTruncated
from ottla.testing import Cluster as OttlaCluster
from ottla.wire.errors import KafkaError
from tests.interop.library.conftest import QUICK_GROUPS
from tests.interop.library.consuming import PROTOCOLS, WAIT_SECONDS, fill, numbers_of, read, read_until
from tests.interop.library.proxies import CUT, PASS, Proxies, Rule, count_cuts
from tests.interop.library.support import LibraryCluster, eventually, make_topic, unique

FETCH, LIST_OFFSETS, METADATA, COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 1, 2, 3, 8, 9, 10
JOIN, HEARTBEAT, LEAVE, SYNC, API_VERSIONS, LEADER_EPOCH, CONSUMER_HEARTBEAT = 11, 12, 13, 14, 18, 23, 68
STEPS = [FETCH, LIST_OFFSETS, METADATA, COMMIT, OFFSET_FETCH, FIND_COORDINATOR, API_VERSIONS, LEADER_EPOCH]
PARTITIONS = 3


SEVERAL = pytest.mark.parametrize("cluster", ["ottla-3", "kafka"], indirect=True)


def consumer_of(bootstrap: str, group: str, protocol: str, **settings: Any) -> Consumer[Any, Any]:
    defaults: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "group_protocol": protocol,
        "max_poll_records": 20,
        "retry_backoff_ms": 20,
        "reconnect_backoff_ms": 20,
        "request_timeout_ms": 10_000,
    }
    if protocol == "classic":
        # A join whose answer is lost leaves a member that the group waits for until its session ends.
        defaults |= {"heartbeat_interval_ms": 200, "session_timeout_ms": 3000}
    return Consumer(bootstrap, group_id=group, **{**defaults, **settings})


def commit(consumer: Consumer[Any, Any]) -> bool:
    """Commit positions; whether the group has taken them, as a user finds out."""
    try:
        consumer.commit()
    except (ClientError, KafkaError):
        return False
    return True


def process_all(consumer: Consumer[Any, Any], topic: str, count: int) -> list[int]:
    """Take records and commit them until `count` are there. What a lost commit gives again is told by its
    offset: results and offsets are one thing here."""
    done: dict[tuple[int, int], int] = {}
    next_offsets: dict[int, int] = {}

    def take() -> bool:
        for record in consumer.poll(0.1):
            expected = next_offsets.get(record.partition, 0)
            assert record.offset <= expected, f"{topic}: {expected} of {record.partition} was skipped"
            if record.offset == expected:
                done[record.partition, record.offset] = int(record.value)
                next_offsets[record.partition] = expected + 1
        commit(consumer)
        return len(done) >= count

    eventually(take, f"{count} records of {topic}")
    return sorted(done.values())


@SEVERAL
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stage", ["request", "answer"])
def test_every_step_survives_a_cut_connection(cluster: LibraryCluster, protocol: str, stage: str) -> None:
    topic = make_topic(cluster, "cut", PARTITIONS)
    fill(cluster.bootstrap, topic, range(300), partitions=PARTITIONS)
    group_steps = [CONSUMER_HEARTBEAT] * 3 if protocol == "consumer" else [JOIN, SYNC, HEARTBEAT, HEARTBEAT]
    cuts = [(key, stage) for key in [*STEPS, *group_steps, FETCH, FETCH, COMMIT]]
    with Proxies(cluster.bootstrap, count_cuts(*cuts)) as proxies:
        with consumer_of(proxies.bootstrap, unique("g"), protocol, topics=[topic]) as consumer:
            assert process_all(consumer, topic, 300) == list(range(300))
            eventually(lambda: commit(consumer), "a commit")
            found = consumer.committed()
        assert proxies.cuts >= len(group_steps)
    assert {p.partition: o.offset for p, o in found.items() if o} == {0: 100, 1: 100, 2: 100}


@SEVERAL
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_network_that_cuts_now_and_then_costs_no_record(cluster: LibraryCluster, protocol: str) -> None:
    topic = make_topic(cluster, "worse", PARTITIONS)
    fill(cluster.bootstrap, topic, range(600), partitions=PARTITIONS)
    with Proxies(cluster.bootstrap, every(9)) as proxies:
        with consumer_of(proxies.bootstrap, unique("g"), protocol, topics=[topic]) as consumer:
            assert process_all(consumer, topic, 600) == list(range(600))
        assert proxies.cuts


def every(count: int) -> Rule:
    """Cut each so-manieth request or answer, but for the handshake, without which nothing begins."""
    lock, seen = threading.Lock(), [0]

    def rule(key: int, stage: str) -> float:
        if key == API_VERSIONS:
            return PASS
        with lock:
            seen[0] += 1
            return CUT if seen[0] % count == 0 else PASS

    return rule


@SEVERAL
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_slow_broker_is_waited_for(cluster: LibraryCluster, protocol: str) -> None:
    topic = make_topic(cluster, "slow", PARTITIONS)
    fill(cluster.bootstrap, topic, range(60), partitions=PARTITIONS)
    with (
        Proxies(cluster.bootstrap, lambda key, stage: 0.1 if stage == "answer" else PASS) as proxies,
        consumer_of(proxies.bootstrap, unique("g"), protocol, topics=[topic]) as consumer,
    ):
        assert process_all(consumer, topic, 60) == list(range(60))


@SEVERAL
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_closing_ends_although_nobody_answers(cluster: LibraryCluster, protocol: str) -> None:
    topic = make_topic(cluster, "deaf")
    fill(cluster.bootstrap, topic, [1])
    with Proxies(cluster.bootstrap) as proxies:
        settings = {"enable_auto_commit": True, "topics": [topic]}
        consumer = consumer_of(proxies.bootstrap, unique("g"), protocol, **settings)
        assert numbers_of(read(consumer, 1)) == [1]
        proxies.rule = lambda key, stage: CUT
        consumer.close(timeout=2)


@SEVERAL
def test_a_log_that_was_cut_is_noticed(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "truncated")
    fill(cluster.bootstrap, topic, range(10))
    group, partition = unique("g"), TopicPartition(topic, 0)
    # Offset 15 of leader epoch 0 was read, says the commit; the leader has no more than 10 of that epoch.
    with consumer_of(cluster.bootstrap, group, "classic") as consumer:
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(15, 0)})
    with consumer_of(cluster.bootstrap, group, "classic", auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        with pytest.raises(LogTruncated) as caught:
            read_until([consumer], lambda: False, "an error")
        assert caught.value.offset == 10
    with consumer_of(cluster.bootstrap, group, "classic") as consumer:
        consumer.assign([partition])
        eventually(lambda: consumer.poll(0.1) == [] and consumer.position(partition) == 10, "offset 10")
        fill(cluster.bootstrap, topic, [10])
        assert numbers_of(read(consumer, 1)) == [10]


class Reader:
    """Consumes a topic in a group and holds every offset against the one that is due."""

    def __init__(self, bootstrap: str, protocol: str, topic: str) -> None:
        self.group = unique("g")
        self.consumer = consumer_of(bootstrap, self.group, protocol, topics=[topic], session_timeout_ms=None)
        self.done: dict[int, int] = {}

    def take(self) -> int:
        """Process what is there and commit; how many records are done."""
        for record in self.consumer.poll(0.1):
            due = self.done.get(record.partition, 0)
            assert record.offset <= due, f"{due} of {record.topic}-{record.partition} was skipped"
            self.done[record.partition] = max(due, record.offset + 1)
        commit(self.consumer)
        return sum(self.done.values())


def test_leaders_and_coordinators_may_move() -> None:
    settings = {"offsets.topic.num.partitions": "1", **QUICK_GROUPS}
    with OttlaCluster(3, overrides=settings) as three:
        cluster = LibraryCluster(three.bootstrap_servers, "ottla-3", three)
        topic = make_topic(cluster, "moving", PARTITIONS)
        fill(cluster.bootstrap, topic, range(300), partitions=PARTITIONS)
        readers = [Reader(cluster.bootstrap, protocol, topic) for protocol in PROTOCOLS]
        try:
            eventually(lambda: min([reader.take() for reader in readers]) >= 300, "the first records")
            lost = coordinator_of(cluster.bootstrap, readers[0].group)
            three.kill(lost)
            fill(cluster.bootstrap, topic, range(300, 600), partitions=PARTITIONS)
            eventually(lambda: min([reader.take() for reader in readers]) >= 600, "records after the kill")
        finally:
            for reader in readers:
                reader.consumer.close()


def coordinator_of(bootstrap: str, group: str) -> int:
    """The node that coordinates a group, as another client sees it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
    return int(found.coordinator.id)
