"""Consumer groups from their records: each method applies one record, or its tombstone (no value).

The same methods apply what a decision has just written and what a load reads from the log. A compacted log
may begin with any record: a tombstone of something unknown is ignored, and a record of a member creates
its group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex, TopicIndex
from ottla.coordinator.groups.consumer.member import ConsumerMember
from ottla.coordinator.groups.consumer.records import KnownTarget
from ottla.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from ottla.coordinator.groups.group import Group


class ConsumerReplay:
    """See the module. `groups` are all groups of the shard; the consumer groups keep `index` up to date."""

    def __init__(self, groups: dict[str, Group], on_group_removed: Callable[[str], None]) -> None:
        self._groups = groups
        self._on_group_removed = on_group_removed
        self.index = TopicIndex()

    def group(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group of that name; None if there is none, or a group of another kind."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _group_of_record(self, group_id: str) -> ConsumerGroup:
        """The consumer group that a record belongs to. It replaces a group of another kind."""
        group = self.group(group_id)
        if group is None:
            group = self._groups[group_id] = ConsumerGroup(group_id, self.index)
        return group

    def replay_group(self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
        if value is not None:
            group = self._group_of_record(key.group_id)
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
            return
        removed = self.group(key.group_id)
        if removed is not None:
            removed.forget_topics()
            del self._groups[key.group_id]
            self._on_group_removed(key.group_id)

    def replay_partition_metadata(
        self, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
    ) -> None:
        group = self._group_of_record(key.group_id) if value is not None else self.group(key.group_id)
        if group is not None:
            group.has_subscription_metadata = value is not None

    def replay_member_metadata(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._group_of_record(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            names = group.shared_names(value.subscribed_topic_names)
            group.put_member(member.with_subscription(value, names))
            return
        known = self.group(key.group_id)
        if known is not None:
            known.remove_member(key.member_id)

    def replay_target_assignment_metadata(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        if value is not None:
            group = self._group_of_record(key.group_id)
            group.target_epoch = value.assignment_epoch
            group.target_timestamp_ms = value.assignment_timestamp
            return
        known = self.group(key.group_id)
        if known is not None:
            known.target_epoch = -1
            known.target_timestamp_ms = 0

    def replay_target_assignment_member(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if type(value) is KnownTarget:
            self._group_of_record(key.group_id).target[key.member_id] = value.assignment
            return
        if value is not None:
            self._group_of_record(key.group_id).target[key.member_id] = {
                topic.topic_id: tuple(topic.partitions) for topic in value.topic_partitions
            }
            return
        known = self.group(key.group_id)
        if known is not None:
            known.target.pop(key.member_id, None)

    def replay_current_member_assignment(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group = self._group_of_record(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.put_member(member.with_assignment(value))
            return
        known = self.group(key.group_id)
        if known is not None:
            known.remove_member_assignment(key.member_id)

    def replay_regular_expression(
        self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
    ) -> None:
        if value is not None:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self._group_of_record(key.group_id).put_resolved(key.regular_expression, resolved)
            return
        known = self.group(key.group_id)
        if known is not None:
            known.put_resolved(key.regular_expression, None)
