"""The description of a consumer group for ConsumerGroupDescribe, and assignments for heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.controller.image import ClusterImage
from ottla.coordinator.groups.consumer.group import NOTHING, ConsumerGroup
from ottla.coordinator.groups.consumer.member import ConsumerMember, Partitions
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

_CLASSIC, _CONSUMER = 0, 1


def described(
    group: ConsumerGroup, default_assignor: str, image: ClusterImage
) -> ConsumerGroupDescribeResponse.DescribedGroup:
    names: dict[frozenset[str], list[str]] = {}  # sorted once for members with the same subscription
    for member in group.members.values():
        if member.topic_names not in names:
            names[member.topic_names] = sorted(member.topic_names)
    return ConsumerGroupDescribeResponse.DescribedGroup(
        group_id=group.id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(group, member, names, image) for member in group.members.values()],
    )


def _member(
    group: ConsumerGroup,
    member: ConsumerMember,
    names: dict[frozenset[str], list[str]],
    image: ClusterImage,
) -> ConsumerGroupDescribeResponse.Member:
    # It still owns the partitions that it has to revoke.
    owned: dict[bytes, list[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, mine in partitions.items():
            owned.setdefault(topic_id, []).extend(mine)
    return ConsumerGroupDescribeResponse.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=names[member.topic_names],
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(owned, image),
        target_assignment=_assignment(group.target.get(member.id, NOTHING), image),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(
    partitions: Mapping[bytes, Iterable[int]], image: ClusterImage
) -> ConsumerGroupDescribeResponse.Assignment:
    return ConsumerGroupDescribeResponse.Assignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse.TopicPartitions(
                topic_id=topic_id, topic_name=image.topics[topic_id].name, partitions=sorted(listed)
            )
            for topic_id, listed in partitions.items()
            if topic_id in image.topics
        ]
    )


def assignment_of(assigned: Partitions) -> ConsumerGroupHeartbeatResponse.Assignment:
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
