"""DeleteRecords (21), versions 0 to 2.

Moves a partition's log start up to an offset, -1 for the high watermark, and answers with where the log
starts now (the low watermark). Records before it are gone for readers at once; their segments go with the
next round of retention. The new start is written to disk before the answer leaves, and every follower that is
alive has it too, or the answer is REQUEST_TIMED_OUT.

Refused: internal topics (INVALID_TOPIC_EXCEPTION), topics that are only compacted (POLICY_VIOLATION), offsets
below -1 or above the high watermark (OFFSET_OUT_OF_RANGE).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.controller.topic_names import is_internal
from ottla.server.handlers.common import hosted_partition
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.replicas.partition import Partition
from ottla.wire.errors import (
    ErrorCode,
    InvalidTopicException,
    KafkaError,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 21

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1

_Result = DeleteRecordsResponse.DeleteRecordsPartitionResult


async def handle(
    broker: Broker, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    results: dict[str, dict[int, _Result]] = {}
    followed: dict[Partition, tuple[int, _Result]] = {}
    await broker.step_runner.run(_delete_all(broker, request, results, followed))
    if any(result.error_code == 0 for partitions in results.values() for result in partitions.values()):
        await broker.directories.checkpoint_log_starts()
    if followed:
        waiting = [(partition, offset, result) for partition, (offset, result) in followed.items()]
        await _wait_for_followers(waiting, request.timeout_ms)
    return await broker.step_runner.run(_response(results))


def _response(results: dict[str, dict[int, _Result]]) -> Steps[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    for name, partitions in results.items():
        response.topics.append(
            DeleteRecordsResponse.DeleteRecordsTopicResult(name=name, partitions=list(partitions.values()))
        )
        yield
    return response


def _delete_all(
    broker: Broker,
    request: DeleteRecordsRequest,
    results: dict[str, dict[int, _Result]],
    followed: dict[Partition, tuple[int, _Result]],
) -> Steps[None]:
    for topic in request.topics:
        partitions = results.setdefault(topic.name, {})
        for asked in topic.partitions:
            result = _delete(broker, topic.name, asked.partition_index, asked.offset)
            partitions[asked.partition_index] = result
            partition = broker.partitions.get(topic.name, asked.partition_index)
            if result.error_code == 0 and partition is not None and partition.leadership is not None:
                followed[partition] = (result.low_watermark, result)
            yield


async def _wait_for_followers(followed: list[tuple[Partition, int, _Result]], timeout_ms: int) -> None:
    """Until the logs of all followers that are alive start where they should."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def check() -> bool:
        if not done.done() and all([_is_decided(*one) for one in followed]):  # noqa: C419 - each is noted
            done.set_result(None)
        return done.done()

    tickets = [(partition.growth, partition.growth.add(check)) for partition, _, _ in followed]
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            check()
            await done
    except TimeoutError:
        for partition, offset, result in followed:
            if not _is_decided(partition, offset, result):
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
    finally:
        for watched, ticket in tickets:
            watched.remove(ticket)


def _is_decided(partition: Partition, offset: int, result: _Result) -> bool:
    if result.error_code:
        return True
    leadership, log = partition.leadership, partition.log
    if log is None or not partition.is_leader:
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        result.low_watermark = NO_LOW_WATERMARK
        return True
    result.low_watermark = (
        log.log_start_offset if leadership is None else leadership.low_watermark(log.log_start_offset)
    )
    return result.low_watermark >= offset


def _delete(broker: Broker, topic: str, index: int, offset: int) -> _Result:
    try:
        low_watermark = _move_log_start(broker, topic, index, offset)
    except KafkaError as error:
        return _Result(partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=error.code)
    return _Result(partition_index=index, low_watermark=low_watermark)


def _move_log_start(broker: Broker, topic: str, index: int, offset: int) -> int:
    if broker.image.partition(topic, index) is None:
        raise UnknownTopicOrPartition(f"Unknown partition {topic}-{index}.")
    if is_internal(topic):
        raise InvalidTopicException(f"Records of the internal topic {topic} cannot be deleted.")
    log = hosted_partition(broker, topic, index).leader_log()
    if log.config.is_compacted and not log.config.is_deleted:
        raise PolicyViolation(f"Records of {log.name} cannot be deleted: its cleanup.policy is compact.")
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0:
        raise OffsetOutOfRange(f"Offset {offset} is out of range for {log.name}.")
    try:
        log.increase_log_start_offset(offset, "a client deleted records")
    except OSError as error:
        raise broker.directories.storage_error(log, error) from error
    return log.log_start_offset


API = Api(KEY, handle)
