"""A group of the classic protocol: its state, its members, and its record.

A group goes Empty -> PreparingRebalance (members join) -> CompletingRebalance (the leader makes the
assignment) -> Stable, and back to PreparingRebalance whenever its members change. Rule: the counts kept here
(`joined_count`, `protocol_counts`) change with the members in the same method, so that a join costs the same
in a group of a thousand as in a group of one. `protocol.py` and `rebalance.py` respond, wait and write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from ottla.coordinator.groups.classic.member import (
    CONSUMER_PROTOCOL,
    ClassicMember,
    HeldJoin,
    Protocols,
    subscribed_topics,
    winner,
)
from ottla.coordinator.groups.group import CommitCheck, GroupType
from ottla.coordinator.result import Record
from ottla.wire.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.wire.messages.describe_groups import DescribeGroupsResponse
from ottla.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue

VALUE_VERSION = 3


class ClassicState(Enum):
    """The states of a classic group, by the names that clients see."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_BEFORE = {
    ClassicState.EMPTY: {ClassicState.PREPARING},
    ClassicState.PREPARING: {ClassicState.STABLE, ClassicState.COMPLETING, ClassicState.EMPTY},
    ClassicState.COMPLETING: {ClassicState.PREPARING},
    ClassicState.STABLE: {ClassicState.COMPLETING},
    ClassicState.DEAD: set(ClassicState),
}


class ClassicGroup:
    """See the module. `protocol_type` is "" until a first member has joined."""

    type = GroupType.CLASSIC

    __slots__ = (
        "generation",
        "has_new_member",
        "id",
        "joined_count",
        "leader_id",
        "members",
        "pending_join",
        "pending_sync",
        "previous_state",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_ids",
        "subscribed_topics",
    )

    def __init__(
        self,
        group_id: str,
        *,
        state: ClassicState = ClassicState.EMPTY,
        generation: int = 0,
        protocol_type: str = "",
        protocol_name: str | None = None,
        leader_id: str | None = None,
        state_since_ms: int | None = None,
        members: Iterable[ClassicMember] = (),
    ) -> None:
        self.id = group_id
        self.state = state
        self.previous_state = ClassicState.DEAD
        self.state_since_ms = state_since_ms
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id = leader_id
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.pending_join: set[str] = set()  # ids that were returned with MEMBER_ID_REQUIRED and not used yet
        self.pending_sync: set[str] = set()  # members that have not sent SyncGroup yet
        self.joined_count = 0  # members whose JoinGroup is held
        self.protocol_counts: dict[str, int] = {}  # protocol -> members that support it
        self.subscribed_topics: frozenset[str] | None = None
        self.has_new_member = False  # since the last delay of the first rebalance
        for member in members:
            self.add(member, protocol_type)

    @classmethod
    def new(cls, group_id: str, now_ms: int) -> ClassicGroup:
        """A group without members, which the first join or a commit of a simple consumer creates."""
        return cls(group_id, state_since_ms=now_ms)

    @classmethod
    def of_consumers(
        cls, group_id: str, *, generation: int, members: Iterable[ClassicMember], now_ms: int
    ) -> ClassicGroup:
        """A stable group of consumers, to which a group of the consumer protocol is downgraded.

        The members vote for the protocol; their assignments are those of `members`.
        """
        group = cls(
            group_id,
            state=ClassicState.STABLE,
            generation=generation,
            protocol_type=CONSUMER_PROTOCOL,
            state_since_ms=now_ms,
            members=members,
        )
        group.protocol_name = group.select_protocol()
        group.update_subscribed_topics()
        return group

    @classmethod
    def of_value(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group of a record, which has only the chosen protocol of each member."""
        protocol = value.protocol or ("" if value.members else None)
        group = cls(
            group_id,
            state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
            generation=value.generation,
            protocol_type=value.protocol_type,
            protocol_name=protocol,
            leader_id=value.leader,
            state_since_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
            members=(
                ClassicMember(
                    kept.member_id,
                    instance_id=kept.group_instance_id,
                    client_id=kept.client_id,
                    client_host=kept.client_host,
                    rebalance_timeout_ms=(
                        kept.session_timeout if kept.rebalance_timeout == -1 else kept.rebalance_timeout
                    ),
                    session_timeout_ms=kept.session_timeout,
                    protocols=((protocol or "", kept.subscription),),
                    assignment=kept.assignment,
                )
                for kept in value.members
            ),
        )
        group.update_subscribed_topics()
        return group

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.id!r}, {self.state.value}, generation={self.generation}, "
            f"{len(self.members)} members)"
        )

    # The interface of every kind of group

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_simple(self) -> bool:
        """It only has offsets: no member has ever joined, so the log has no record of the group."""
        return not self.protocol_type and self.is_empty and not self.pending_join

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        epoch: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        """Members of this generation may commit, and any client while the group is empty."""
        if self.state is ClassicState.DEAD:
            raise CoordinatorNotAvailable
        if epoch < 0 and self.is_empty:
            return None
        if epoch >= 0 or member_id or group_instance_id is not None:
            self.check_member(member_id, group_instance_id)
            if epoch != self.generation:
                raise IllegalGeneration
        elif not is_transactional and not self.is_empty:
            raise UnknownMemberId
        if not is_transactional and self.state is ClassicState.COMPLETING:
            raise RebalanceInProgress
        return None

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        self._check_not_dead()

    def check_offset_delete(self) -> None:
        self._check_not_dead()
        if not self.is_empty and not self.is_of_consumers:
            raise NonEmptyGroup

    def check_delete(self) -> None:
        self._check_not_dead()
        if not self.is_empty:
            raise NonEmptyGroup

    def _check_not_dead(self) -> None:
        if self.state is ClassicState.DEAD:
            raise GroupIdNotFound(f"Group {self.id} is in dead state.")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may consume the topic; so may a consumer whose subscription cannot be read."""
        if self.subscribed_topics is None:
            return self.is_of_consumers
        return topic in self.subscribed_topics

    def tombstones(self) -> Iterable[Record]:
        return [Record(GroupMetadataKey(group=self.id), None)]

    def offsets_expire_after(self) -> Callable[[int], int] | None:
        """From when the group became empty; from the commit where the topic may have no subscriber."""
        if not self.protocol_type:
            return _commit_time
        if self.is_empty:
            since_ms = self.state_since_ms
            return _commit_time if since_ms is None else lambda _commit_ms: since_ms
        if self.is_of_consumers and self.subscribed_topics is not None and self.state is ClassicState.STABLE:
            return _commit_time
        return None

    def describe(self) -> DescribeGroupsResponse.DescribedGroup:
        """The group for DescribeGroups. Only a stable one has agreed on a protocol."""
        is_stable = self.state is ClassicState.STABLE
        return DescribeGroupsResponse.DescribedGroup(
            group_id=self.id,
            group_state=self.state.value,
            protocol_type=self.protocol_type,
            protocol_data=(self.protocol_name or "") if is_stable else "",
            members=[
                DescribeGroupsResponse.DescribedGroupMember(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(self.protocol_name) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    # Members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_everyone_joined(self) -> bool:
        return len(self.members) == self.joined_count and not self.pending_join

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member with this id and instance id, or UnknownMemberId or FencedInstanceId."""
        if instance_id is not None:
            known_id = self.static_ids.get(instance_id)
            if known_id is None:
                raise UnknownMemberId
            if known_id != member_id:
                raise FencedInstanceId
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId
        return member

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols has one in common with all the others."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        counts = self.protocol_counts
        return self.protocol_type == protocol_type and any(
            counts.get(name, 0) == count for name, _metadata in protocols
        )

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first one becomes the leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id
        if self.leader_id is None:
            self.leader_id = member.id
        self.members[member.id] = member
        self._count(member.protocols, 1)
        if member.join is not None:
            self.joined_count += 1
        self.pending_join.discard(member.id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending id. If it was the leader, another member becomes it."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            if member.join is not None:
                self.joined_count -= 1
            if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
                del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        return member

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """A static member rejoined under a new id; everything else stays the same."""
        if old.join is not None or old.sync is not None:
            raise ValueError(f"Member {old.id} still awaits a response and cannot be replaced by {new.id}.")
        del self.members[old.id]
        self.members[new.id] = new
        self._count(old.protocols, -1)
        self._count(new.protocols, 1)
        if self.leader_id == old.id:
            self.leader_id = new.id
        if old.id in self.pending_sync:
            self.pending_sync.remove(old.id)
            self.pending_sync.add(new.id)
        if new.instance_id is not None:
            self.static_ids[new.instance_id] = new.id

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def hold_join(self, member: ClassicMember, join: HeldJoin | None) -> HeldJoin | None:
        """Set the held JoinGroup of a member, or clear it; returns the one that was held before."""
        held = member.join
        self.joined_count += (join is not None) - (held is not None)
        member.join = join
        return held

    def _count(self, protocols: Protocols, change: int) -> None:
        counts = self.protocol_counts
        for name in dict.fromkeys(name for name, _metadata in protocols):  # one may be named twice
            count = counts.get(name, 0) + change
            if count:
                counts[name] = count
            else:
                del counts[name]

    # Generations

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        if self.state not in _BEFORE[state]:
            raise ValueError(f"Group {self.id} cannot change from {self.state.value} to {state.value}.")
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    def elect_joined_leader(self) -> bool:
        """If the leader did not rejoin, a member that did becomes the leader. False: no member has joined."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is not None and leader.join is not None:
            return True
        for member in self.members.values():
            if member.join is not None:
                self.leader_id = member.id
                return True
        return False

    def begin_generation(self, now_ms: int) -> None:
        """The join phase is over: the current members are the next generation."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscribed_topics()
        self.move_to(ClassicState.COMPLETING if self.members else ClassicState.EMPTY, now_ms)
        self.pending_sync.clear()

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members support."""
        count = len(self.members)
        candidates = {name for name, support in self.protocol_counts.items() if support == count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return winner(votes)

    def update_subscribed_topics(self) -> None:
        """Read the subscriptions. Only those of consumers have a known format."""
        if not self.is_of_consumers or (self.members and self.protocol_name is None):
            self.subscribed_topics = None
            return
        self.subscribed_topics = subscribed_topics(
            member.metadata(self.protocol_name) for member in self.members.values()
        )

    # Records

    def record(self, assignments: Mapping[str, bytes]) -> Record:
        """The record of the group with these assignments, one for every member."""
        return self._record(
            GroupMetadataValue(
                protocol=self.protocol_name,
                protocol_type=self.protocol_type,
                generation=self.generation,
                leader=self.leader_id,
                current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
                members=[
                    GroupMetadataValue.MemberMetadata(
                        member_id=member.id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=member.metadata(self.protocol_name),
                        assignment=assignments[member.id],
                    )
                    for member in self.members.values()
                ],
            )
        )

    def current_record(self) -> Record:
        """The record with the current assignments."""
        return self.record({member.id: member.assignment for member in self.members.values()})

    def initial_record(self) -> Record:
        """The record of a group without members, whatever its state is by now."""
        return self._record(
            GroupMetadataValue(
                protocol=None,
                protocol_type="",
                generation=0,
                leader=None,
                current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            )
        )

    def _record(self, value: GroupMetadataValue) -> Record:
        return Record(GroupMetadataKey(group=self.id), value, VALUE_VERSION)

    def replay_assignments(self, value: GroupMetadataValue, now_ms: int) -> None:
        """Replay the record that this group has written: the assignments of its leader take effect."""
        if self.state is ClassicState.COMPLETING:
            for kept in value.members:
                self.members[kept.member_id].assignment = kept.assignment
            self.move_to(ClassicState.STABLE, now_ms)


def _commit_time(commit_ms: int) -> int:
    return commit_ms
