"""OffsetFetch (9), versions 1 to 10.

Returns committed offsets of groups: of some partitions, or of all that have one (v2: no topics named). v8
takes several groups, v7 only stable offsets, v9 a member with its epoch, v10 topic ids. A partition without
an offset has -1 and no error, as has every partition of a group that does not exist. If many are named more
than once, each group and each partition is returned once.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.result import Result
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import REPEATS_MAX, Steps, distinct
from ottla.server.parts import HasGroups, HasImage
from ottla.wire.error_codes import ErrorCode
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.uuid import ZERO

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.coordinator.groups.offsets.protocol import FoundOffsets
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.waiting.pending_response import PendingResponse

KEY = 9

_GROUP_ERRORS_FROM = 2
_SEVERAL_GROUPS_FROM = 8
_TOPIC_IDS_FROM = 10

_NO_OFFSET = -1

_AskedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
_AskedTopic = OffsetFetchRequest.OffsetFetchRequestTopics
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_Topic = OffsetFetchResponse.OffsetFetchResponseTopics
_Partition = OffsetFetchResponse.OffsetFetchResponsePartitions

_Found = _Group | tuple["FoundOffsets", list[_Topic]]
"""The error of a group; or its offsets, and the rejected topics."""


class Parts(HasImage, HasGroups, Protocol):
    """The parts of a node that OffsetFetch needs."""


def handle(
    parts: Parts, request: OffsetFetchRequest, context: RequestContext
) -> Steps[Steps[OffsetFetchResponse] | PendingResponse]:
    version = context.version
    groups = yield from _merged(_groups_of(request, version))
    asked = []
    for group in groups:
        asked.append((yield from _fetch(parts.image, group, version, require_stable=request.require_stable)))
    return (
        yield from parts.groups.requests.ask_many(
            asked, lambda found: _response(parts.image, groups, found, version)
        )
    )


def _merged(groups: list[_AskedGroup]) -> Steps[list[_AskedGroup]]:
    """The groups unchanged; or each group, topic and partition once, if many are repeated.

    A group that is named several times, with different members, is requested as the first of them.
    """
    repeats = 0
    found: dict[str, _AskedGroup] = {}
    places: dict[str, dict[tuple[str, bytes], dict[int, None]]] = {}
    for group in groups:
        key = group.group_id
        if key in found:
            repeats += 1
        else:
            found[key] = copy(group)
        if group.topics is None:
            found[key].topics = None
        else:
            topics = places.setdefault(key, {})
            for topic in group.topics:
                indexes = topics.setdefault((topic.name, topic.topic_id), {})
                before = len(indexes)
                indexes.update((yield from distinct(topic.partition_indexes)))
                repeats += len(topic.partition_indexes) - (len(indexes) - before)
                yield
        yield
    if repeats <= REPEATS_MAX:
        return groups
    for key, topics in places.items():
        once = []
        for (name, topic_id), indexes in topics.items():
            once.append(_AskedTopic(name=name, topic_id=topic_id, partition_indexes=list(indexes)))
            yield
        if found[key].topics is not None:
            found[key].topics = once
    return list(found.values())


def _response(
    image: ClusterImage, groups: list[_AskedGroup], found: list[_Found], version: int
) -> Steps[OffsetFetchResponse]:
    answered = []
    for group, one in zip(groups, found, strict=True):
        yield
        if isinstance(one, _Group):
            answered.append(one)
            continue
        offsets, refused = one
        fetched = yield from offsets.rows()
        if version >= _TOPIC_IDS_FROM and group.topics is None:
            fetched.topics = _identified(image, fetched.topics)
        fetched.topics += refused
        answered.append(fetched)
    if version >= _SEVERAL_GROUPS_FROM:
        return OffsetFetchResponse(groups=answered)
    return (yield from _of_one_group(answered[0]))


def _groups_of(request: OffsetFetchRequest, version: int) -> list[_AskedGroup]:
    if version >= _SEVERAL_GROUPS_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            _AskedTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [_AskedGroup(group_id=request.group_id, topics=topics)]


def _fetch(
    image: ClusterImage, group: _AskedGroup, version: int, *, require_stable: bool
) -> Steps[CoordinatorRequest[GroupShard, _Found]]:
    by_id = version >= _TOPIC_IDS_FROM
    refused: list[_Topic] = []
    asked = group
    if by_id and group.topics is not None:
        asked = _AskedGroup(
            group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch
        )
        asked.topics = yield from _named(image, group.topics, refused)
    yield

    def decide(shard: GroupShard, _pending: PendingResponse) -> Result[_Found]:
        return Result((shard.offsets.find(asked, require_stable=require_stable), refused))

    return group.group_id, decide, lambda error: _failed(group, error.code, version)


def _named(image: ClusterImage, topics: list[_AskedTopic], refused: list[_Topic]) -> Steps[list[_AskedTopic]]:
    """Topics given by id, with their names."""
    named = []
    for topic in topics:
        known = image.topics.get(topic.topic_id)
        if known is None:
            refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topic.name = known.name
            named.append(topic)
        yield
    return named


def _identified(image: ClusterImage, topics: list[_Topic]) -> list[_Topic]:
    """Topics with their ids: a deleted topic has none, and cannot be in the response."""
    identified = []
    for topic in topics:
        known = image.topics_by_name.get(topic.name)
        if known is not None:
            topic.topic_id = known.id
            identified.append(topic)
    return identified


def _failed(group: _AskedGroup, code: int, version: int) -> _Group:
    if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        code = ErrorCode.NOT_COORDINATOR  # consumers before 3.9 only retry that
    if version >= _GROUP_ERRORS_FROM:
        return _Group(group_id=group.group_id, error_code=code)
    return _Group(group_id=group.group_id, topics=[_refused(topic, code) for topic in group.topics or ()])


def _refused(topic: _AskedTopic, code: int) -> _Topic:
    return _Topic(
        name=topic.name,
        topic_id=topic.topic_id or ZERO,
        partitions=[
            _Partition(partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=code)
            for index in topic.partition_indexes
        ],
    )


def _of_one_group(group: _Group) -> Steps[OffsetFetchResponse]:
    """The response of the versions with one group."""
    response = OffsetFetchResponse(error_code=group.error_code)
    for topic in group.topics:
        found = OffsetFetchResponse.OffsetFetchResponseTopic(name=topic.name)
        response.topics.append(found)
        for partition in topic.partitions:
            found.partitions.append(
                OffsetFetchResponse.OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
            )
            yield
    return response


API = Api(KEY, handle)
