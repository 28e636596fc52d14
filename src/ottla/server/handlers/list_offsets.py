"""ListOffsets (2), versions 1 to 11.

Returns the offset for a timestamp: -1 the end that the client may read (the high watermark, the last stable
offset for read_committed, the log end for a replica), -2 the earliest, -3 the record with the largest
timestamp, -4 the earliest in the local log, -5 the latest in remote storage, -6 the earliest that is not in
it yet (both -1 without remote storage); a time: the first record at or after it. Nothing found: offset and
timestamp -1 without an error. v2 adds the isolation level; v4 leader epochs; v5 OFFSET_NOT_AVAILABLE, before
it LEADER_NOT_AVAILABLE, while a new leader's high watermark has not reached its epoch; v7 adds timestamp -3,
v8 -4, v9 -5, v11 -6: earlier they are UNSUPPORTED_VERSION, as is any other negative timestamp. A partition
that is named twice is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ottla.log.log import Log
from ottla.log.timestamp_search import BatchSearch, TimestampOffset
from ottla.records.validate import BYTES_AT_ONCE, TakesLong
from ottla.server.handlers.unexpected_errors import error_of
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasBatchWorker, HasDirectories, HasFailures, HasImage, HasPartitions
from ottla.server.replicas.partition import Partition, hosted_partition
from ottla.wire.errors import (
    ErrorCode,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    OffsetNotAvailable,
    UnsupportedVersion,
)
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from ottla.log.directories.log_directories import LogDirectories

KEY = 2

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSIONS = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

CONSUMER = -1
DEBUGGING = -2
READ_COMMITTED = 1

_NOWHERE = TimestampOffset(-1, -1, None)
_NOT_THERE = TimestampOffset(-1, 2**63 - 1, None)
"""Beyond every visible offset."""

_Asked = ListOffsetsRequest.ListOffsetsPartition
_Answer = ListOffsetsResponse.ListOffsetsPartitionResponse


class Parts(HasImage, HasPartitions, HasDirectories, HasBatchWorker, HasFailures, Protocol):
    """The parts of a node that ListOffsets needs."""


class _Later(NamedTuple):
    """A partition whose search takes long, and the response that it completes."""

    topic: str
    asked: _Asked
    answer: _Answer


def handle(
    parts: Parts, request: ListOffsetsRequest, context: RequestContext
) -> Steps[ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]]:
    later: list[_Later] = []
    times: dict[str, dict[int, _Asked]] = {}
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        partitions = times.setdefault(topic.name, {})
        for asked in topic.partitions:
            if partitions.setdefault(asked.partition_index, asked) is not asked:
                repeated.add((topic.name, asked.partition_index))
            yield
    response = ListOffsetsResponse()
    for name, partitions in times.items():
        if partitions:
            found = ListOffsetsResponse.ListOffsetsTopicResponse(name=name)
            response.topics.append(found)
        for index, asked in partitions.items():
            is_repeated = (name, index) in repeated
            try:
                answer = _answer(parts, request, context.version, name, asked, is_repeated)
            except TakesLong:
                answer = _Answer(partition_index=index)
                later.append(_Later(name, asked, answer))
            found.partitions.append(answer)
            yield
    return response if not later else _search_later(parts, request, context.version, response, later)


async def _search_later(
    parts: Parts,
    request: ListOffsetsRequest,
    version: int,
    response: ListOffsetsResponse,
    later: list[_Later],
) -> ListOffsetsResponse:
    """Search batches on another thread that are too large for the event loop."""
    for topic, asked, answer in later:
        try:
            partition = hosted_partition(parts, topic, asked.partition_index)
            log = _log(request, partition, asked)
            first_offset, found = log.log_start_offset, None
            while found is None and (
                search := _next_search(parts.directories, log, asked.timestamp, first_offset)
            ):
                found = await parts.batch_worker.run(search.find)
                first_offset = search.header.last_offset + 1
        except Exception as raised:  # noqa: BLE001 - it concerns this partition alone
            error = error_of(parts.failures, raised, "ListOffsets", topic, asked.partition_index)
            _refuse(answer, error, version)
            continue
        searched = _answer(parts, request, version, topic, asked, False, found or _NOT_THERE)
        for name in type(answer).__slots__:
            setattr(answer, name, getattr(searched, name))
    return response


def _answer(
    parts: Parts,
    request: ListOffsetsRequest,
    version: int,
    topic: str,
    asked: _Asked,
    is_repeated: bool,
    searched: TimestampOffset | None = None,
) -> _Answer:
    """One partition's result. `searched`: the result of a search by timestamp.

    TakesLong if there is none, and the search cannot run here.
    """
    try:
        if is_repeated:
            raise InvalidRequest(
                f"Partition {asked.partition_index} of {topic} occurs more than once in the request."
            )
        if asked.timestamp < 0 and version < _FIRST_VERSIONS.get(asked.timestamp, version + 1):
            raise UnsupportedVersion(f"Version {version} does not support timestamp {asked.timestamp}.")
        partition = hosted_partition(parts, topic, asked.partition_index)
        found = _find(parts.directories, request, partition, asked, searched)
    except TakesLong:
        raise
    except Exception as raised:  # noqa: BLE001 - it concerns this partition alone
        error = error_of(parts.failures, raised, "ListOffsets", topic, asked.partition_index)
        refused = _Answer(partition_index=asked.partition_index)
        _refuse(refused, error, version)
        return refused
    answer = _Answer(partition_index=asked.partition_index, timestamp=found.timestamp, offset=found.offset)
    if version >= 4 and found.leader_epoch is not None:
        answer.leader_epoch = found.leader_epoch
    return answer


def _refuse(answer: _Answer, error: KafkaError, version: int) -> None:
    answer.error_code = error.code
    if isinstance(error, OffsetNotAvailable) and version < 5:
        answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE


def _log(request: ListOffsetsRequest, partition: Partition, asked: _Asked) -> Log:
    if request.replica_id != DEBUGGING:
        return partition.leader_log(asked.current_leader_epoch)
    partition.check_epoch(asked.current_leader_epoch)  # it may read a follower too
    if partition.log is None:
        raise KafkaStorageError(f"The log directory of {partition.topic}-{partition.index} is offline.")
    return partition.log


def _find(
    directories: LogDirectories,
    request: ListOffsetsRequest,
    partition: Partition,
    asked: _Asked,
    searched: TimestampOffset | None,
) -> TimestampOffset:
    log = _log(request, partition, asked)
    is_client = request.replica_id == CONSUMER
    time = asked.timestamp
    if time in (EARLIEST, EARLIEST_LOCAL):
        return _earliest(log)
    if not is_client:
        limit_offset = log.log_end_offset
    elif request.isolation_level == READ_COMMITTED:
        limit_offset = log.last_stable_offset
    else:
        limit_offset = log.high_watermark
    if time == LATEST:
        if is_client:
            _check_watermark(partition, log)
        return TimestampOffset(-1, limit_offset, partition.leader_epoch)
    found = searched or _search(directories, log, time)
    if found is None or found.offset >= limit_offset:
        if is_client:
            _check_watermark(partition, log)
        return _NOWHERE
    return found


def _earliest(log: Log) -> TimestampOffset:
    first = log.epochs.earliest
    is_known = first is not None and first.start_offset <= log.log_start_offset
    return TimestampOffset(-1, log.log_start_offset, first.epoch if first is not None and is_known else None)


def _search(directories: LogDirectories, log: Log, time: int) -> TimestampOffset | None:
    """The first record at or after a timestamp, or the one with the largest; None if there is none."""
    if time in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    first_offset = log.log_start_offset
    while (search := _next_search(directories, log, time, first_offset)) is not None:
        found = search.find(BYTES_AT_ONCE)
        if found is not None:
            return found
        first_offset = search.header.last_offset + 1
    return None


def _next_search(directories: LogDirectories, log: Log, time: int, first_offset: int) -> BatchSearch | None:
    """The next batch to search."""
    try:
        if time != MAX_TIMESTAMP:
            return log.batch_for_timestamp(time, first_offset)
        return log.segments.batch_of_max_timestamp() if first_offset == log.log_start_offset else None
    except OSError as error:
        raise directories.storage_error(log, error) from error


def _check_watermark(partition: Partition, log: Log) -> None:
    """Raise while a new leader does not know its followers' progress yet: the offset could decrease."""
    if log.epochs.latest_epoch != partition.leader_epoch:
        return
    epoch_start = log.epochs.entries[-1].start_offset
    if epoch_start > log.high_watermark:
        raise OffsetNotAvailable(
            f"The high watermark {log.high_watermark} of {log.name} has not reached offset {epoch_start}, "
            f"where leader epoch {partition.leader_epoch} began."
        )


API = Api(KEY, handle)
