"""A follower with many partitions: only those that have news are looked at, and none is taken for lagging."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.handlers.support import (
    add_topic,
    append,
    as_sent,
    ask,
    broker_of,
    context_of,
    host_log,
    image_of,
    made,
)

from ottla.host import HostDisk
from ottla.replication.leader import Leadership
from ottla.server.handlers import fetch
from ottla.server.replicas.replication import Replication
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.metadata_records import RegisterBrokerRecord

TOPIC, PARTITIONS, FOLLOWER, EPOCH = "many", 20, 2, 20
VERSION = 18


class World:
    """Broker 1 leads twenty partitions, and broker 2 follows them in one session."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        image = image_of(1, FOLLOWER)
        self.topic_id = add_topic(image, TOPIC, PARTITIONS, replicas=[1, FOLLOWER])
        self.broker = broker_of(image)
        self.broker.replication = self.replication = Replication(self.broker, lambda: 10)
        self.now_ms = 1_000_000
        monkeypatch.setattr(Replication, "now_ms", lambda _self: self.now_ms)
        for index in range(PARTITIONS):
            log = host_log(self.broker, HostDisk(), str(directory), TOPIC, index)
            partition = self.partition(index)
            partition.replicas = [1, FOLLOWER]
            partition.leadership = Leadership(self.replication)
            partition.leadership.take(
                replicas=(1, FOLLOWER),
                isr=(1, FOLLOWER),
                leader_epoch=0,
                partition_epoch=0,
                end_offset=log.log_end_offset,
            )
        self.read: list[int] = []
        real = fetch._Fetch._read_as_follower

        def read(one: Any, fetched: Any, *arguments: Any) -> Any:
            self.read.append(fetched.index)
            return real(one, fetched, *arguments)

        monkeypatch.setattr(fetch._Fetch, "_read_as_follower", read)
        self.offsets = [0] * PARTITIONS
        self.session_id = self.session_epoch = 0

    def partition(self, index: int) -> Any:
        return self.broker.partitions.get(TOPIC, index)

    def fetch(self, *indexes: int, broker_epoch: int = EPOCH) -> dict[int, Any]:
        """What a fetch in the session answers, which names these partitions; by partition."""
        self.read.clear()
        response: FetchResponse = ask(self.broker, self.request(*indexes, broker_epoch=broker_epoch))
        assert response.error_code == 0
        self.session_id = response.session_id
        self.session_epoch += 1
        return {one.partition_index: one for topic in response.responses for one in topic.partitions}

    def request(self, *indexes: int, broker_epoch: int = EPOCH, max_wait_ms: int = 0) -> FetchRequest:
        return FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=FOLLOWER, replica_epoch=broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[FetchRequest.FetchTopic(topic_id=self.topic_id, partitions=self.asked(indexes))],
        )

    def asked(self, indexes: tuple[int, ...]) -> list[FetchRequest.FetchPartition]:
        return [
            FetchRequest.FetchPartition(
                partition=index,
                current_leader_epoch=0,
                fetch_offset=self.offsets[index],
                last_fetched_epoch=-1,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
            for index in indexes
        ]


@pytest.fixture(params=[False, True], ids=["at once", "in steps"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    if request.param:  # as if the partitions were too many to be looked at in one turn
        monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE", 0)
        monkeypatch.setattr(fetch, "_PARTITIONS_IN_STEP", 3)
    made = World(tmp_path, monkeypatch)
    assert set(made.fetch(*range(PARTITIONS))) == set(range(PARTITIONS))
    made.fetch()
    yield made
    for partition in made.broker.partitions:
        if partition.log is not None:
            partition.log.close(clean=False)


def test_nothing_is_looked_at_where_nothing_is_new(world: World) -> None:
    for _ in range(3):
        assert world.fetch() == {}
        assert world.read == []


def test_a_quiet_follower_never_lags(world: World) -> None:
    for _ in range(5):
        world.now_ms += world.replication.lag_max_ms // 2
        world.fetch()
    append(world.broker, TOPIC, 1, 2, 3)  # which it has not fetched yet
    leadership = world.partition(0).leadership
    assert leadership.lagging(world.partition(0).log.log_end_offset) == frozenset()
    world.now_ms += world.replication.lag_max_ms + 1
    assert leadership.lagging(world.partition(0).log.log_end_offset) == {FOLLOWER}


def test_a_leader_that_stood_still_does_not_take_its_followers_for_lagging(world: World) -> None:
    replication, half_ms = world.replication, world.replication.lag_max_ms // 2
    append(world.broker, TOPIC, 1)
    replication.shrink()
    world.now_ms += 3 * replication.lag_max_ms  # its fetches lie in the socket
    replication.shrink()
    assert world.partition(0).leadership.pending is None
    world.now_ms += half_ms
    replication.shrink()
    assert world.partition(0).leadership.pending.removed == {FOLLOWER}


def test_a_leader_that_is_always_late_removes_its_lagging_followers_at_every_other_look(
    world: World,
) -> None:
    replication = world.replication
    append(world.broker, TOPIC, 1)
    replication.shrink()
    for _ in range(2):
        assert world.partition(0).leadership.pending is None
        world.now_ms += replication.lag_max_ms
        replication.shrink()
    assert world.partition(0).leadership.pending.removed == {FOLLOWER}


def test_a_partition_that_grew_is_looked_at_alone_until_the_follower_knows_all(world: World) -> None:
    append(world.broker, TOPIC, 1, 2)
    assert set(world.fetch()) == {0}
    assert world.read == [0]
    assert set(world.fetch()) == {0}, "the records were not taken, so they come again"
    world.offsets[0] = 2
    # Its next fetch tells that it has them: the watermark moves, and it is told in the same answer.
    assert world.fetch(0)[0].high_watermark == 2
    assert world.partition(0).log.high_watermark == 2
    assert world.fetch() == {}
    assert world.read == []


def test_a_log_that_starts_elsewhere_now_is_news(world: World) -> None:
    append(world.broker, TOPIC, 1, 2)
    world.offsets[0] = 2
    world.fetch(0)
    world.fetch()
    world.partition(0).log.increase_log_start_offset(1, "a test")
    assert world.fetch()[0].log_start_offset == 1
    assert world.fetch() == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"leader_epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"is_leader": False}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"log": None}, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_partition_that_is_led_otherwise_is_an_error_at_once(
    world: World, change: dict[str, Any], code: ErrorCode
) -> None:
    partition = world.partition(3)
    log = partition.log
    for name, value in change.items():
        setattr(partition, name, value)
    assert {index: one.error_code for index, one in world.fetch().items()} == {3: code}
    partition.log = log


def test_a_follower_out_of_sync_is_looked_at_until_it_may_join(world: World) -> None:
    leadership = world.partition(5).leadership
    leadership.take(replicas=(1, FOLLOWER), isr=(1,), leader_epoch=0, partition_epoch=1, end_offset=0)
    world.fetch()
    assert set(world.read) == {5}
    assert leadership.pending is not None
    assert leadership.pending.added == FOLLOWER


def test_a_follower_that_was_replaced_is_refused_for_all_its_partitions(world: World) -> None:
    world.broker.image.replay(RegisterBrokerRecord(broker_id=FOLLOWER, broker_epoch=EPOCH + 1, fenced=False))
    answers = world.fetch()
    assert {one.error_code for one in answers.values()} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert len(answers) == PARTITIONS


def test_records_that_a_followers_own_fetch_brought_about_do_not_wait_for_its_deadline(world: World) -> None:
    """Whoever waits for a watermark may append once the fetch has moved it, such as a transaction's first
    write: the follower has looked at that partition already and does not watch it yet.
    """
    append(world.broker, TOPIC, 1)
    world.fetch()
    world.offsets[0] = 1

    def write_to_another() -> bool:
        append(world.broker, TOPIC, 2, index=1)
        return True

    world.partition(0).growth.add(write_to_another)

    async def fetch_and_wait() -> Any:
        request = world.request(0, max_wait_ms=10_000_000)
        answer = made(fetch.handle(world.broker, as_sent(request, VERSION), context_of(VERSION)))
        assert isinstance(answer, PendingResponse)
        for _ in range(10):  # turns of the loop
            await asyncio.sleep(0)
        assert answer.is_completed, "it waits for its deadline"
        return answer.response

    response = asyncio.run(fetch_and_wait())
    (told,) = response.responses
    assert [one.partition_index for one in told.partitions if one.records] == [1]
