"""OffsetDelete (47), version 0.

Deletes committed offsets of a group, except those of topics that its members subscribe to
(GROUP_SUBSCRIBED_TO_TOPIC). Partitions that do not exist are rejected here (UNKNOWN_TOPIC_OR_PARTITION); a
response with an error of the whole group contains nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.server.handlers.offset_common import in_parts, merged, rejoined, split
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasGroups, HasImage
from ottla.wire.error_codes import ErrorCode
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.waiting.pending_response import PendingResponse

KEY = 47

_AskedTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition


class Parts(HasImage, HasGroups, Protocol):
    """The parts of a node that OffsetDelete needs."""


def handle(
    parts: Parts, request: OffsetDeleteRequest, context: RequestContext
) -> Steps[OffsetDeleteResponse | PendingResponse]:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    refused: list[_Topic] = []
    topics = []
    for topic in request.topics:
        known = _known_part(parts.image, topic, refused)
        if known is not None:
            topics.append(known)
        yield

    def ask(part: list[_AskedTopic]) -> CoordinatorRequest[GroupShard, OffsetDeleteResponse]:
        asked = OffsetDeleteRequest(group_id=request.group_id, topics=part)
        return (
            request.group_id,
            lambda shard, _pending: shard.offsets.delete(asked),
            lambda error: OffsetDeleteResponse(error_code=error.code),
        )

    def join(answers: list[OffsetDeleteResponse]) -> OffsetDeleteResponse:
        failed = next((answer for answer in answers if answer.error_code), None)
        if failed is not None:
            return failed
        answered = rejoined([answer.topics for answer in answers], _name_of)
        return OffsetDeleteResponse(topics=merged(refused, answered, _name_of))

    pieces = yield from in_parts(topics)
    return (yield from parts.groups.requests.ask_many(map(ask, pieces or [[]]), join))


def _known_part(image: ClusterImage, topic: _AskedTopic, refused: list[_Topic]) -> _AskedTopic | None:
    """The existing partitions of a topic; the others are rejected."""
    known = image.topics_by_name.get(topic.name)
    topic.partitions, unknown = split(topic.partitions, () if known is None else known.partitions)
    if unknown or known is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [_Partition(partition_index=asked.partition_index, error_code=code) for asked in unknown]
        refused.append(_Topic(name=topic.name, partitions=partitions))
    return topic if topic.partitions else None


def _name_of(topic: _Topic) -> str:
    return topic.name


API = Api(KEY, handle)
