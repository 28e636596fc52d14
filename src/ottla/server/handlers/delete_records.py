"""DeleteRecords (21), versions 0 to 2.

Advances a partition's log start to an offset, -1 for the high watermark, and returns the new log start (the
low watermark). Earlier records are invisible at once; retention deletes their segments in its next run. The
new start is on disk before the response is sent, and every live follower has it too, or the response is
REQUEST_TIMED_OUT. Rejected: internal topics (INVALID_TOPIC_EXCEPTION), topics that are only compacted
(POLICY_VIOLATION), offsets below -1 or above the high watermark (OFFSET_OUT_OF_RANGE).
"""

from __future__ import annotations

from typing import Protocol

from ottla.controller.topic_names import is_internal
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasDirectories, HasImage, HasPartitions, HasStepRunner
from ottla.server.replicas.outcome_wait import OutcomeWait
from ottla.server.replicas.partition import Partition, hosted_partition
from ottla.waiting.tasks import completion_of
from ottla.wire.errors import (
    ErrorCode,
    InvalidTopicException,
    KafkaError,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

KEY = 21

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1

_Result = DeleteRecordsResponse.DeleteRecordsPartitionResult


class Parts(HasImage, HasPartitions, HasDirectories, HasStepRunner, Protocol):
    """The parts of a node that DeleteRecords needs."""


async def handle(
    parts: Parts, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    results: dict[str, dict[int, _Result]] = {}
    followed: dict[Partition, _Deletion] = {}
    await parts.step_runner.run(_delete_all(parts, request, results, followed))
    if any(result.error_code == 0 for partitions in results.values() for result in partitions.values()):
        await parts.directories.checkpoint_log_starts()
    if followed:
        await _wait_for_followers(list(followed.values()), request.timeout_ms)
    return await parts.step_runner.run(_response(results))


def _response(results: dict[str, dict[int, _Result]]) -> Steps[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    for name, partitions in results.items():
        response.topics.append(
            DeleteRecordsResponse.DeleteRecordsTopicResult(name=name, partitions=list(partitions.values()))
        )
        yield
    return response


def _delete_all(
    parts: Parts,
    request: DeleteRecordsRequest,
    results: dict[str, dict[int, _Result]],
    followed: dict[Partition, _Deletion],
) -> Steps[None]:
    for topic in request.topics:
        partitions = results.setdefault(topic.name, {})
        for asked in topic.partitions:
            result = _delete(parts, topic.name, asked.partition_index, asked.offset)
            partitions[asked.partition_index] = result
            partition = parts.partitions.get(topic.name, asked.partition_index)
            if result.error_code == 0 and partition is not None and partition.leadership is not None:
                followed[partition] = _Deletion(partition, result.low_watermark, result)
            yield


class _Deletion:
    """A log start that this leader advanced and its live followers have not yet."""

    __slots__ = ("offset", "outcome", "partition", "result")

    def __init__(self, partition: Partition, offset: int, result: _Result) -> None:
        self.partition = partition
        self.offset = offset
        self.result = result
        self.outcome: ErrorCode | None = None

    @property
    def is_decided(self) -> bool:
        return self.outcome is not None

    def note_outcome(self) -> None:
        if self.outcome is not None:
            return
        leadership, log = self.partition.leadership, self.partition.log
        if log is None or not self.partition.is_leader:
            self.outcome = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self.result.low_watermark = NO_LOW_WATERMARK
            return
        start = log.log_start_offset
        self.result.low_watermark = start if leadership is None else leadership.low_watermark(start)
        self.outcome = ErrorCode.NONE if self.result.low_watermark >= self.offset else None


async def _wait_for_followers(deletions: list[_Deletion], timeout_ms: int) -> None:
    def respond() -> bool:
        for deletion in deletions:
            assert deletion.outcome is not None
            deletion.result.error_code = deletion.outcome
        return True

    wait = OutcomeWait(deletions, respond)
    wait.start(timeout_ms)
    wait.check_all()
    await completion_of(wait.pending)


def _delete(parts: Parts, topic: str, index: int, offset: int) -> _Result:
    try:
        low_watermark = _move_log_start(parts, topic, index, offset)
    except KafkaError as error:
        return _Result(partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=error.code)
    return _Result(partition_index=index, low_watermark=low_watermark)


def _move_log_start(parts: Parts, topic: str, index: int, offset: int) -> int:
    if parts.image.partition(topic, index) is None:
        raise UnknownTopicOrPartition(f"Unknown partition {topic}-{index}.")
    if is_internal(topic):
        raise InvalidTopicException(f"Records of the internal topic {topic} cannot be deleted.")
    log = hosted_partition(parts, topic, index).leader_log()
    if log.config.is_compacted and not log.config.is_deleted:
        raise PolicyViolation(f"Records of {log.name} cannot be deleted: its cleanup.policy is compact.")
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0:
        raise OffsetOutOfRange(f"Offset {offset} is out of range for {log.name}.")
    try:
        log.increase_log_start_offset(offset, "a client deleted records")
    except OSError as error:
        raise parts.directories.storage_error(log, error) from error
    return log.log_start_offset


API = Api(KEY, handle)
