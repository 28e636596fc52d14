"""OffsetCommit (8), versions 2 to 10.

Commits offsets of a group. Topics are given by name, from v10 on by id. Partitions that do not exist are
rejected here (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID); the group's coordinator handles the others. v2
to v4 may contain a retention time, v6 adds leader epochs, v7 static members.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Protocol

from ottla.server.coordinators.groups import caller_of
from ottla.server.handlers.offset_commit_fast_path import CommitFastPath
from ottla.server.handlers.offset_common import (
    check_commit_bytes,
    commit_bytes,
    in_parts,
    merged,
    rejoined,
    split,
)
from ottla.server.net.dispatch import Api, FastPath, RequestContext, Routes
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasGroups, HasImage
from ottla.wire.error_codes import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.uuid import ZERO

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.coordinator.result import Result
    from ottla.server.broker import Broker
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.waiting.pending_response import PendingResponse
    from ottla.wire.errors import KafkaError

KEY = 8

_TOPIC_IDS_FROM = 10

_AskedTopic = OffsetCommitRequest.OffsetCommitRequestTopic
_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = OffsetCommitResponse.OffsetCommitResponsePartition
_Key = Callable[[_Topic], str | bytes]


class Parts(HasImage, HasGroups, Protocol):
    """The parts of a node that OffsetCommit needs."""


def handle(
    parts: Parts, request: OffsetCommitRequest, context: RequestContext
) -> Steps[OffsetCommitResponse | PendingResponse]:
    refused: list[_Topic] = []
    by_id = context.version >= _TOPIC_IDS_FROM
    key: _Key = _id_of if by_id else _name_of
    topics = []
    for topic in request.topics:
        known = _known_part(parts.image, topic, by_id, refused)
        if known is not None:
            topics.append(known)
        yield
    if not topics:
        return OffsetCommitResponse(topics=merged(refused, [], key))
    caller = caller_of(context)
    size = yield from commit_bytes(request.group_id, topics)

    def ask(part: list[_AskedTopic]) -> CoordinatorRequest[GroupShard, OffsetCommitResponse]:
        asked = copy(request)
        asked.topics = part

        def decide(shard: GroupShard, _pending: PendingResponse) -> Result[OffsetCommitResponse]:
            check_commit_bytes(parts, request.group_id, size)
            return shard.offsets.commit(asked, caller)

        def failed(error: KafkaError) -> OffsetCommitResponse:
            return OffsetCommitResponse(
                topics=[_refused(topic, topic.partitions, error.code) for topic in part]
            )

        return request.group_id, decide, failed

    def join(answers: list[OffsetCommitResponse]) -> OffsetCommitResponse:
        answered = rejoined([answer.topics for answer in answers], key)
        return OffsetCommitResponse(topics=merged(refused, answered, key))

    pieces = yield from in_parts(topics)
    return (yield from parts.groups.requests.ask_many(map(ask, pieces), join))


def _known_part(
    image: ClusterImage, topic: _AskedTopic, by_id: bool, refused: list[_Topic]
) -> _AskedTopic | None:
    """The existing partitions of a topic, with its name and its id; the others are rejected."""
    if by_id:
        known = image.topics.get(topic.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known = image.topics_by_name.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic.topic_id = ZERO
    if known is None:
        refused.append(_refused(topic, topic.partitions, missing))
        return None
    topic.name, topic.topic_id = known.name, known.id
    topic.partitions, unknown = split(topic.partitions, known.partitions)
    if unknown:
        refused.append(_refused(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return topic if topic.partitions else None


def _refused(
    topic: _AskedTopic, partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition], code: int
) -> _Topic:
    return _Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            _Partition(partition_index=asked.partition_index, error_code=code) for asked in partitions
        ],
    )


def _id_of(topic: _Topic) -> bytes:
    return topic.topic_id


def _name_of(topic: _Topic) -> str:
    return topic.name


def fast_path(broker: Broker, routes: Routes) -> FastPath:
    return CommitFastPath(broker)


API = Api(KEY, handle, fast_path=fast_path)
