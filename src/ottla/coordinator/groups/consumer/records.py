"""The records of a consumer group, in the versions that Kafka 4.3.1 writes (all 0)."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.encoded_record import EncodedRecord
from ottla.coordinator.groups.assignors.spec import MemberAssignment
from ottla.coordinator.groups.consumer.member import ConsumerMember, to_listed
from ottla.coordinator.records import encode
from ottla.coordinator.result import Record
from ottla.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id=group_id), value)


def no_group_epoch(group_id: str) -> Record:
    return Record(ConsumerGroupMetadataKey(group_id=group_id), None)


def no_subscription_metadata(group_id: str) -> Record:
    """Deletes a record of coordinators that stored the topics themselves and not their hash."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def subscription(group_id: str, member: ConsumerMember) -> Record:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id), value)


def no_subscription(group_id: str, member_id: str) -> Record:
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def target(group_id: str, member_id: str, assignment: MemberAssignment) -> Record:
    listed = [
        ConsumerGroupTargetAssignmentMemberValue.TopicPartition(
            topic_id=topic_id, partitions=list(partitions)
        )
        for topic_id, partitions in assignment.items()
    ]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=listed)
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


class KnownTarget(ConsumerGroupTargetAssignmentMemberValue):
    """The value of a record of this node's own decision, with its assignment."""

    __slots__ = ("assignment",)

    assignment: MemberAssignment


class TargetRecord(EncodedRecord):
    """A record of a target assignment, already encoded: a task makes many of them in steps."""

    __slots__ = ("assignment",)

    def __init__(self, group_id: str, member_id: str, assignment: MemberAssignment) -> None:
        record = target(group_id, member_id, assignment)
        assert isinstance(record.value, ConsumerGroupTargetAssignmentMemberValue)
        value = KnownTarget(topic_partitions=record.value.topic_partitions)
        value.assignment = assignment
        super().__init__(record.key, value)
        self.key_bytes, self.value_bytes = encode(record)
        self.assignment = assignment


def no_target(group_id: str, member_id: str) -> Record:
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def no_target_epoch(group_id: str) -> Record:
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def assignment(group_id: str, member: ConsumerMember) -> Record:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=to_listed(member.assigned),
        partitions_pending_revocation=to_listed(member.pending_revocation),
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id), value)


def no_assignment(group_id: str, member_id: str) -> Record:
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def resolved_regex(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> Record:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=version, timestamp=timestamp_ms
    )
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def no_regex(group_id: str, regex: str) -> Record:
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def no_member(group_id: str, member_id: str) -> list[Record]:
    """The records that remove a member from its group."""
    return [
        no_assignment(group_id, member_id),
        no_target(group_id, member_id),
        no_subscription(group_id, member_id),
    ]


def no_group(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[Record]:
    """The records that delete a group, members first."""
    member_ids = list(member_ids)
    return [
        *(no_assignment(group_id, member_id) for member_id in member_ids),
        *(no_target(group_id, member_id) for member_id in member_ids),
        no_target_epoch(group_id),
        *(no_subscription(group_id, member_id) for member_id in member_ids),
        *(no_regex(group_id, regex) for regex in regexes),
        no_subscription_metadata(group_id),
        no_group_epoch(group_id),
    ]
