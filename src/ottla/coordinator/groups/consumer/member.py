"""One member of a consumer group, as in the log.

A member is a value: it is never changed, only replaced (`changed`). So a decision can compare a member before
and after, and write the records of the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

LEAVE_EPOCH = -1
"""The epoch in the last heartbeat of a member that leaves, and that of a member that is removed."""
LEAVE_STATIC_EPOCH = -2
"""The epoch of a static member that has left and will rejoin."""

Partitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch at which the member got it."""

ClassicMetadata = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
Owned = list[ConsumerGroupHeartbeatRequest.TopicPartitions]
_Listed = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions


class MemberState(IntEnum):
    """How far a member is with its target assignment, with the codes of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it must confirm first that it revoked some partitions
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that others still own
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        """A code that a newer coordinator wrote is UNKNOWN."""
        return cls(number) if number in (0, 1, 2) else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member. It may own the partitions in `assigned` and `pending_revocation`."""

    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    assignor: str | None = None
    assigned: Partitions = field(default_factory=dict)
    pending_revocation: Partitions = field(default_factory=dict)
    classic: ClassicMetadata | None = None
    """Set for a member that speaks the classic protocol."""

    def changed(self, **fields: Any) -> ConsumerMember:
        return replace(self, **fields)

    def moved(
        self,
        state: MemberState,
        epoch: int,
        previous_epoch: int,
        assigned: Partitions,
        pending_revocation: Partitions,
    ) -> ConsumerMember:
        """The member in its next state. Half of the heartbeats in a rebalance need it: written out."""
        return ConsumerMember(
            self.id,
            epoch,
            previous_epoch,
            state,
            self.instance_id,
            self.rack_id,
            self.rebalance_timeout_ms,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.topic_regex,
            self.assignor,
            assigned,
            pending_revocation,
            self.classic,
        )

    @property
    def regex(self) -> str | None:
        """The expression of its subscription, if it has one: an empty one means none."""
        return self.topic_regex or None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def partition_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch since which it owns a partition; None if it does not."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_subscription(
        self, value: ConsumerGroupMemberMetadataValue, topic_names: frozenset[str]
    ) -> ConsumerMember:
        """With the subscription of a record; `topic_names` are those of the record."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=topic_names,
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """With the current assignment of a record."""
        return self.moved(
            MemberState.of(value.state),
            value.member_epoch,
            value.previous_member_epoch,
            _from_listed(value.assigned_partitions, value.member_epoch),
            _from_listed(value.partitions_pending_revocation, value.member_epoch),
        )

    def leaving_for_a_while(self) -> ConsumerMember:
        """A static member that left: it gets its partitions back when it rejoins."""
        return replace(
            self,
            epoch=LEAVE_STATIC_EPOCH,
            assigned={topic_id: dict.fromkeys(owned, 0) for topic_id, owned in self.assigned.items()},
            pending_revocation={},
        )

    def removed(self) -> ConsumerMember:
        """Without an assignment: the record of its subscription is deleted next."""
        return replace(
            self, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, pending_revocation={}
        )


def with_epoch(partitions: Mapping[bytes, Iterable[int]], epoch: int) -> Partitions:
    return {topic_id: dict.fromkeys(owned, epoch) for topic_id, owned in partitions.items()}


def _from_listed(listed: list[_Listed], member_epoch: int) -> Partitions:
    # Older records have no epochs of partitions; the member's own epoch may be -2.
    partitions: dict[bytes, dict[int, int]] = {}
    for topic in listed:
        epochs = topic.assignment_epochs
        if epochs is not None and len(epochs) == len(topic.partitions):
            partitions[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
        else:
            partitions[topic.topic_id] = dict.fromkeys(topic.partitions, max(member_epoch, 0))
    return partitions


def to_listed(partitions: Partitions) -> list[_Listed]:
    return [
        _Listed(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in partitions.items()
    ]


def is_within(owned: Owned | None, partitions: Partitions) -> bool:
    """Whether a client that lists its partitions owns none but these."""
    return owned is not None and all(
        topic.topic_id in partitions and partitions[topic.topic_id].keys() >= set(topic.partitions)
        for topic in owned
    )


def owns_any(owned: Owned | None, partitions: Partitions) -> bool:
    """Whether a client owns one of these. Without a list it may own them all."""
    if owned is None:
        return True
    return any(
        not partitions[topic.topic_id].keys().isdisjoint(topic.partitions)
        for topic in owned
        if topic.topic_id in partitions
    )
