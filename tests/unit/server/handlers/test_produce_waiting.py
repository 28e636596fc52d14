"""acks=all on a partition with followers: what a producer hears, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.handlers.support import add_topic, ask_later, broker_of, host_log, image_of

from ottla.host import HostDisk
from ottla.records.record import Record, build_batch
from ottla.replication.leader import NEVER_MS, Agreed
from ottla.server.broker import Broker
from ottla.server.partitions import Partition
from ottla.server.replicating import Replication
from ottla.wire.errors import ErrorCode
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
