"""A consumer group (KIP-848): its members, the partitions that they own, and the target assignment.

State changes by `put_member`, `remove_member` and the other methods that replay calls. They also update all
counts (topics, expressions, assignors, owners of partitions), so no decision iterates over the members.
`partition_epochs` keeps a partition from having two owners: it lists every partition that a member may own,
and only a partition that is not in it is assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.groups.assignors.spec import MemberAssignment
from ottla.coordinator.groups.consumer import records
from ottla.coordinator.groups.consumer.member import LEAVE_EPOCH, ConsumerMember, MemberState, Partitions
from ottla.coordinator.groups.group import CommitCheck, GroupType
from ottla.coordinator.result import Record
from ottla.wire import errors

PROTOCOL_TYPE = "consumer"

NOTHING: Final[MemberAssignment] = {}


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that an expression matched, at which version of the metadata, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class TopicIndex:
    """The groups that are subscribed to a topic, and a cache of the hashes of such topics."""

    __slots__ = ("groups", "hashes")

    def __init__(self) -> None:
        self.groups: dict[str, set[str]] = {}
        self.hashes: dict[str, int] = {}

    def add(self, topic: str, group_id: str) -> None:
        self.groups.setdefault(topic, set()).add(group_id)

    def discard(self, topic: str, group_id: str) -> None:
        groups = self.groups.get(topic)
        if groups is not None:
            groups.discard(group_id)
            if not groups:
                del self.groups[topic]
                self.hashes.pop(topic, None)


def count(counts: dict[str, int], key: str, change: int) -> None:
    """Change a count. The dictionary has only counts other than 0."""
    value = counts.get(key, 0) + change
    if value > 0:
        counts[key] = value
    else:
        counts.pop(key, None)


class ConsumerGroup:
    """See the module. A `Group`."""

    type = GroupType.CONSUMER
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str, index: TopicIndex | None = None) -> None:
        self.id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.target: dict[str, MemberAssignment] = {}
        self.target_epoch = 1
        self.target_timestamp_ms = 0
        self.partition_epochs: dict[bytes, dict[int, int]] = {}  # of partitions that a member may own
        self.names: dict[str, int] = {}  # topic -> members that are subscribed to it by name
        self.matched: dict[str, int] = {}  # topic -> resolved expressions that match it
        self.regexes: dict[str, int] = {}  # expression -> members
        self.resolved: dict[str, ResolvedRegex] = {}
        self.assignors: dict[str, int] = {}  # assignor -> members that request it
        self.classic_count = 0
        self.classic_protocols: dict[str, int] = {}  # name -> classic members that support it
        self.has_subscription_metadata = False  # in the log, from a coordinator before Kafka 4.1
        self.refresh_deadline: tuple[int, int] = (0, 0)
        """When topics are compared next (ms), and the group's epoch when that was set. Not in the log."""
        self.hashed: tuple[frozenset[str], int] | None = None
        """Topics, and their hash as long as none of them has changed. Not in the log."""
        self._last_names: frozenset[str] = frozenset()
        self._index = index if index is not None else TopicIndex()

    # The interface of every kind of group

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        target_epoch = self.target_epoch
        if all(member.is_reconciled_to(target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.names or topic in self.matched

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        epoch: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        """The epoch must be the member's, or at least as new as its assignment of each partition."""
        if epoch < 0 and not self.members:
            return None  # an admin client or a consumer without a group
        if is_transactional and epoch == -1 and not member_id and group_instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and member.classic is None and version < 9:
            raise errors.UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            )
        if epoch == member.epoch:
            return None
        stale, name = _stale(member)
        if epoch > member.epoch:
            raise stale(f"Received {name} {epoch} is newer than current member epoch {member.epoch}.")
        return _check_of_partition(member, epoch)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            stale, name = _stale(member)
            raise stale(
                f"The received {name} {epoch} does not match the expected member epoch {member.epoch}."
            )

    def check_offset_delete(self) -> None:
        """Always allowed; subscribed topics are rejected one by one."""

    def check_delete(self) -> None:
        if self.members:
            raise errors.NonEmptyGroup

    def tombstones(self) -> Iterable[Record]:
        return records.no_group(self.id, self.members, self.resolved)

    def offsets_expire_after(self) -> Callable[[int], int] | None:
        return _from_the_commit

    # Members

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def put_member(self, member: ConsumerMember) -> None:
        """A new member, or a newer state of one."""
        old = self.members.get(member.id)
        self.members[member.id] = member
        if old is None or old.topic_names is not member.topic_names:
            self._count_names(member.topic_names, 1)
            if old is not None:
                self._count_names(old.topic_names, -1)
        if old is not None:
            self._count_member(old, -1)
            self._release(old.assigned, old.epoch)
            self._release(old.pending_revocation, old.epoch)
        self._count_member(member, 1)
        self._occupy(member.assigned, member.epoch)
        self._occupy(member.pending_revocation, member.epoch)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count_names(member.topic_names, -1)
        self._count_member(member, -1)
        self._release(member.assigned, member.epoch)
        self._release(member.pending_revocation, member.epoch)
        # Another member may have the instance id by now.
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def remove_member_assignment(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None and member.epoch != LEAVE_EPOCH:
            self.put_member(member.removed())

    def _count_member(self, member: ConsumerMember, change: int) -> None:
        if member.assignor is not None:
            count(self.assignors, member.assignor, change)
        if member.topic_regex:
            count(self.regexes, member.topic_regex, change)
        if member.classic is not None:
            self.classic_count += change
            # A member may list a protocol twice, and counts once.
            for name in dict.fromkeys(protocol.name for protocol in member.classic.supported_protocols):
                count(self.classic_protocols, name, change)

    def _count_names(self, names: Iterable[str], change: int) -> None:
        for name in names:
            count(self.names, name, change)
            self._reindex(name)

    def _reindex(self, topic: str) -> None:
        if topic in self.names or topic in self.matched:
            self._index.add(topic, self.id)
        else:
            self._index.discard(topic, self.id)

    def _occupy(self, partitions: Partitions, epoch: int) -> None:
        for topic_id, owned in partitions.items():
            epochs = self.partition_epochs.setdefault(topic_id, {})
            for partition in owned:
                if epochs.get(partition, LEAVE_EPOCH - 2) < epoch:
                    epochs[partition] = epoch

    def _release(self, partitions: Partitions, epoch: int) -> None:
        for topic_id, owned in partitions.items():
            epochs = self.partition_epochs.get(topic_id)
            if epochs is None:
                continue
            for partition in owned:
                # With another epoch it belongs to a later owner.
                if epochs.get(partition) == epoch:
                    del epochs[partition]
            if not epochs:
                del self.partition_epochs[topic_id]

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Whether some member may own a partition."""
        epochs = self.partition_epochs.get(topic_id)
        return epochs is not None and partition in epochs

    # Subscriptions

    def shared_names(self, names: Iterable[str]) -> frozenset[str]:
        """The names as a set: one object for members that are subscribed to the same topics."""
        mine = frozenset(names)
        if mine != self._last_names:
            self._last_names = mine
        return self._last_names

    def put_resolved(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """The topics that an expression matches; None: no member subscribes to it any more."""
        old = self.resolved.pop(regex, None)
        if resolved is not None:
            self.resolved[regex] = resolved
            for topic in resolved.topics:
                count(self.matched, topic, 1)
        if old is not None:
            for topic in old.topics:
                count(self.matched, topic, -1)
                self._reindex(topic)
        if resolved is not None:
            for topic in resolved.topics:
                self._reindex(topic)

    def subscribed_names(self, member: ConsumerMember) -> frozenset[str]:
        """The names of a member's topics, existing or not. An unresolved expression matches none."""
        resolved = self.resolved.get(member.topic_regex) if member.topic_regex else None
        if resolved is None:
            return member.topic_names
        return member.topic_names | resolved.topics if member.topic_names else resolved.topics

    def preferred_assignor(self) -> str | None:
        return most_wanted(self.assignors)

    # Target assignment

    def target_of(self, member: ConsumerMember) -> MemberAssignment:
        """Also of a member that is about to take over from a static member."""
        member_id = member.id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, "")
        return self.target.get(member_id, NOTHING)

    # Refresh of the topics' metadata

    def request_metadata_refresh(self) -> None:
        self.refresh_deadline = (0, 0)
        self.hashed = None

    def has_metadata_expired(self, now_ms: int) -> bool:
        deadline_ms, epoch = self.refresh_deadline
        return now_ms >= deadline_ms or self.epoch < epoch

    # Classic members

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a classic member with these protocols has one in common with the other classic members."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if not self.members:
            return any(True for _ in names)
        return any(self.classic_protocols.get(name, 0) == self.classic_count for name in names)

    def is_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether all members but those that leave speak the classic protocol."""
        leaving = list(leaving)
        classic = sum(member.classic is not None for member in leaving)
        return self.classic_count - classic == len(self.members) - len(leaving)

    def is_waiting_for_partitions(self, member: ConsumerMember) -> bool:
        """Whether a partition that a member is to own is still owned by another."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.is_owned(topic_id, partition)
            for topic_id, partitions in self.target.get(member.id, NOTHING).items()
            for partition in partitions
        )

    def forget_topics(self) -> None:
        """Remove the group from the index of topics, before it is removed."""
        for topic in [*self.names, *self.matched]:
            self._index.discard(topic, self.id)


def known_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The static member with this instance id and member id."""
    member = group.static_member(instance_id)
    if member is None:
        raise errors.UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if member.id != member_id:
        raise errors.FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.id}."
        )
    return member


def most_wanted(counts: dict[str, int]) -> str | None:
    """The assignor that most members request; of equals the first one in Kafka's hash table."""
    if not counts:
        return None
    most = max(counts.values())
    return min((name for name, wanted in counts.items() if wanted == most), key=_bucket)


def _bucket(name: str) -> tuple[int, str]:
    hashed = 0
    for character in name:
        hashed = 31 * hashed + ord(character) & 0xFFFFFFFF
    return (hashed ^ hashed >> 16) & 15, name


def _from_the_commit(commit_ms: int) -> int:
    return commit_ms


def _stale(member: ConsumerMember) -> tuple[Callable[[str], errors.KafkaError], str]:
    if member.classic is not None:
        return errors.IllegalGeneration, "generation id"
    return errors.StaleMemberEpoch, "member epoch"


def _check_of_partition(member: ConsumerMember, epoch: int) -> CommitCheck:
    stale, name = _stale(member)

    def check(topic: str, topic_id: bytes, partition: int) -> None:
        since = member.partition_epoch(topic_id, partition)
        if since is None:
            raise stale(f"Partition {topic}-{partition} is not assigned or pending revocation for member.")
        if epoch < since:
            raise stale(
                f"Received {name} {epoch} is older than assignment epoch {since} for partition "
                f"{topic}-{partition}."
            )

    return check
