"""One partition of `__consumer_offsets`: its groups, their offsets, and what is asked of all groups alike.

The protocols (`classic.py`, `consumer.py`) and the offsets (`offsets.py`) hold the decisions; this class
composes them and hands each record to the part that keeps it. Rule: what a group of an unknown kind wrote
(share and streams groups) is left alone: it stays in the log, and no group of that name appears.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.coordinator.groups.offsets import Offsets
from ottla.coordinator.result import Record, Reply, Result
from ottla.wire.errors import GroupIdNotFound
from ottla.wire.messages import group_records as records

if TYPE_CHECKING:
    from ottla.controller.delta import ImageDelta
    from ottla.controller.image import ClusterImage
    from ottla.coordinator.groups.group import Group
    from ottla.coordinator.groups.settings import GroupSettings
    from ottla.ports import Clock, Random
    from ottla.wire.message import Message

_Replay = Callable[[Any, Any], None]


class GroupShard:
    """See the module. `groups` has every group of the partition by its id."""

    def __init__(
        self, *, index: int, image: ClusterImage, clock: Clock, random: Random, settings: GroupSettings
    ) -> None:
        from ottla.coordinator.groups.classic import ClassicProtocol
        from ottla.coordinator.groups.consumer import ConsumerProtocol

        self.index = index
        self.image = image
        self.clock = clock
        self.random = random
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets(self)
        self.classic = ClassicProtocol(self)
        self.consumer = ConsumerProtocol(self)
        consumer = self.consumer
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

    # Replay

    def replay(self, record: Record, *, producer_id: int = -1, producer_epoch: int = -1) -> None:
        """Apply one record. Only offsets are written in transactions."""
        key = record.key
        replay = self._replays.get(type(key))
        if replay is not None:
            replay(key, record.value)

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """The pending offsets of a producer take effect, or go."""

    # The runtime's calls

    def on_loaded(self) -> Result[None]:
        result: Result[None] = Result()
        result.add(self.classic.on_loaded())
        result.add(self.consumer.on_loaded())
        return result

    def on_unloaded(self) -> list[Reply]:
        return self.classic.held_replies()

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> Result[None]:
        self.image = image
        return self.consumer.on_metadata(image, delta)
