"""ListOffsets: offsets by time on a log with records, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.handlers.support import add_topic, append, ask, broker_of, host_log, image_of

from ottla.host import HostDisk
from ottla.log.log import Log
from ottla.server.broker import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_offsets import ListOffsetsRequest

Asked = ListOffsetsRequest.ListOffsetsPartition
EPOCH = 3
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CONSUMER, DEBUGGING = -1, -2


@pytest.fixture
def broker(tmp_path: Path, disk: HostDisk) -> Broker:
    """Leads a partition with records of the times 1000, 2000, 9000, 3000, 4000 in two batches."""
    image = image_of(1)
    add_topic(image, "a", leader_epoch=EPOCH)
    broker = broker_of(image)
    host_log(broker, disk, str(tmp_path), "a")
    append(broker, "a", 1000, 2000, 9000)
    append(broker, "a", 3000, 4000)
    return broker


def log_of(broker: Broker) -> Log:
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    assert partition.log is not None
    return partition.log


def request_of(
    *partitions: Asked, replica_id: int = CONSUMER, isolation_level: int = 0
) -> ListOffsetsRequest:
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="a", partitions=list(partitions))]
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=topics)


def look_up(broker: Broker, timestamp: int, version: int | None = None, **request: int) -> Any:
    response = ask(broker, request_of(Asked(partition_index=0, timestamp=timestamp), **request), version)
    ((answer,),) = [topic.partitions for topic in response.topics]
    return answer


def facts(answer: Any) -> tuple[int, int, int, int]:
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (0, -1, 5, EPOCH)),
        (EARLIEST, (0, -1, 0, EPOCH)),
        (MAX_TIMESTAMP, (0, 9000, 2, EPOCH)),
        (-4, (0, -1, 0, EPOCH)),
        (-5, (0, -1, -1, -1)),
        (-6, (0, -1, -1, -1)),
        (0, (0, 1000, 0, EPOCH)),
        (1001, (0, 2000, 1, EPOCH)),
        (2500, (0, 9000, 2, EPOCH)),
        (9001, (0, -1, -1, -1)),
    ],
)
def test_a_time_stands_for_the_first_record_that_is_not_older(
    broker: Broker, timestamp: int, expected: tuple[int, int, int, int]
) -> None:
    assert facts(look_up(broker, timestamp)) == expected


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_a_special_time_is_refused_in_versions_that_do_not_have_it(
    broker: Broker, timestamp: int, version: int
) -> None:
    assert facts(look_up(broker, timestamp, version)) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


@pytest.mark.parametrize("version", range(1, 12))
def test_the_end_is_found_in_every_version(broker: Broker, version: int) -> None:
    answer = look_up(broker, LATEST, version)
    assert (answer.error_code, answer.offset) == (0, 5)


def test_a_read_committed_consumer_sees_the_last_stable_offset(broker: Broker) -> None:
    append(broker, "a", 5000, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert look_up(broker, LATEST, isolation_level=0).offset == 6
    assert look_up(broker, LATEST, isolation_level=1).offset == 5
    assert facts(look_up(broker, 9500, isolation_level=1)) == (0, -1, -1, -1)


def test_a_replica_sees_the_end_of_the_log_and_a_consumer_the_high_watermark(broker: Broker) -> None:
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    partition.isr = [1, 2]  # so that the high watermark waits for another
    append(broker, "a", 12000)
    assert look_up(broker, LATEST).offset == 5
    assert look_up(broker, LATEST, replica_id=2).offset == 6
    assert look_up(broker, MAX_TIMESTAMP).offset == -1  # it is not committed yet
    assert look_up(broker, MAX_TIMESTAMP, replica_id=2).offset == 5


def test_a_moved_log_start_is_the_earliest_offset(broker: Broker) -> None:
    log_of(broker).increase_log_start_offset(4, "test")
    assert facts(look_up(broker, EARLIEST)) == (0, -1, 4, EPOCH)


def test_nothing_is_found_by_time_in_an_empty_log(tmp_path: Path, disk: HostDisk) -> None:
    broker = broker_of(image_of(1, a=1))
    host_log(broker, disk, str(tmp_path), "a")
    assert facts(look_up(broker, 0)) == (0, -1, -1, -1)
    assert facts(look_up(broker, MAX_TIMESTAMP)) == (0, -1, -1, -1)
    assert look_up(broker, LATEST).offset == 0


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_whose_watermark_lags_behind_its_epoch_asks_for_patience(
    broker: Broker, version: int, code: ErrorCode
) -> None:
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    partition.isr = [1, 2]
    append(broker, "a", 12000)
    partition.leader_epoch = EPOCH + 1
    log_of(broker).assign_epoch_start_offset(EPOCH + 1, 6)
    assert look_up(broker, LATEST, version).error_code == code
    assert look_up(broker, 11000, version).error_code == code
    assert look_up(broker, 1500, version).error_code == 0
    assert look_up(broker, EARLIEST, version).error_code == 0
    assert look_up(broker, LATEST, version, replica_id=2).offset == 6


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH), (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_another_leader_epoch_is_refused(broker: Broker, epoch: int, code: ErrorCode) -> None:
    request = request_of(Asked(partition_index=0, timestamp=LATEST, current_leader_epoch=epoch))
    assert ask(broker, request).topics[0].partitions[0].error_code == code


def test_a_partition_that_is_named_twice_is_refused_once(broker: Broker) -> None:
    request = request_of(
        Asked(partition_index=0, timestamp=LATEST), Asked(partition_index=0, timestamp=EARLIEST)
    )
    request.topics.append(
        ListOffsetsRequest.ListOffsetsTopic(name="a", partitions=[Asked(partition_index=0)])
    )
    (topic,) = ask(broker, request).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.INVALID_REQUEST]


def change_leader(broker: Broker) -> None:
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    partition.is_leader = False


def lose_directory(broker: Broker) -> None:
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    partition.log = None


def stop_hosting(broker: Broker) -> None:
    partition = broker.partitions.get("a", 0)
    assert partition is not None
    broker.partitions.remove(partition)


def delete_topic(broker: Broker) -> None:
    stop_hosting(broker)
    broker.image.topics_by_name.clear()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (change_leader, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lose_directory, ErrorCode.KAFKA_STORAGE_ERROR),
        (stop_hosting, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (delete_topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_that_is_not_led_here_is_refused(
    broker: Broker, change: Callable[[Broker], None], code: ErrorCode
) -> None:
    change(broker)
    assert facts(look_up(broker, LATEST)) == (code, -1, -1, -1)


def test_a_debugging_client_may_ask_a_follower(broker: Broker) -> None:
    change_leader(broker)
    assert look_up(broker, LATEST, replica_id=DEBUGGING).offset == 5
    lose_directory(broker)
    assert look_up(broker, LATEST, replica_id=DEBUGGING).error_code == ErrorCode.KAFKA_STORAGE_ERROR
