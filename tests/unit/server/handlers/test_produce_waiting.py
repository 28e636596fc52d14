"""acks=all on a partition with followers: what a producer hears, and when."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.handlers.support import (
    add_topic,
    as_sent,
    ask_later,
    broker_of,
    context_of,
    host_log,
    image_of,
    start,
)

from ottla.coordinator.transactions.markers import Outcomes, WritableMarker
from ottla.host import HostClock, HostDisk
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.rare_paths import decided_by
from ottla.records.batch import Codec
from ottla.records.record import Record, build_batch
from ottla.records.validate import BYTES_AT_ONCE
from ottla.replication.leader import NEVER_MS, AcceptedChange
from ottla.server.broker import Broker
from ottla.server.coordinators.marker_writer import write_marker
from ottla.server.handlers.produce import handle
from ottla.server.net.connection import Connection
from ottla.server.net.step_runner import finished
from ottla.server.replicas.partition import Partition
from ottla.server.replicas.replication import Replication
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode, KafkaStorageError
from ottla.wire.messages.metadata_records import PartitionChangeRecord
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest


@pytest.fixture
def broker(tmp_path: Path, disk: HostDisk) -> Broker:
    """Leads a partition that brokers 2 and 3 follow; two must be in sync."""
    image = image_of(1, 2, 3)
    add_topic(image, "a", replicas=[1, 2, 3])
    broker = broker_of(image)
    host_log(broker, disk, str(tmp_path), "a")
    broker.replication = Replication(broker, lambda: 10)
    partition = hosted(broker)
    partition.min_insync_replicas = 2
    broker.replication.lead(partition, image.topics_by_name["a"].partitions[0])
    return broker


def hosted(broker: Broker) -> Partition:
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    return partition


def produce(broker: Broker, then: Callable[[Partition], None], *, timeout_ms: int = 30_000) -> Any:
    """The answer to a batch with acks=all, after something has happened to the partition."""
    batch = build_batch([Record(0, 1, None, b"one"), Record(1, 1, None, b"two")])
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.TopicProduceData(name="a", partition_data=[data])],
    )

    async def main() -> Any:
        asking = asyncio.ensure_future(ask_later(broker, request, 12))
        await asyncio.sleep(0)
        assert not asking.done()
        then(hosted(broker))
        return await asking

    response = asyncio.run(main())
    return response, response.responses[0].partition_responses[0]


def fetched(partition: Partition, node: int, offset: int) -> None:
    partition.follower_fetched(node, node * 10, offset, 0, names_epoch=True)


def test_it_is_told_once_all_in_sync_replicas_have_the_batch(broker: Broker) -> None:
    def follow(partition: Partition) -> None:
        fetched(partition, 2, 2)
        assert partition.outcome(2, 0) is None
        fetched(partition, 3, 2)

    _, answer = produce(broker, follow)
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_it_is_told_when_too_few_are_left_in_sync(broker: Broker) -> None:
    def shrink(partition: Partition) -> None:
        leadership, log = partition.leadership, partition.log
        assert leadership is not None
        assert log is not None
        fetched(partition, 2, 2)
        leadership.min_insync_replicas = 1  # so that the watermark moves although the others are gone
        leadership.followers[3].caught_up_ms = leadership.followers[2].caught_up_ms = NEVER_MS
        proposal = leadership.shrinkage(log.log_end_offset + 1)
        assert proposal is not None
        partition.isr_change_accepted(proposal, AcceptedChange(0, 1, (1,)))

    _, answer = produce(broker, shrink)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_it_is_told_at_once_that_another_node_leads_and_which(broker: Broker) -> None:
    def lose(partition: Partition) -> None:
        broker.image.replay(PartitionChangeRecord(topic_id=partition.topic_id, partition_id=0, leader=2))
        partition.is_leader = False
        partition.leadership = None
        partition.notify_all()

    response, answer = produce(broker, lose)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)
    assert [(one.node_id, one.host) for one in response.node_endpoints] == [(2, "host2")]


@pytest.mark.parametrize("repeats", [1, 30])
def test_a_fetch_of_a_follower_makes_a_request_look_only_at_what_was_fetched(
    broker: Broker, tmp_path: Path, disk: HostDisk, monkeypatch: pytest.MonkeyPatch, repeats: int
) -> None:
    topics = [f"topic-{number}" for number in range(30)]
    for topic in topics:
        add_topic(broker.image, topic, replicas=[1, 2])
        host_log(broker, disk, str(tmp_path), topic)
        partition = broker.partitions.get(topic, 0)
        assert partition is not None
        assert broker.replication is not None
        broker.replication.lead(partition, broker.image.topics_by_name[topic].partitions[0])
    looks = 0
    outcome = Partition.outcome

    def counted(partition: Partition, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        nonlocal looks
        looks += 1
        return outcome(partition, end_offset, leader_epoch)

    monkeypatch.setattr(Partition, "outcome", counted)
    request = request_of(-1, *topics)
    for data in request.topic_data:
        data.partition_data *= repeats

    async def main() -> Any:
        asking = asyncio.ensure_future(ask_later(broker, request, 12))
        await asyncio.sleep(0)
        for topic in topics:
            assert not asking.done()
            partition = broker.partitions.get(topic, 0)
            assert partition is not None
            fetched(partition, 2, repeats)
        return await asking

    response = asyncio.run(main())
    answers = [answer for topic in response.responses for answer in topic.partition_responses]
    assert [answer.error_code for answer in answers] == [0] * 30 * repeats
    assert looks <= 3 * len(answers)


def test_it_is_told_when_its_time_is_over(broker: Broker) -> None:
    _, answer = produce(broker, lambda partition: fetched(partition, 2, 2), timeout_ms=20)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_request_that_took_long_keeps_no_records_while_it_waits_for_replicas(broker: Broker) -> None:
    batch = build_batch([Record(0, 1, None, bytes(2 * BYTES_AT_ONCE))], codec=Codec.ZSTD)
    records = memoryview(batch)
    kept = weakref.ref(records)
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name="a", partition_data=[data])],
    )
    del data, records
    broker.disk = HostDisk()
    log = hosted(broker).log
    assert log is not None

    async def main() -> None:
        answer = handle(broker, request, context_of(12))
        assert isinstance(answer, PendingResponse)
        while not hosted(broker).growth.watchers:
            await asyncio.sleep(0.001)
        assert log.log_end_offset == 1
        while kept() is not None:  # the thread that checked them drops them in a moment
            gc.collect()
            await asyncio.sleep(0.001)
        assert not answer.is_completed
        answer.abandon()

    asyncio.run(main())


class _SlowClock(HostClock):
    """A clock on which each reading takes ten milliseconds: a request appends one batch in each turn."""

    def __init__(self) -> None:
        self.now = HostClock.monotonic()

    def monotonic(self) -> float:
        self.now += 0.01
        return self.now


@pytest.fixture
def pair(tmp_path: Path, disk: HostDisk) -> Broker:
    """Leads two partitions that broker 2 follows."""
    image = image_of(1, 2)
    add_topic(image, "a", 2, replicas=[1, 2])
    broker = broker_of(image, clock=_SlowClock())
    broker.replication = Replication(broker, lambda: 10)
    for index in (0, 1):
        host_log(broker, disk, str(tmp_path), "a", index)
        broker.replication.lead(_hosted(broker, index), image.topics_by_name["a"].partitions[index])
    return broker


def _hosted(broker: Broker, index: int) -> Partition:
    partition = broker.partitions.get("a", index)
    assert partition is not None
    return partition


def _batch() -> memoryview:
    return memoryview(build_batch([Record(0, 1, None, b"one")]))


def _truncate_and_lead_again(broker: Broker, partition: Partition) -> None:
    """Another node leads in epoch 1, without the records of this one, which leads again in epoch 2."""
    registration = broker.image.topics_by_name["a"].partitions[partition.index]
    log = partition.log
    assert log is not None
    assert broker.replication is not None
    partition.is_leader, partition.leader_epoch = False, 1
    broker.replication.leave(partition)
    partition.notify_all()
    log.truncate_to(0)
    partition.is_leader, partition.leader_epoch = True, 2
    log.assign_epoch_start_offset(2, log.log_end_offset)
    broker.replication.lead(partition, registration)
    partition.append(_batch(), acks=1, now_ms=1)


def test_a_batch_that_was_truncated_while_the_next_was_appended_is_not_acknowledged(pair: Broker) -> None:
    data = [ProduceRequest.PartitionProduceData(index=index, records=_batch()) for index in (0, 1)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name="a", partition_data=data)],
    )
    first, second = (_hosted(pair, index) for index in (0, 1))

    async def main() -> Any:
        asking = asyncio.ensure_future(ask_later(pair, request, 12))
        await asyncio.sleep(0)
        assert first.log is not None
        assert second.log is not None
        assert (first.log.log_end_offset, second.log.log_end_offset) == (1, 0)
        _truncate_and_lead_again(pair, first)
        while not second.log.log_end_offset:
            await asyncio.sleep(0)
        for partition in (first, second):
            partition.follower_fetched(2, 20, 1, 0, names_epoch=True)
        return await asking

    answers = asyncio.run(main()).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]


def test_a_committed_batch_stays_acknowledged_while_the_next_one_waits(pair: Broker) -> None:
    data = [ProduceRequest.PartitionProduceData(index=index, records=_batch()) for index in (0, 1)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name="a", partition_data=data)],
    )
    first, second = (_hosted(pair, index) for index in (0, 1))

    async def main() -> Any:
        asking = asyncio.ensure_future(ask_later(pair, request, 12))
        while not second.growth.watchers:
            await asyncio.sleep(0)
        first.follower_fetched(2, 20, 1, 0, names_epoch=True)
        first.is_leader = False
        first.notify_all()
        second.follower_fetched(2, 20, 1, 0, names_epoch=True)
        return await asking

    answers = asyncio.run(main()).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [0, 0]


def test_a_marker_that_was_truncated_while_the_next_was_appended_is_not_acknowledged(pair: Broker) -> None:
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="a", partition_indexes=[0, 1])
    marker = WritableMarker(producer_id=5, producer_epoch=0, transaction_result=True, topics=[topic])

    async def main() -> Outcomes:
        steps = write_marker(pair, marker)
        next(steps)
        next(steps)
        _truncate_and_lead_again(pair, _hosted(pair, 0))
        outcomes = finished(steps)
        assert isinstance(outcomes, PendingResponse)
        for index in (0, 1):
            _hosted(pair, index).follower_fetched(2, 20, 1, 0, names_epoch=True)
        assert outcomes.is_completed
        decided: Outcomes = outcomes.response
        return decided

    assert asyncio.run(main()) == {("a", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER, ("a", 1): ErrorCode.NONE}


class FailingDirectories:
    """Flushes that fail, of a directory that is not offline yet."""

    def __init__(self) -> None:
        self.logs: dict[Any, Any] = {}
        self.flushes = 0

    async def flush(self, log: Log) -> None:
        self.flushes += 1
        raise KafkaStorageError(f"{log.name} could not be flushed.")


@pytest.fixture
def flushed(tmp_path: Path, disk: HostDisk) -> Broker:
    """Leads a partition without followers, whose batches are flushed before they are acknowledged."""
    image = image_of(1)
    add_topic(image, "a", replicas=[1])
    broker = broker_of(image)
    host_log(broker, disk, str(tmp_path), "a", flush_messages="1")
    broker.directories = FailingDirectories()  # type: ignore[assignment]
    return broker


def request_of(acks: int, *topics: str, timeout_ms: int = 30_000) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                partition_data=[
                    ProduceRequest.PartitionProduceData(
                        index=0, records=memoryview(build_batch([Record(0, 1, None, b"one")]))
                    )
                ],
            )
            for topic in topics or ("a",)
        ],
    )


@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_whose_flush_failed_is_not_acknowledged(flushed: Broker, acks: int) -> None:
    response = asyncio.run(ask_later(flushed, request_of(acks), 12))
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_producer_that_wants_no_answers_loses_its_connection_when_a_flush_fails(
    flushed: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(12)
    reasons: list[str] = []
    monkeypatch.setattr(Connection, "close", lambda _connection, reason: reasons.append(reason))

    async def main() -> None:
        assert handle(flushed, as_sent(request_of(0), 12), context) is None
        await asyncio.gather(*flushed._under_way)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert flushed.directories.flushes == 1  # type: ignore[attr-defined]
    assert len(reasons) == 1


def test_a_producer_that_wants_no_answers_loses_its_connection_at_once_when_an_append_fails_beside_a_flush(
    flushed: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[str] = []
    monkeypatch.setattr(Connection, "close", lambda _connection, reason: reasons.append(reason))

    async def main() -> int:
        handle(flushed, as_sent(request_of(0, "a", "missing"), 12), context_of(12))
        closed_at_once = len(reasons)
        await asyncio.gather(*flushed._under_way)
        return closed_at_once

    assert asyncio.run(main()) == 1
    assert "acks=0 failed" in reasons[0]


async def answered_in_few_turns(broker: Broker, acks: int, then: Callable[[], None]) -> Any:
    """The answer about `a`; `then` happens after its append and before the request's next batch, to `b`."""
    with decided_by(lambda point: point == "a produce request goes on later"):
        answer = start(broker, request_of(acks, "a", "b"), 12, "PLAINTEXT")
        assert isinstance(answer, PendingResponse)
        then()
        for _ in range(20):
            await asyncio.sleep(0)
    assert answer.is_completed
    return answer.response.responses[0].partition_responses[0]


def test_a_batch_that_is_committed_while_its_request_still_appends_is_answered_at_once(
    broker: Broker, tmp_path: Path, disk: HostDisk
) -> None:
    add_topic(broker.image, "b", replicas=[1])
    host_log(broker, disk, str(tmp_path), "b")

    def follow() -> None:
        fetched(hosted(broker), 2, 1)
        fetched(hosted(broker), 3, 1)

    answer = asyncio.run(answered_in_few_turns(broker, -1, follow))
    assert (answer.error_code, answer.base_offset) == (0, 0)


@pytest.mark.parametrize("is_offline", [False, True])
def test_a_batch_that_is_flushed_while_its_request_still_appends_is_answered_at_once(
    flushed: Broker, tmp_path: Path, disk: HostDisk, is_offline: bool
) -> None:
    add_topic(flushed.image, "b", replicas=[1])
    host_log(flushed, disk, str(tmp_path), "b")
    partition = hosted(flushed)

    def flush() -> None:
        assert partition.log is not None
        partition.log.flush()
        if is_offline:
            partition.log = None

    answer = asyncio.run(answered_in_few_turns(flushed, 1, flush))
    assert answer.error_code == (ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NONE)


class HeldDirectories:
    """Flushes one log; the flush of any other never ends."""

    def __init__(self, flushed_topic: str) -> None:
        self.logs: dict[Any, Any] = {}
        self._flushed_topic = flushed_topic

    async def flush(self, log: Log) -> None:
        if log.topic != self._flushed_topic:
            await asyncio.Event().wait()
        log.flush()


def test_a_leader_that_acknowledges_by_itself_times_out_only_the_batches_whose_flush_is_open(
    broker: Broker, tmp_path: Path, disk: HostDisk
) -> None:
    log = hosted(broker).log
    assert log is not None
    log.reconfigure(LogConfig.from_texts({"flush.messages": "1"}))  # its followers never fetch
    add_topic(broker.image, "b", replicas=[1])
    host_log(broker, disk, str(tmp_path), "b", flush_messages="1")
    broker.directories = HeldDirectories("a")  # type: ignore[assignment]
    response = asyncio.run(ask_later(broker, request_of(1, "a", "b", timeout_ms=20), 12))
    assert [topic.partition_responses[0].error_code for topic in response.responses] == [
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
    ]
