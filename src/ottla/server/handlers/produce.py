"""Produce (0), versions 3 to 13.

Appends each partition's batch and returns its offset. acks=0: no response, and a failure closes the
connection so that the producer notices; acks=1: once it is in this leader's log; acks=-1: once all in-sync
replicas have it. A topic with `flush.messages` is flushed before the response. v13 names topics by id; v10
adds the current leader to NOT_LEADER_OR_FOLLOWER; v8 record errors; v7 zstd. Transactional batches are first
verified with the coordinator: see `produce_transactional`.

The records of the request may be in a buffer that is reused after `handle` returns: before that they are
appended to the log, or copied. No request holds the event loop for long: see `_Appending`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ottla.log.log import Appended, CheckedBatch, Log
from ottla.rare_paths import rarely
from ottla.records.batch import ATTRIBUTES_POSITION, MAGIC_POSITION, TRANSACTIONAL_BIT
from ottla.records.plain_batch import NOT_PLAIN
from ottla.records.validate import (
    BYTES_AT_ONCE,
    RecompressionTakesLong,
    TakesLong,
    check_request,
)
from ottla.server.handlers.common import leader_endpoints, leader_hint
from ottla.server.handlers.produce_fast_path import Begun, ProduceExpress, Written
from ottla.server.handlers.unexpected_errors import error_of
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.net.step_runner import finished, long_lists
from ottla.server.net.turns import TURN_MS
from ottla.server.parts import (
    HasAppendTasks,
    HasBackground,
    HasBatchWorker,
    HasClock,
    HasDirectories,
    HasFailures,
    HasImage,
    HasPartitions,
    HasStepRunner,
    HasTransactions,
)
from ottla.server.replicas.outcome_wait import Append, OutcomeWait
from ottla.server.replicas.partition import Partition, flush_partition, not_hosted_error
from ottla.server.replicas.plain_append import append_as_leader
from ottla.waiting.pending_response import PendingResponse
from ottla.waiting.tasks import completion_of, response_of_task
from ottla.wire import codec
from ottla.wire.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidRequiredAcks,
    InvalidTopicException,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    TransactionalIdAuthorizationFailed,
    UnknownServerError,
)
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from ottla.log.producer_state import VerificationGuard
    from ottla.server.broker import Broker
    from ottla.server.coordinators.transaction_verification import Guards, Refusals
    from ottla.server.net.connection import Connection
    from ottla.server.replicas.partition import HostedParts

KEY = 0
LEADER_HINT_VERSION = 10
PARTITIONS_AT_ONCE = 1000
"""A request with more partitions is checked in steps."""
ADMIN_CLIENT_ID = "__admin_client"
"""The only client that may write to internal topics."""

_PREFIX = Struct(">iix")  # of a response frame: size, correlation id, no tagged fields
_FLAGS_AT = ATTRIBUTES_POSITION + 1
_WITHOUT_LOG_START = (
    CorruptMessage,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    UnknownServerError,
)

_NONE: Mapping[tuple[str, int], Any] = {}

_Check: TypeAlias = Callable[[], Callable[[], CheckedBatch]]
"""Returns the work for another thread, when its turn has come."""

_PartitionResponse = ProduceResponse.PartitionProduceResponse
_TopicResponse = ProduceResponse.TopicProduceResponse

_Unacknowledged: TypeAlias = Append[_PartitionResponse]
"""A batch that is in the leader's log and not yet acknowledged, with its part of the response."""


class Parts(
    HasImage,
    HasPartitions,
    HasDirectories,
    HasTransactions,
    HasStepRunner,
    HasBatchWorker,
    HasBackground,
    HasAppendTasks,
    HasFailures,
    HasClock,
    Protocol,
):
    """The parts of a node that Produce needs."""


class AcknowledgingParts(HasImage, HasDirectories, HasBackground, Protocol):
    """The parts of a node that a produce request waits with."""


def handle(
    parts: Parts, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | PendingResponse | Steps[ProduceResponse | PendingResponse | None] | None:
    if context.begun is not None:  # its fast path has checked the request as a whole
        return append_all(parts, request, context)
    steps = _check_and_append(parts, request, context)
    return _held(steps, request, context) if _names_many(request) else finished(steps)


def _names_many(request: ProduceRequest) -> bool:
    count = 0
    for topic in request.topic_data:
        count += len(topic.partition_data) or 1
    return count > PARTITIONS_AT_ONCE


def _held(
    steps: Steps[ProduceResponse | PendingResponse | None], request: ProduceRequest, context: RequestContext
) -> Steps[ProduceResponse | PendingResponse | None]:
    """The steps of a request that keeps its records until the last of them."""
    connection = context.connection
    connection.hold(keep_records(connection, request.topic_data))
    try:
        return (yield from steps)
    finally:
        connection.release()


def _check_and_append(
    parts: Parts, request: ProduceRequest, context: RequestContext
) -> Steps[ProduceResponse | PendingResponse | None]:
    refusal = yield from _refusal_of_all(request)
    if request.transactional_id is not None and refusal is None:
        from ottla.server.handlers.produce_transactional import verify_and_append

        return (yield from verify_and_append(parts, request, context))
    return append_all(parts, request, context, refusal=refusal)


def append_all(
    parts: Parts,
    request: ProduceRequest,
    context: RequestContext,
    *,
    refusal: KafkaError | None = None,
    refusals: Refusals = _NONE,
    guards: Guards = _NONE,
) -> ProduceResponse | PendingResponse | None:
    """Append each partition's batch. `refusal` is an error of all of them; `refusals` of some."""
    return _Appending(parts, request, context, refusal, refusals, guards).start()


class _Appending:
    """The appends of one request.

    Nearly always all are done when `start` returns. A request that would hold the event loop continues later:
    with its next partitions in other turns of the loop, and with a batch that is too large to be validated on
    the loop once another thread has validated it. Its connection is held until then, so that no later request
    overtakes it.
    """

    __slots__ = (
        "_appends",
        "_begun",
        "_context",
        "_first_error",
        "_guards",
        "_is_alone",
        "_is_holding",
        "_parts",
        "_refusal",
        "_refusals",
        "_request",
        "_stop_at",
        "_topics",
        "_waiting",
    )

    def __init__(
        self,
        parts: Parts,
        request: ProduceRequest,
        context: RequestContext,
        refusal: KafkaError | None,
        refusals: Refusals,
        guards: Guards,
    ) -> None:
        self._parts = parts
        self._request = request
        self._context = context
        self._refusal = refusal
        self._refusals = refusals
        self._guards = guards
        self._begun: Begun | None = context.begun
        self._waiting: list[_Unacknowledged] = []
        self._first_error: KafkaError | None = None
        self._topics: list[_TopicResponse] = []
        data = request.topic_data
        self._is_alone = len(data) == 1 and len(data[0].partition_data) == 1
        self._is_holding = False
        self._stop_at = 0.0
        self._appends = self._append_in_turn()

    def start(self) -> ProduceResponse | PendingResponse | None:
        if self._begun is not None:
            self._stop_at = self._begun.stop_at
        elif not self._is_alone:
            self._stop_at = self._parts.clock.monotonic() + TURN_MS / 1000
        try:
            check = next(self._appends)
        except StopIteration:
            return self._finish()
        rest = self._request.topic_data[len(self._topics) :]
        self._context.connection.hold(keep_records(self._context.connection, rest))
        self._parts.step_runner.pause.begin()  # the request has many objects, none of them garbage
        self._is_holding = True
        task = self._parts.append_later(self._go_on(check))
        task.add_done_callback(self._release)  # one that is cancelled before its first step does nothing
        answer = response_of_task(task)
        return answer if self._request.acks != 0 else None

    def _release(self, _task: asyncio.Future[Any] | None = None) -> None:
        if self._is_holding:
            self._is_holding = False
            self._parts.step_runner.pause.end()
            self._context.connection.release()

    async def _go_on(self, check: _Check | None) -> ProduceResponse | None:
        checked: CheckedBatch | None
        try:
            while True:
                if check is None:
                    await asyncio.sleep(0)
                    self._stop_at = self._parts.clock.monotonic() + TURN_MS / 1000
                    check = next(self._appends)
                    continue
                try:
                    checked = await self._parts.batch_worker.run(check())
                except Exception as error:  # noqa: BLE001 - see where it is thrown
                    check = self._appends.throw(error)
                else:
                    check = self._appends.send(checked)
        except StopIteration:
            pass
        except Exception:
            self._context.connection.close()  # who asked for no answer would not get to know
            raise
        finally:
            self._release()
        check = checked = None
        lists = long_lists(self._request)
        self._request.topic_data = []  # the records are not needed while the replicas fetch them
        self._parts.step_runner.free(lists)
        del lists
        outcome = self._finish()
        return await completion_of(outcome) if isinstance(outcome, PendingResponse) else outcome

    def _append_in_turn(self) -> Generator[_Check | None, CheckedBatch | None, None]:
        """Append each batch. Yields None when the time slice is over, and the validation of a batch that
        takes long, whose outcome is to be sent back.
        """
        request, version = self._request, self._context.version
        acks = request.acks
        now_ms = self._parts.clock.now_ms()
        monotonic = self._parts.clock.monotonic
        begun = iter(self._begun.written if self._begun is not None else ())
        failure = self._begun.failure if self._begun is not None else None
        for topic in request.topic_data:
            answers: list[_PartitionResponse] = []
            for data in topic.partition_data:
                done = next(begun, None)
                if done is not None:
                    partition = _hosted(self._parts, topic, data.index, version)
                    answers.append(self._written(partition, data.index, done))
                    continue
                asked: Partition | None = None
                try:
                    if failure is not None:
                        met, failure = failure, None
                        raise met
                    asked, guard = self._check_asked(topic, data)
                    assert data.records is not None  # which it refuses
                    appended: Appended | Written
                    try:
                        appended = _append(self._parts, asked, data.records, acks, now_ms, guard)
                    except TakesLong as reason:
                        if asked.is_internal and not isinstance(reason, RecompressionTakesLong):
                            raise _too_large_for_internal(asked) from None
                        asked, appended = yield from self._append_long(topic, data, asked, guard, now_ms)
                except Exception as raised:  # noqa: BLE001 - it concerns this partition alone
                    name = topic.name or str(topic.topic_id)
                    error = error_of(self._parts.failures, raised, "Produce", name, data.index)
                    self._first_error = self._first_error or error
                    answers.append(_failed(self._parts, topic, data.index, asked, error, version))
                else:
                    answers.append(self._written(asked, data.index, appended))
                if not self._is_alone and (
                    monotonic() >= self._stop_at or rarely("a produce request goes on later")
                ):
                    yield None
            self._topics.append(
                _TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
            )

    def _check_asked(
        self, topic: ProduceRequest.TopicProduceData, data: ProduceRequest.PartitionProduceData
    ) -> tuple[Partition, VerificationGuard | None]:
        """The partition to append to; KafkaError if that is not allowed."""
        parts, version = self._parts, self._context.version
        if self._refusal is not None:
            raise self._refusal
        partition = _hosted(parts, topic, data.index, version)
        check_request(data.records, version)
        if partition.is_internal and self._context.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopicException(f"Cannot append to internal topic {partition.topic}")
        if not (self._refusals or self._guards):
            return partition, None
        key = (partition.topic, data.index)
        if key in self._refusals:
            raise self._refusals[key]
        return partition, self._guards.get(key)

    def _append_long(
        self,
        topic: ProduceRequest.TopicProduceData,
        data: ProduceRequest.PartitionProduceData,
        partition: Partition,
        guard: VerificationGuard | None,
        now_ms: int,
    ) -> Generator[_Check | None, CheckedBatch | None, tuple[Partition, Appended | Written]]:
        """Append a batch that another thread validates first.

        Meanwhile anything may change: a topic that was deleted and recreated has another partition, which is
        returned with the result of the append.
        """
        while True:
            log = partition.leader_log()

            def check(log: Log = log) -> Callable[[], CheckedBatch]:
                assert data.records is not None
                return log.check(data.records, now_ms)

            checked = yield check
            partition = _hosted(self._parts, topic, data.index, self._context.version)
            assert data.records is not None
            with suppress(TakesLong):  # other rules hold by now
                acks = self._request.acks
                appended = _append(self._parts, partition, data.records, acks, now_ms, guard, checked)
                return partition, appended

    def _written(self, partition: Partition, index: int, appended: Appended | Written) -> _PartitionResponse:
        written = _PartitionResponse(
            index=index,
            base_offset=appended.first_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.log_start_offset,
        )
        log = partition.log
        needs_replicas = self._request.acks == -1
        if log is None:
            # A later append of the fast path has taken the directory offline: nobody knows any more whether
            # the followers have this one. -1: they had it before.
            must_wait = needs_replicas and appended.last_offset >= 0
        else:
            must_wait = log.is_flush_due or (needs_replicas and log.high_watermark <= appended.last_offset)
        if must_wait:
            self._waiting.append(
                Append(written, partition, appended.last_offset + 1, needs_replicas=needs_replicas)
            )
        return written

    def _finish(self) -> ProduceResponse | PendingResponse | None:
        """The response, once each partition has appended: now, or when all replicas have the records."""
        parts, context, acks = self._parts, self._context, self._request.acks
        response = ProduceResponse(responses=self._topics)
        if self._first_error is not None and context.version >= LEADER_HINT_VERSION:
            response.node_endpoints = _leaders_of(parts, self._topics, context.listener)
        if acks == 0 and self._first_error is not None:
            context.connection.close(f"its produce request with acks=0 failed: {self._first_error}")
        if self._waiting:
            return _wait(parts, response, self._waiting, acks, self._request.timeout_ms, context)
        return None if acks == 0 else response


def keep_records(connection: Connection, topics: list[ProduceRequest.TopicProduceData]) -> int:
    """Copy what is appended later, since its buffer is reused; returns the number of bytes copied.

    All records of a request are in one frame, or have been copied: if one needs no copy, none does.
    """
    kept = 0
    for topic in topics:
        for data in topic.partition_data:
            if data.records is not None:
                if not connection.is_shared(data.records):
                    return kept
                data.records = memoryview(bytearray(data.records))
                kept += len(data.records)
    return kept


def _too_large_for_internal(partition: Partition) -> MessageTooLarge:
    """Reject a batch that is too large for an internal topic: its readers decompress it on the event loop."""
    return MessageTooLarge(
        f"Records for internal topic {partition.topic} must not exceed {BYTES_AT_ONCE} bytes decompressed."
    )


def _hosted(
    parts: HostedParts, topic: ProduceRequest.TopicProduceData, index: int, version: int
) -> Partition:
    partitions = parts.partitions
    if version >= 13:
        hosted = partitions.by_id.get(topic.topic_id)
    else:
        hosted = partitions.by_name.get(topic.name)
    partition = hosted.get(index) if hosted is not None else None
    if partition is None:
        raise _refusal(parts, topic, index, version)
    return partition


def _leaders_of(
    parts: HasImage, topics: list[_TopicResponse], listener: str
) -> list[ProduceResponse.NodeEndpoint]:
    """The endpoints of the leaders that the responses name."""
    leaders = {
        answer.current_leader.leader_id
        for topic in topics
        for answer in topic.partition_responses
        if answer.current_leader.leader_id >= 0
    }
    return leader_endpoints(parts.image, leaders, listener, ProduceResponse.NodeEndpoint)


def _refusal_of_all(request: ProduceRequest) -> Steps[KafkaError | None]:
    """The error of the whole request; None if there is none."""
    if not -1 <= request.acks <= 1:
        return InvalidRequiredAcks(f"acks is {request.acks}; it must be -1 (all), 0 or 1.")
    if request.transactional_id is None:
        for topic in request.topic_data:
            for data in topic.partition_data:
                batch = data.records
                if (
                    batch is not None
                    and len(batch) > _FLAGS_AT
                    and batch[_FLAGS_AT] & TRANSACTIONAL_BIT
                    and batch[MAGIC_POSITION] == 2
                ):
                    return TransactionalIdAuthorizationFailed(
                        "The request contains a transactional batch but no transactional id."
                    )
                yield
    return None


def _append(
    parts: HasDirectories,
    partition: Partition,
    records: memoryview,
    acks: int,
    now_ms: int,
    guard: VerificationGuard | None,
    checked: CheckedBatch | None = None,
) -> Appended | Written:
    try:
        if guard is None and not records.readonly:
            offset = append_as_leader(partition, records, 0, len(records), acks, now_ms)
            if offset != NOT_PLAIN:
                log = partition.log
                assert log is not None
                return Written(offset, log.log_end_offset - 1, -1, log.log_start_offset)
        return partition.append(records, acks=acks, now_ms=now_ms, guard=guard, checked=checked)
    except OSError as error:
        assert partition.log is not None
        raise parts.directories.storage_error(partition.log, error) from error


def _refusal(parts: HasImage, topic: ProduceRequest.TopicProduceData, index: int, version: int) -> KafkaError:
    if version >= 13:
        known = parts.image.topics.get(topic.topic_id)
        name: str | bytes = topic.topic_id if known is None else known.name
    else:
        known = parts.image.topics_by_name.get(topic.name)
        name = topic.name
    return not_hosted_error(name, index, is_known=known is not None and index in known.partitions)


def _failed(
    parts: HasImage,
    topic: ProduceRequest.TopicProduceData,
    index: int,
    asked: Partition | None,
    error: KafkaError,
    version: int,
) -> _PartitionResponse:
    """The error response of one partition. `asked`: the partition, if it was found."""
    log = asked.log if asked is not None and not isinstance(error, _WITHOUT_LOG_START) else None
    failed = _PartitionResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=-1 if log is None else log.log_start_offset,
        error_message=error.message,
        record_errors=[
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in getattr(error, "record_errors", ())
        ],
    )
    if version >= LEADER_HINT_VERSION and isinstance(error, NotLeaderOrFollower):
        leader_id, leader_epoch = leader_hint(parts.image, topic.topic_id, topic.name, index)
        failed.current_leader = ProduceResponse.LeaderIdAndEpoch(
            leader_id=leader_id, leader_epoch=leader_epoch
        )
    return failed


def _wait(
    parts: AcknowledgingParts,
    response: ProduceResponse,
    waiting: list[_Unacknowledged],
    acks: int,
    timeout_ms: int,
    context: RequestContext,
) -> PendingResponse | None:
    """Flush what must be flushed, and wait until the high watermark has passed everything."""
    due: dict[Partition, list[_Unacknowledged]] = {}
    for append in waiting:
        if _is_flush_due(append):
            due.setdefault(append.partition, []).append(append)
    flushes = [
        (appends, parts.in_background(flush_partition(parts.directories, partition)))
        for partition, appends in due.items()
    ]
    if acks == 0:
        for appends, flush in flushes:
            flush.add_done_callback(partial(_close_if_failed, appends[0], context))
        return None
    for appends, _ in flushes:
        for append in appends:
            append.is_flushing = True
    if acks == 1:
        for append in waiting:
            if not append.is_flushing:  # another request has flushed it since its append
                append.outcome = _outcome_if_kept(append)
    respond = partial(_acknowledge, parts, response, waiting, timeout_ms, context.version, context.listener)
    wait = OutcomeWait(waiting, respond)

    def on_flushed(appends: list[_Unacknowledged], flush: asyncio.Future[bool]) -> None:
        for append in appends:
            append.flushed(_flush_outcome(append, flush))
        wait.check(appends[0].partition)

    wait.start(timeout_ms)
    for appends, flush in flushes:
        flush.add_done_callback(partial(on_flushed, appends))
    wait.check_all()  # what was appended in earlier turns may be committed since: nothing else notices
    return wait.pending


def _acknowledge(
    parts: HasImage,
    response: ProduceResponse,
    waiting: list[_Unacknowledged],
    timeout_ms: int,
    version: int,
    listener: str,
) -> ProduceResponse:
    """The response with the outcome of each batch that it waited for."""
    for append in waiting:
        assert append.outcome is not None
        append.subject.error_code = append.outcome
        if append.outcome == ErrorCode.REQUEST_TIMED_OUT:
            append.subject.error_message = (
                f"The in-sync replicas did not acknowledge the records within {timeout_ms} ms."
            )
    if version >= LEADER_HINT_VERSION:
        _name_leaders(parts, response, waiting, listener)
    return response


def wait_for_replicas(
    parts: HasImage,
    listener: str,
    version: int,
    frame: bytes,
    appends: list[tuple[int, Partition, int]],
    timeout_ms: int,
) -> PendingResponse:
    """The response of a fast request, once the high watermark has passed these of its appends.

    `frame` is the response if nothing goes wrong; `appends`: (number of the partition in the response,
    partition, end offset).
    """
    waiting = [Append(number, partition, end_offset) for number, partition, end_offset in appends]

    def respond() -> bytes:
        if not any(append.outcome for append in waiting):
            return frame
        return _with_outcomes(parts, listener, version, frame, waiting, timeout_ms)

    wait = OutcomeWait(waiting, respond)
    wait.start(timeout_ms)
    wait.check_all()  # a later append of the request may have committed an earlier one: see `_may_soon_join`
    return wait.pending


def _with_outcomes(
    parts: HasImage,
    listener: str,
    version: int,
    frame: bytes,
    waiting: list[Append[int]],
    timeout_ms: int,
) -> bytes:
    """The response with the errors of some of its partitions."""
    response: ProduceResponse
    response, _ = codec.decoder(ProduceResponse, version)(memoryview(frame), _PREFIX.size)
    answers = [answer for topic in response.responses for answer in topic.partition_responses]
    failed: list[_Unacknowledged] = []
    for append in waiting:
        answered = Append(answers[append.subject], append.partition, append.end_offset)
        answered.outcome = append.outcome
        failed.append(answered)
    _acknowledge(parts, response, failed, timeout_ms, version, listener)
    body = codec.encode(response, version)
    _, correlation_id = _PREFIX.unpack_from(frame)
    return _PREFIX.pack(_PREFIX.size - 4 + len(body), correlation_id) + body


def _flush_outcome(append: _Unacknowledged, flush: asyncio.Future[bool]) -> ErrorCode:
    """The outcome of a batch whose flush has ended."""
    is_flushed = not flush.cancelled() and flush.exception() is None and flush.result()
    return _outcome_if_kept(append) if is_flushed else ErrorCode.KAFKA_STORAGE_ERROR


def _outcome_if_kept(append: _Unacknowledged) -> ErrorCode:
    """The outcome of a flushed batch: its log may be offline, or another node the leader, by now."""
    if append.partition.log is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE if append.partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _close_if_failed(append: _Unacknowledged, context: RequestContext, flush: asyncio.Future[bool]) -> None:
    """A producer with acks=0 gets no response: it notices only a closed connection."""
    if _flush_outcome(append, flush):
        context.connection.close(f"its records for {append.partition!r} could not be flushed")


def _name_leaders(
    parts: HasImage, response: ProduceResponse, waiting: list[_Unacknowledged], listener: str
) -> None:
    """Name the current leader of each partition that this node led when the batch arrived."""
    are_elsewhere = False
    for append in waiting:
        if append.outcome == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            are_elsewhere = True
            partition = append.partition
            leader_id, leader_epoch = leader_hint(parts.image, partition.topic_id, "", partition.index)
            append.subject.current_leader = ProduceResponse.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
    if are_elsewhere:
        response.node_endpoints = _leaders_of(parts, response.responses, listener)


def _is_flush_due(append: _Unacknowledged) -> bool:
    log = append.partition.log
    return log is not None and log.is_flush_due


def _express(broker: Broker, listener: str) -> ProduceExpress:
    return ProduceExpress(broker, partial(wait_for_replicas, broker, listener))


API = Api(KEY, handle, _express)
