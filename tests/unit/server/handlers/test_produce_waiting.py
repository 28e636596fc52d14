"""acks=all on a partition with followers: what a producer hears, and when."""

from __future__ import annotations

import asyncio
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
)

from ottla.host import HostDisk
from ottla.log.log import Log
from ottla.records.record import Record, build_batch
from ottla.replication.leader import NEVER_MS, Agreed
from ottla.server.broker import Broker
from ottla.server.connection import Connection
from ottla.server.handlers.produce import handle
from ottla.server.partitions import Partition
from ottla.server.replicating import Replication
from ottla.wire.errors import ErrorCode, KafkaStorageError
from ottla.wire.messages.metadata_records import PartitionChangeRecord
from ottla.wire.messages.produce import ProduceRequest


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
        assert partition.outcome(2) is None
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
        partition.isr_agreed(proposal, Agreed(0, 1, (1,)))

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


def test_it_is_told_when_its_time_is_over(broker: Broker) -> None:
    _, answer = produce(broker, lambda partition: fetched(partition, 2, 2), timeout_ms=20)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


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


def request_of(acks: int) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(
        index=0, records=memoryview(build_batch([Record(0, 1, None, b"one")]))
    )
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name="a", partition_data=[data])],
    )


@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_whose_flush_failed_is_not_acknowledged(flushed: Broker, acks: int) -> None:
    response = asyncio.run(ask_later(flushed, request_of(acks), 12))
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_producer_that_wants_no_answers_loses_its_connection_when_a_flush_fails(
    flushed: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(flushed, 12)
    reasons: list[str] = []
    monkeypatch.setattr(Connection, "close", lambda _connection, reason: reasons.append(reason))

    async def main() -> None:
        assert handle(flushed, as_sent(request_of(0), 12), context) is None
        await asyncio.gather(*flushed._under_way)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert flushed.directories.flushes == 1  # type: ignore[attr-defined]
    assert len(reasons) == 1
