"""Markers of transactions on a partition with followers: when their outcome is reported."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.server.handlers.support import add_topic, broker_of, host_log, image_of

from ottla.coordinator.transactions.markers import Outcomes, WritableMarker
from ottla.host import HostDisk
from ottla.server.broker import Broker
from ottla.server.coordinators.marker_writer import write_marker
from ottla.server.net.long_requests import Steps
from ottla.server.net.step_runner import finished
from ottla.server.replicas.replication import Replication
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

MARKER = WritableMarker(
    producer_id=7,
    producer_epoch=0,
    transaction_result=True,
    topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="a", partition_indexes=[0, 1])],
)


@pytest.fixture
def broker(tmp_path: Path, disk: HostDisk) -> Broker:
    """Leads one partition of the two that the marker names; broker 2 follows it."""
    image = image_of(1, 2)
    add_topic(image, "a", replicas=[1, 2])
    broker = broker_of(image)
    broker.replication = Replication(broker, lambda: 10)
    host_log(broker, disk, str(tmp_path), "a")
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    broker.replication.lead(partition, image.topics_by_name["a"].partitions[0])
    return broker


def test_a_marker_that_is_committed_while_the_rest_is_appended_is_reported_at_once(broker: Broker) -> None:
    def write() -> Steps[Outcomes | PendingResponse]:
        steps = write_marker(broker, MARKER)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                written: Outcomes | PendingResponse = end.value
                return written
            partition = broker.partitions.get("a", 0)
            assert partition is not None
            assert partition.log is not None
            if partition.log.log_end_offset == 1:
                partition.follower_fetched(2, 20, 1, 0, names_epoch=True)
            yield

    async def main() -> Outcomes | PendingResponse:
        return finished(write())

    assert asyncio.run(main()) == {
        ("a", 0): ErrorCode.NONE,
        ("a", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
