"""DescribeTopicPartitions (75), version 0.

Returns metadata of topics with their eligible leader replicas, sorted by name and in pages: at most
`response_partition_limit` partitions (and `max.request.partition.size.limit`), then a cursor for the next
request. Without topics: all of them. The topic of a cursor must be among the named ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.controller.topic_names import is_internal, why_invalid
from ottla.server.handlers.common import NO_LEADER, TOPIC_OPERATIONS, Reach
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasConfig, HasImage
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

if TYPE_CHECKING:
    from ottla.controller.registrations import PartitionRegistration

KEY = 75

_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


class Parts(HasConfig, HasImage, Protocol):
    """The parts of a node that DescribeTopicPartitions needs."""


def handle(
    parts: Parts, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Steps[DescribeTopicPartitionsResponse]:
    cursor = request.cursor
    first_name = "" if cursor is None else cursor.topic_name
    by_name = parts.image.topics_by_name
    asked = {topic.name for topic in request.topics} if request.topics else set(by_name)
    names = sorted(name for name in asked if name >= first_name)
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and first_name not in asked)):
        return _refused(request)
    room = max(
        1, min(parts.config.int_of("max.request.partition.size.limit"), request.response_partition_limit)
    )
    reach = Reach(parts.image, context.listener)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if room == 0:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
        yield
        topic = by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        first = cursor.partition_index if cursor is not None and name == first_name else 0
        end = min(len(topic.partitions), first + room)
        partitions = [
            _described(index, topic.partitions[index], reach)
            for index in range(first, end)
            if index in topic.partitions
        ]
        response.topics.append(
            _Topic(
                name=name,
                topic_id=topic.id,
                is_internal=is_internal(name),
                partitions=partitions,
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        if end < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(
                topic_name=name, partition_index=end
            )
            break
        room -= len(partitions)
    return response


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The response to an invalid cursor."""
    return DescribeTopicPartitionsResponse(
        topics=[_Topic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name) for topic in request.topics]
    )


def _unknown(name: str) -> _Topic:
    is_valid = why_invalid(name) is None
    return _Topic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _described(index: int, partition: PartitionRegistration, reach: Reach) -> _Partition:
    is_reached = partition.leader in reach.with_listener
    return _Partition(
        partition_index=index,
        leader_id=partition.leader if is_reached else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=reach.offline_replicas(partition),
    )


API = Api(KEY, handle)
