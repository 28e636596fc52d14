"""Produce (0), versions 3 to 13.

Appends each partition's batch and answers with the offset it got. acks=0: no answer, and a failure closes
the connection so that the producer notices; acks=1: once it is in this leader's log; acks=-1: once all
in-sync replicas have it. A topic with `flush.messages` is flushed before anybody is told.

v13 names topics by id; v10 adds the current leader to NOT_LEADER_OR_FOLLOWER; v8 record errors; v7 zstd.
What is written in a transaction is verified with its coordinator first: see `produce_transactional`. The
records of the request may lie in a buffer that is used again after `handle` returns: they are written to the
log before that, or copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.log.log import Appended
from ottla.records.batch import ATTRIBUTES_POSITION, MAGIC_POSITION, TRANSACTIONAL_BIT
from ottla.records.validate import check_request
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.common import leader_endpoints, leader_hint
from ottla.server.handlers.produce_single import express
from ottla.server.partitions import Partition, flush_partition, why_not_hosted
from ottla.server.waiting import Answer
from ottla.wire.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidRequiredAcks,
    InvalidTopicException,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    RequestTimedOut,
    TransactionalIdAuthorizationFailed,
)
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from ottla.log.producers import VerificationGuard
    from ottla.server.broker import Broker
    from ottla.server.verification import Guards, Refusals

KEY = 0
LEADER_HINT_VERSION = 10
ADMIN_CLIENT_ID = "__admin_client"
"""The one client that may write to internal topics."""

_FLAGS_AT = ATTRIBUTES_POSITION + 1
_WITHOUT_LOG_START = (CorruptMessage, KafkaStorageError, MessageTooLarge, NotLeaderOrFollower)

_NONE: Mapping[tuple[str, int], Any] = {}

_PartitionResponse = ProduceResponse.PartitionProduceResponse
_TopicResponse = ProduceResponse.TopicProduceResponse


class _Written:
    """A batch that is in the leader's log and not yet acknowledged."""

    __slots__ = ("end_offset", "partition", "response")

    def __init__(self, partition: Partition, end_offset: int, response: _PartitionResponse) -> None:
        self.partition = partition
        self.end_offset = end_offset
        self.response = response


def handle(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Answer | None:
    refusal = _refusal_of_all(request)
    if request.transactional_id is not None and refusal is None:
        from ottla.server.handlers.produce_transactional import verify_and_append

        return verify_and_append(broker, request, context)
    return append_all(broker, request, context, refusal=refusal)


def append_all(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    *,
    refusal: KafkaError | None = None,
    refusals: Refusals = _NONE,
    guards: Guards = _NONE,
) -> ProduceResponse | Answer | None:
    """Append each partition's batch. `refusal` stands for all of them; `refusals` for some."""
    acks = request.acks
    version = context.version
    now_ms = broker.clock.now_ms()
    partitions = broker.partitions
    waiting: list[_Written] = []
    first_error: KafkaError | None = None
    topics: list[_TopicResponse] = []
    for topic in request.topic_data:
        if version >= 13:
            hosted = partitions.by_id.get(topic.topic_id)
        else:
            hosted = partitions.by_name.get(topic.name)
        answers: list[_PartitionResponse] = []
        for data in topic.partition_data:
            partition = hosted.get(data.index) if hosted is not None else None
            asked: Partition | None = None
            try:
                if refusal is not None:
                    raise refusal
                if partition is None:
                    raise _refusal(broker, topic, data.index, version)
                check_request(data.records, version)
                assert data.records is not None  # check_request refuses it
                if partition.is_internal and context.client_id != ADMIN_CLIENT_ID:
                    raise InvalidTopicException(f"Cannot append to internal topic {partition.topic}")
                guard = None
                if refusals or guards:
                    key = (partition.topic, data.index)
                    if key in refusals:
                        raise refusals[key]
                    guard = guards.get(key)
                asked = partition
                appended = _append(broker, partition, data.records, acks, now_ms, guard)
            except KafkaError as error:
                first_error = first_error or error
                answers.append(_failed(broker, topic, data.index, asked, error, version))
                continue
            written = _PartitionResponse(
                index=data.index,
                base_offset=appended.first_offset,
                log_append_time_ms=appended.log_append_time_ms,
                log_start_offset=appended.log_start_offset,
            )
            answers.append(written)
            log = partition.log
            if log is not None and (
                log.is_flush_due or (acks == -1 and log.high_watermark <= appended.last_offset)
            ):
                waiting.append(_Written(partition, appended.last_offset + 1, written))
        topics.append(_TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    response = ProduceResponse(responses=topics)
    if first_error is not None and version >= LEADER_HINT_VERSION:
        response.node_endpoints = _leaders_of(broker, topics, context.listener)
    if waiting:
        return _wait(broker, response, waiting, acks, request.timeout_ms, context)
    if acks == 0:
        if first_error is not None:
            context.connection.close(f"its produce request with acks=0 failed: {first_error}")
        return None
    return response


def _leaders_of(
    broker: Broker, topics: list[_TopicResponse], listener: str
) -> list[ProduceResponse.NodeEndpoint]:
    """Where the leaders are reached that the answers name."""
    leaders = {
        answer.current_leader.leader_id
        for topic in topics
        for answer in topic.partition_responses
        if answer.current_leader.leader_id >= 0
    }
    return leader_endpoints(broker, leaders, listener, ProduceResponse.NodeEndpoint)


def _refusal_of_all(request: ProduceRequest) -> KafkaError | None:
    """Why nothing of the request may be written; None where there is no such reason."""
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
                        "A transactional batch needs a request that names its transactional id."
                    )
    return None


def _append(
    broker: Broker,
    partition: Partition,
    records: memoryview,
    acks: int,
    now_ms: int,
    guard: VerificationGuard | None,
) -> Appended:
    try:
        return partition.append(records, acks=acks, now_ms=now_ms, guard=guard)
    except OSError as error:
        assert partition.log is not None
        raise broker.directories.storage_error(partition.log, error) from error


def _refusal(broker: Broker, topic: ProduceRequest.TopicProduceData, index: int, version: int) -> KafkaError:
    if version >= 13:
        known = broker.image.topics.get(topic.topic_id)
        name: str | bytes = topic.topic_id if known is None else known.name
    else:
        known = broker.image.topics_by_name.get(topic.name)
        name = topic.name
    return why_not_hosted(name, index, is_known=known is not None and index in known.partitions)


def _failed(
    broker: Broker,
    topic: ProduceRequest.TopicProduceData,
    index: int,
    asked: Partition | None,
    error: KafkaError,
    version: int,
) -> _PartitionResponse:
    """The answer for one partition. `asked`: the one that was to append, if it came to that."""
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
        leader_id, leader_epoch = leader_hint(broker, topic.topic_id, topic.name, index)
        failed.current_leader = ProduceResponse.LeaderIdAndEpoch(
            leader_id=leader_id, leader_epoch=leader_epoch
        )
    return failed


def _wait(
    broker: Broker,
    response: ProduceResponse,
    waiting: list[_Written],
    acks: int,
    timeout_ms: int,
    context: RequestContext,
) -> Answer | None:
    """Flush what must be flushed, and wait until the high watermark has passed everything."""
    flushes = [
        (written, broker.in_background(flush_partition(broker.directories, written.partition)))
        for written in waiting
        if _is_flush_due(written)
    ]
    if acks == 0:
        for written, flush in flushes:
            flush.add_done_callback(partial(_close_if_failed, written, context))
        return None
    answer = Answer()
    open_count = len(flushes)

    def check() -> bool:
        # All are looked at: one that failed has its error noted while this node still knows it.
        decided = [_is_decided(written) for written in waiting if acks == -1]
        if open_count == 0 and all(decided):
            _name_leaders(broker, response, waiting, context)
            answer.settle(response)
        return answer.is_settled

    def on_flushed(written: _Written, flush: asyncio.Future[bool]) -> None:
        nonlocal open_count
        open_count -= 1
        if not written.response.error_code:
            written.response.error_code = _flush_outcome(written, flush)
        check()

    def on_deadline() -> None:
        error = RequestTimedOut(f"The in-sync replicas did not have the records within {timeout_ms} ms.")
        for written in waiting:
            if not _is_decided(written):
                written.response.error_code = error.code
                written.response.error_message = error.message
        _name_leaders(broker, response, waiting, context)
        answer.settle(response)

    def release() -> None:
        for written, ticket in zip(waiting, tickets, strict=True):
            written.partition.growth.remove(ticket)

    tickets = [written.partition.growth.add(check) for written in waiting]
    answer.when_released(release)
    answer.timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, on_deadline)
    for written, flush in flushes:
        flush.add_done_callback(partial(on_flushed, written))
    return answer


def _flush_outcome(written: _Written, flush: asyncio.Future[bool]) -> ErrorCode:
    """Whether what was to be flushed before its acknowledgement was; else why it is not acknowledged."""
    is_flushed = not flush.cancelled() and flush.exception() is None and flush.result()
    if not is_flushed or written.partition.log is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE if written.partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _close_if_failed(written: _Written, context: RequestContext, flush: asyncio.Future[bool]) -> None:
    """With acks=0 nobody waits for the flush: a closed connection is all that a producer can notice."""
    if _flush_outcome(written, flush):
        context.connection.close(f"its records for {written.partition!r} could not be flushed")


def _name_leaders(
    broker: Broker, response: ProduceResponse, waiting: list[_Written], context: RequestContext
) -> None:
    """Tell who leads what this node has led when the batches came."""
    if context.version < LEADER_HINT_VERSION:
        return
    for written in waiting:
        if written.response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            partition = written.partition
            leader_id, leader_epoch = leader_hint(broker, partition.topic_id, "", partition.index)
            written.response.current_leader = ProduceResponse.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
            response.node_endpoints = _leaders_of(broker, response.responses, context.listener)


def _is_decided(written: _Written) -> bool:
    """Whether the in-sync replicas have the batch, or never will by this leader: then it says why."""
    response = written.response
    if not response.error_code:
        code = written.partition.outcome(written.end_offset)
        if code is None:
            return False
        response.error_code = code
    return True


def _is_flush_due(written: _Written) -> bool:
    log = written.partition.log
    return log is not None and log.is_flush_due


API = Api(KEY, handle, express)
