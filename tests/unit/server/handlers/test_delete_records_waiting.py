"""DeleteRecords on partitions with followers: what the client hears, and when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.unit.server.handlers.support import (
    add_topic,
    append,
    ask_later,
    broker_of,
    host_log,
    image_of,
)

from ottla.host import HostDisk
from ottla.server.broker import Broker
from ottla.server.replicas.partition import Partition
from ottla.server.replicas.replication import Replication
from ottla.wire.messages.delete_records import DeleteRecordsRequest
from ottla.wire.messages.metadata_records import BrokerRegistrationChangeRecord

TOPICS = ("a", "b")


class _Directories:
    async def checkpoint_log_starts(self) -> None:
        pass


def _hosted(broker: Broker, topic: str) -> Partition:
    partition = broker.partitions.get(topic, 0)
    assert partition is not None
    return partition


def _fetched(partition: Partition, node: int, log_start: int) -> None:
    partition.follower_fetched(node, node * 10, 2, log_start, names_epoch=True)


def _fence(broker: Broker, node: int, change: int) -> None:
    broker.image.replay(BrokerRegistrationChangeRecord(broker_id=node, broker_epoch=node * 10, fenced=change))


def test_a_replica_that_returns_after_a_partition_was_decided_fails_nobody(
    tmp_path: Path, disk: HostDisk
) -> None:
    image = image_of(1, 2, 3)
    broker = broker_of(image)
    broker.directories = _Directories()  # type: ignore[assignment]
    broker.replication = Replication(broker, lambda: 10)
    for topic in TOPICS:
        add_topic(image, topic, replicas=[1, 2, 3])
        host_log(broker, disk, str(tmp_path), topic)
        broker.replication.lead(_hosted(broker, topic), image.topics_by_name[topic].partitions[0])
        append(broker, topic, 1, 1)
        for node in (2, 3):
            _fetched(_hosted(broker, topic), node, 0)
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[partition]) for topic in TOPICS
        ],
        timeout_ms=60_000,
    )

    async def main() -> Any:
        _fence(broker, 3, 1)
        asking = asyncio.ensure_future(ask_later(broker, request, 2))
        while not all(_hosted(broker, topic).growth.watchers for topic in TOPICS):
            await asyncio.sleep(0)
        _fetched(_hosted(broker, "a"), 2, 2)
        _fence(broker, 3, -1)
        _fetched(_hosted(broker, "b"), 2, 2)
        assert not asking.done()
        _fetched(_hosted(broker, "b"), 3, 2)
        return await asking

    response = asyncio.run(main())
    answers = [topic.partitions[0] for topic in response.topics]
    assert [(answer.error_code, answer.low_watermark) for answer in answers] == [(0, 2), (0, 2)]
