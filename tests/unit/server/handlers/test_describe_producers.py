"""DescribeProducers: what a log remembers of its producers."""

from __future__ import annotations

from pathlib import Path

from tests.unit.server.handlers.support import append, ask, broker_of, host_log, image_of

from ottla.host import HostDisk
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_producers import DescribeProducersRequest


def request_of(topic: str, *indexes: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=list(indexes))]
    )


def test_producers_come_with_their_last_sequence_and_open_transaction(tmp_path: Path, disk: HostDisk) -> None:
    broker = broker_of(image_of(1, a=1))
    host_log(broker, disk, str(tmp_path), "a")
    append(broker, "a", 1000, 2000, producer_id=5, producer_epoch=1, base_sequence=0)
    append(broker, "a", 3000, producer_id=6, producer_epoch=0, base_sequence=0, transactional=True)
    (partition,) = ask(broker, request_of("a", 0)).topics[0].partitions
    assert (partition.error_code, partition.error_message) == (0, None)
    seen = {one.producer_id: one for one in partition.active_producers}
    assert set(seen) == {5, 6}
    assert (seen[5].producer_epoch, seen[5].last_sequence, seen[5].last_timestamp) == (1, 1, 2000)
    assert (seen[5].coordinator_epoch, seen[5].current_txn_start_offset) == (-1, -1)
    assert seen[6].current_txn_start_offset == 2


def test_a_follower_answers_too(tmp_path: Path, disk: HostDisk) -> None:
    broker = broker_of(image_of(1, a=1))
    host_log(broker, disk, str(tmp_path), "a")
    append(broker, "a", 1000, producer_id=5, producer_epoch=1, base_sequence=0)
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    partition.is_leader = False
    assert len(ask(broker, request_of("a", 0)).topics[0].partitions[0].active_producers) == 1


def test_what_is_not_here_is_refused(tmp_path: Path, disk: HostDisk) -> None:
    broker = broker_of(image_of(1, a=2))
    host_log(broker, disk, str(tmp_path), "a")
    codes = [one.error_code for one in ask(broker, request_of("a", 0, 1, 2)).topics[0].partitions]
    assert codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    missing = ask(broker, request_of("missing", 0)).topics[0].partitions[0]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    invalid = ask(broker, request_of("not a name", 0)).topics[0].partitions[0]
    assert invalid.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "not a name" in invalid.error_message


def test_an_offline_directory_is_a_storage_error(tmp_path: Path, disk: HostDisk) -> None:
    broker = broker_of(image_of(1, a=1))
    host_log(broker, disk, str(tmp_path), "a")
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    partition.log = None
    assert ask(broker, request_of("a", 0)).topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
