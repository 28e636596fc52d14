"""TxnOffsetCommit (28), versions 0 to 5.

Commits offsets of a group as part of a producer's transaction: they take effect once it is committed. v3 adds
the member and its generation, v5 transactions of version 2. Partitions that do not exist are rejected here
(UNKNOWN_TOPIC_OR_PARTITION).

The transaction coordinator first verifies that the partition of the group's offsets is part of the
transaction; from v5 on it adds it. Clients before v2 do not know that a coordinator may be loading, and get
COORDINATOR_NOT_AVAILABLE instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.coordinator.result import TransactionalWrite
from ottla.coordinator.runtime import client_error
from ottla.records.batch import NO_SEQUENCE
from ottla.server.broker import GROUPS_TOPIC
from ottla.server.coordinators.groups import caller_of
from ottla.server.coordinators.transaction_verification import Guards, Refusals, Writing, answer_when_verified
from ottla.server.handlers.offset_common import check_commit_bytes, commit_bytes, merged, split
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, made_of
from ottla.server.parts import HasGroups, HasImage, HasTransactions
from ottla.wire.error_codes import ErrorCode
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.coordinator.result import Result
    from ottla.log.producer_state import VerificationGuard
    from ottla.waiting.pending_response import PendingResponse
    from ottla.wire.errors import KafkaError

KEY = 28

_KNOWS_LOADING_FROM = 2
_KNOWS_ABORTABLE_FROM = 4
_ADDS_FROM = 5

_AskedTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_Partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition

_Outcome = TxnOffsetCommitResponse | Steps[TxnOffsetCommitResponse]
"""The response, or what makes it."""


class Parts(HasImage, HasGroups, HasTransactions, Protocol):
    """The parts of a node that TxnOffsetCommit needs."""


def handle(
    parts: Parts, request: TxnOffsetCommitRequest, context: RequestContext
) -> Steps[_Outcome | PendingResponse]:
    refused: list[_Topic] = []
    topics = []
    for topic in request.topics:
        known = _known_part(parts.image, topic, refused)
        if known is not None:
            topics.append(known)
        yield
    request.topics = topics
    size = yield from commit_bytes(request.group_id, topics)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=merged(refused, [], _name_of))
    if not request.group_id:
        return (yield from _refuse_all(request, ErrorCode.INVALID_GROUP_ID, refused))
    caller = caller_of(context)
    key = (GROUPS_TOPIC, parts.groups.coordinator.partition_for(request.group_id))
    guard: VerificationGuard | None = None

    def decide(shard: GroupShard, _pending: PendingResponse) -> Result[Any]:
        check_commit_bytes(parts, request.group_id, size)
        write = TransactionalWrite(request.producer_id, request.producer_epoch, guard=guard)
        result = shard.offsets.commit_in_transaction(request, caller, write)
        if refused and isinstance(result.response, TxnOffsetCommitResponse):
            result.response.topics = merged(refused, result.response.topics, _name_of)
        return result

    def failed(error: KafkaError) -> Steps[TxnOffsetCommitResponse]:
        code = error.code
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.version < _KNOWS_LOADING_FROM:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _refuse_all(request, code, refused)

    def verified(refusals: Refusals, guards: Guards) -> _Outcome | PendingResponse:
        nonlocal guard
        if key in refusals:
            return failed(client_error(refusals[key]))
        guard = guards.get(key)
        return parts.groups.requests.ask(request.group_id, decide, failed)

    writing = Writing(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        sequences={key: NO_SEQUENCE},
        adds=context.version >= _ADDS_FROM,
        knows_abortable=context.version >= _KNOWS_ABORTABLE_FROM,
    )
    return answer_when_verified(parts.transactions.verification, writing, verified)


def _known_part(image: ClusterImage, topic: _AskedTopic, refused: list[_Topic]) -> _AskedTopic | None:
    """The existing partitions of a topic; the others are rejected."""
    known = image.topics_by_name.get(topic.name)
    if known is None:
        refused.append(_refused(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return None
    topic.partitions, unknown = split(topic.partitions, known.partitions)
    if unknown:
        refused.append(_refused(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return topic if topic.partitions else None


def _refuse_all(
    request: TxnOffsetCommitRequest, code: int, refused: list[_Topic]
) -> Steps[TxnOffsetCommitResponse]:
    topics = yield from made_of(request.topics, lambda topic: _refused(topic, topic.partitions, code))
    return TxnOffsetCommitResponse(topics=merged(refused, topics, _name_of))


def _refused(
    topic: _AskedTopic, partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition], code: int
) -> _Topic:
    return _Topic(
        name=topic.name,
        partitions=[
            _Partition(partition_index=asked.partition_index, error_code=code) for asked in partitions
        ],
    )


def _name_of(topic: _Topic) -> str:
    return topic.name


API = Api(KEY, handle)
