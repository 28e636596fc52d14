"""One partition of `__consumer_offsets`: its groups, their offsets, and what is asked of all groups alike.

The protocols (`classic.py`, `consumer.py`) and the offsets (`offsets.py`) hold the decisions; this class
composes them and hands each record to the part that keeps it. Rule: what a group of an unknown kind wrote
(share and streams groups) is left alone: it stays in the log, and no group of that name appears.
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
    """What ListGroups asks for: states and types, whatever their case. None named: any."""

    __slots__ = ("states", "types")

    def __init__(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> None:
        self.states = {state.lower().strip() for state in states}
        self.types = {name.lower() for name in types}


class GroupShard:
    """See the module. `groups` has every group of the partition by its id."""

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
        """A group that is there; GroupIdNotFound if it is not."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def add_simple_group(self, group_id: str) -> None:
        """A group that only has offsets: nobody has joined it."""
        self.groups[group_id] = ClassicGroup.new(group_id, self.clock.now_ms())

    def end_group(self, group: Group, result: Result[Any]) -> None:
        """Delete a group that nobody is in; its offsets are deleted by whoever asks for this."""
        result.records += group.tombstones()
        if isinstance(group, ClassicGroup):
            self.classic.stop_timers(group, result)

    # Replay

    def replay(self, record: Record, *, producer_id: int = -1, producer_epoch: int = -1) -> None:
        """Apply one record. Only offsets are written in transactions."""
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
        """The pending offsets of a producer take effect, or go."""
        self.offsets.store.end_transaction(producer_id, is_commit=is_commit)

    def load(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Replay records that are not of a transaction, as bytes. What comes back is for `replay`.

        Only commits of offsets are taken, many times faster than by `replay`. They may go before the other
        records: no other record says anything of offsets, and groups that have only offsets are made at the
        end of the load.
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

    # What is asked of all groups alike

    def list_groups(self, group_ids: Iterable[str], wanted: GroupFilter) -> list[ListedGroup]:
        """Those of these groups that are wanted."""
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
        """A group of the classic protocol. One that is not there is dead."""
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
        """Delete groups that nobody is in, with their offsets. Each of them is answered for itself."""
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
