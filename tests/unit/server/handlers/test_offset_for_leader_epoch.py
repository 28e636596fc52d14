"""OffsetForLeaderEpoch: where epochs end in a leader's log."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.handlers.support import append, ask, broker_of, host_log, image_of

from ottla.host import HostDisk
from ottla.server.broker import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

Asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition


@pytest.fixture
def broker(tmp_path: Path, disk: HostDisk) -> Broker:
    """Leads a partition with epoch 0 in offsets 0 to 2 and epoch 4 from there on."""
    broker = broker_of(image_of(1, a=1))
    log = host_log(broker, disk, str(tmp_path), "a")
    append(broker, "a", 1, 2, 3)
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    partition.leader_epoch = 4
    log.assign_epoch_start_offset(4, log.log_end_offset)
    append(broker, "a", 4)
    return broker


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Asked(leader_epoch=0), (0, 0, 3)),
        (Asked(leader_epoch=2), (0, 0, 3)),
        (Asked(leader_epoch=4), (0, 4, 4)),
        (Asked(leader_epoch=5), (0, -1, -1)),
        (Asked(leader_epoch=-1), (0, -1, -1)),
        (Asked(leader_epoch=0, current_leader_epoch=4), (0, 0, 3)),
        (Asked(leader_epoch=0, current_leader_epoch=3), (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
        (Asked(leader_epoch=0, current_leader_epoch=9), (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        (Asked(leader_epoch=0, partition=7), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(
    broker: Broker, version: int, asked: Asked, expected: tuple[int, int, int]
) -> None:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="a", partitions=[asked])
    response = ask(broker, OffsetForLeaderEpochRequest(topics=[topic]), version)
    (answer,) = response.topics[0].partitions
    assert answer.partition == asked.partition
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == expected
