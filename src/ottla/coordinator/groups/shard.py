"""One partition of `__consumer_offsets`: its groups, their offsets, and requests about all kinds of groups.

`classic/`, `consumer/` and `offsets/` have the decisions; this class composes them and passes each record to
the part that replays it. Rule: records of unknown kinds of groups (share and streams groups) are ignored:
they stay in the log, and no group of that name exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.coordinator.groups.classic.group import ClassicGroup
from ottla.coordinator.groups.classic.protocol import ClassicProtocol
from ottla.coordinator.groups.consumer.protocol import ConsumerProtocol
from ottla.coordinator.groups.expiration import Cleanup
from ottla.coordinator.groups.offsets.protocol import Offsets
from ottla.coordinator.groups.offsets.records import OffsetRecord
from ottla.coordinator.groups.offsets.store import Pair
from ottla.coordinator.result import Record, Result
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.error_codes import ErrorCode
from ottla.wire.errors import GroupIdNotFound, KafkaError
from ottla.wire.messages import group_records as records
from ottla.wire.messages.delete_groups import DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsResponse
from ottla.wire.messages.list_groups import ListGroupsResponse

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.coordinator.groups.group import Group
    from ottla.coordinator.groups.settings import GroupSettings
    from ottla.ports import Clock, Random
    from ottla.wire.message import Message

DEAD = "Dead"
_GROUP_NOT_FOUND_SINCE = 6
"""Older clients of DescribeGroups see the state Dead and no error."""

DeletedGroup = DeleteGroupsResponse.DeletableGroupResult
DescribedGroup = DescribeGroupsResponse.DescribedGroup
ListedGroup = ListGroupsResponse.ListedGroup

_Replay = Callable[[Any, Any], None]


class GroupFilter:
    """The filter of ListGroups: states and types, in any case. Empty: all."""

    __slots__ = ("states", "types")

    def __init__(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> None:
        self.states = {state.lower().strip() for state in states}
        self.types = {name.lower() for name in types}


class GroupShard:
    """See the module. `groups`: group id -> group."""

    def __init__(
        self, *, index: int, image: ClusterImage, clock: Clock, random: Random, settings: GroupSettings
    ) -> None:
        self.index = index
        self.image = image
        self.clock = clock
        self.random = random
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets(self)
        self.cleanup = Cleanup(self)
        self.classic = ClassicProtocol(self)
        self.consumer = ConsumerProtocol(self)
        consumer = self.consumer.replay
        self._replays: dict[type[Message], _Replay] = {
            records.GroupMetadataKey: self.classic.replay_group,
            records.ConsumerGroupMetadataKey: consumer.replay_group,
            records.ConsumerGroupPartitionMetadataKey: consumer.replay_partition_metadata,
            records.ConsumerGroupMemberMetadataKey: consumer.replay_member_metadata,
            records.ConsumerGroupTargetAssignmentMetadataKey: consumer.replay_target_assignment_metadata,
            records.ConsumerGroupTargetAssignmentMemberKey: consumer.replay_target_assignment_member,
            records.ConsumerGroupCurrentMemberAssignmentKey: consumer.replay_current_member_assignment,
            records.ConsumerGroupRegularExpressionKey: consumer.replay_regular_expression,
        }

    def group(self, group_id: str) -> Group:
        """The group, or GroupIdNotFound."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def add_simple_group(self, group_id: str) -> None:
        """Add a group that only has offsets: no member has joined it."""
        self.groups[group_id] = ClassicGroup.new(group_id, self.clock.now_ms())

    def end_group(self, group: Group, result: Result[object]) -> None:
        """Delete an empty group; the caller deletes its offsets."""
        result.records += group.tombstones()
        if isinstance(group, ClassicGroup):
            self.classic.stop_timers(group, result)

    # Replay

    def replay(self, record: Record, *, producer_id: int = -1, producer_epoch: int = -1) -> None:
        """Apply one record. Transactions have only records of offsets."""
        if type(record) is OffsetRecord:
            self.offsets.replay(
                record.group_id, record.topic, record.partition, record.value_bytes, producer_id
            )
            return
        key = record.key
        replay = self._replays.get(type(key))
        if replay is not None:
            replay(key, record.value)
        elif isinstance(key, (records.OffsetCommitKey, records.LegacyOffsetCommitKey)):
            self.offsets.replay_message(record, producer_id)

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Apply or drop the pending offsets of a producer."""
        self.offsets.store.end_transaction(producer_id, is_commit=is_commit)

    def load(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Replay encoded records outside transactions. Returns those that are for `replay`.

        Only commits of offsets are replayed here, many times faster than by `replay`. They may be replayed
        before the other records: no other record changes offsets, and groups that have only offsets are
        created at the end of the load.
        """
        return self.offsets.store.load(pairs)

    # The runtime's calls

    def on_loaded(self) -> Result[None]:
        store = self.offsets.store
        store.end_load()
        for group_id in store.committed:
            if group_id not in self.groups:
                self.add_simple_group(group_id)
        result: Result[None] = Result(timers=[self.cleanup.next_sweep()])
        result.add(self.classic.on_loaded())
        result.add(self.consumer.on_loaded())
        return result

    def on_unloaded(self) -> list[PendingResponse]:
        return [*self.classic.pending_responses(), *self.consumer.pending_responses()]

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> Result[None]:
        self.image = image
        result = self.consumer.on_metadata(image, delta)
        if delta.topics_deleted:
            result.add(self.cleanup.on_topics_deleted(delta.topics_deleted.values()))
        return result

    # Requests about all kinds of groups

    def list_groups(self, group_ids: Iterable[str], wanted: GroupFilter) -> list[ListedGroup]:
        """The groups that match the filter."""
        listed = []
        for group_id in group_ids:
            group = self.groups.get(group_id)
            if group is None:
                continue
            type_name = group.type.value.lower()
            if wanted.types and type_name not in wanted.types:
                continue
            state = group.state_name
            if wanted.states and state.lower() not in wanted.states:
                continue
            listed.append(
                ListedGroup(
                    group_id=group.id,
                    protocol_type=group.protocol_type,
                    group_state=state,
                    group_type=type_name,
                )
            )
        return listed

    def describe_classic(self, group_id: str, version: int) -> DescribedGroup:
        """A classic group. A missing group has the state Dead."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.describe()
        described = DescribedGroup(group_id=group_id, group_state=DEAD)
        if version >= _GROUP_NOT_FOUND_SINCE:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = (
                f"Group {group_id} not found."
                if group is None
                else f"Group {group_id} is not a classic group."
            )
        return described

    def delete_groups(self, group_ids: Iterable[str]) -> Result[list[DeletedGroup]]:
        """Delete empty groups with their offsets. Each group has its own result."""
        result: Result[list[DeletedGroup]] = Result()
        answers = []
        for group_id in group_ids:
            answer = DeletedGroup(group_id=group_id)
            try:
                group = self.group(group_id)
                group.check_delete()
            except KafkaError as error:
                answer.error_code = error.code
            else:
                result.records += self.offsets.tombstones_of(group_id)
                self.end_group(group, result)
            answers.append(answer)
        result.response = answers
        return result
