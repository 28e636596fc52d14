"""Sticky assignment if members subscribe to different topics: balanced, with few moves.

Members keep the partitions that they own. The remaining ones are assigned to the subscriber with the fewest;
then partitions move from members with more to members with fewer, until no move helps. If all moves together
do not improve the balance, none is made.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from ottla.client.core.assignors.interface import Assigned, Topics
from ottla.client.core.assignors.java_order import in_hash_order, partition_hash, table_size, text_order
from ottla.client.core.assignors.racks import Racks
from ottla.client.core.subscription import MemberSubscription
from ottla.client.values import TopicPartition

Previous = Mapping[TopicPartition, tuple[str, int]]
"""The owner of a partition in an earlier generation, and that generation."""


class General:
    """One assignment."""

    def __init__(
        self,
        topics: Topics,
        racks: Racks,
        owned: Mapping[str, list[TopicPartition]],
        members: Mapping[str, MemberSubscription],
        previous: Previous,
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._previous = previous
        self._wants = {
            name: dict.fromkeys(topic for topic in member.topics if topic in topics.racks)
            for name, member in members.items()
        }
        self._takers = {
            topic: [name for name in members if topic in self._wants[name]] for topic in topics.racks
        }
        self._most_for = {name: sum(map(topics.count, wanted)) for name, wanted in self._wants.items()}
        self.assigned: Assigned = {name: list(owned[name]) for name in members}
        self._owner: dict[TopicPartition, str] = {}
        self._ranks: list[tuple[int, bytes, str]] = []  # members by how much they have, least first
        self._must_revoke = False
        self._moves = _Moves()

    def build(self) -> Assigned:
        self._keep()
        every = self._topics.partitions(
            sorted(self._takers, key=lambda topic: (len(self._takers[topic]), topic))
        )
        left = [partition for partition in every if partition not in self._owner]
        self._ranks = sorted(map(self._rank, self.assigned))
        from_nothing = not self._owner
        self._hand_out(left)
        movable = [partition for partition in every if len(self._takers[partition.topic]) > 1]
        self._balance(movable, [one for one in left if len(self._takers[one.topic]) > 1], from_nothing)
        return self.assigned

    def _keep(self) -> None:
        """Revoke from members what they no longer subscribe to, or what is not in their rack."""
        for member, owned in self.assigned.items():
            kept = []
            for partition in owned:
                if partition.topic in self._wants[member] and not self._racks.mismatch(member, partition):
                    kept.append(partition)
                    self._owner[partition] = member
                else:
                    self._must_revoke = True
            self.assigned[member] = kept

    # Members by how much they have ------------------------------------------------------------------------

    def _rank(self, member: str) -> tuple[int, bytes, str]:
        return len(self.assigned[member]), text_order(member), member

    def _give(self, member: str, partition: TopicPartition) -> None:
        self._unrank(member)
        self.assigned[member].append(partition)
        self._owner[partition] = member
        insort(self._ranks, self._rank(member))

    def _take(self, member: str, partition: TopicPartition) -> None:
        self._unrank(member)
        self.assigned[member].remove(partition)
        insort(self._ranks, self._rank(member))

    def _unrank(self, member: str) -> None:
        del self._ranks[bisect_left(self._ranks, self._rank(member))]

    # What is left -----------------------------------------------------------------------------------------

    def _hand_out(self, left: list[TopicPartition]) -> None:
        if self._racks.matter:
            left = [partition for partition in left if not self._to_least(partition, near=True)]
        for partition in left:
            self._to_least(partition, near=False)

    def _to_least(self, partition: TopicPartition, *, near: bool) -> bool:
        """Assign a partition to its subscriber with the fewest partitions."""
        for _, _, member in self._ranks:
            if partition.topic in self._wants[member] and not (
                near and self._racks.mismatch(member, partition)
            ):
                self._give(member, partition)
                return True
        return False

    # Moves ------------------------------------------------------------------------------------------------

    def _balance(self, movable: list[TopicPartition], new: list[TopicPartition], from_nothing: bool) -> None:
        aside = {member: self.assigned[member] for member in self.assigned if not self._can_change(member)}
        for member in aside:
            self._unrank(member)
            del self.assigned[member]
        before = {member: list(partitions) for member, partitions in self.assigned.items()}
        if not self._must_revoke:
            self._move(new)
        moved = self._move(movable)
        if moved and not from_nothing and _unevenness(self.assigned) >= _unevenness(before):
            self.assigned = before
        self.assigned.update(aside)

    def _can_change(self, member: str) -> bool:
        """Whether a member could get or lose a partition."""
        partitions = self.assigned[member]
        return len(partitions) < self._most_for[member] or any(
            len(self._takers[partition.topic]) > 1 for partition in partitions
        )

    def _move(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions as long as that helps; return whether any was moved."""
        moved = False
        again = True
        while again:
            again = False
            for partition in partitions:
                if self._is_balanced():
                    break
                if self._move_one(partition):
                    moved = again = True
        return moved

    def _move_one(self, partition: TopicPartition) -> bool:
        owner = self._owner[partition]
        size = len(self.assigned[owner])
        former = self._previous.get(partition, (None, 0))[0]
        if (
            former in self.assigned
            and partition.topic in self._wants[former]
            and size > len(self.assigned[former]) + 1
        ):
            self._hand_over(partition, former)
            return True
        if any(
            size > len(self.assigned[other]) + 1
            for other in self._takers[partition.topic]
            if other in self.assigned
        ):
            for _, _, member in self._ranks:
                if partition.topic in self._wants[member]:
                    self._hand_over(partition, member)
                    return True
        return False

    def _hand_over(self, partition: TopicPartition, to: str) -> None:
        chosen = self._moves.instead_of(partition, self._owner[partition], to)
        owner = self._owner[chosen]
        self._moves.add(chosen, owner, to)
        self._take(owner, chosen)
        self._give(to, chosen)

    def _is_balanced(self) -> bool:
        """Whether no member could get a partition from a member that has at least two more."""
        if self._ranks[0][0] >= self._ranks[-1][0] - 1:
            return True
        for size, _, member in self._ranks:
            if size == self._most_for[member]:
                continue
            for topic in self._wants[member]:
                for index in range(self._topics.count(topic)):
                    owner = self._owner[TopicPartition(topic, index)]
                    if owner != member and size + 1 < len(self.assigned[owner]):
                        return False
        return True


def _unevenness(assigned: Assigned) -> int:
    """The sum of the differences in size between all pairs of members."""
    sizes = sorted(map(len, assigned.values()))
    return sum(size * (2 * place + 1 - len(sizes)) for place, size in enumerate(sizes))


class _Moves:
    """The moves so far: partitions of a topic must not move in both directions between two members."""

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, tuple[str, str]] = {}
        self._by_way: dict[tuple[str, str, str], _PartitionSet] = {}

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move: one that moved in the other direction, if there is one."""
        if partition in self._ways:
            source = self._ways[partition][0]
        back = self._by_way.get((partition.topic, target, source))
        return partition if back is None else back.first()

    def add(self, partition: TopicPartition, source: str, target: str) -> None:
        before = self._ways.pop(partition, None)
        if before is not None:
            source = before[0]
            way = (partition.topic, *before)
            self._by_way[way].remove(partition)
            if not self._by_way[way]:
                del self._by_way[way]
        if source != target:
            self._ways[partition] = (source, target)
            self._by_way.setdefault((partition.topic, source, target), _PartitionSet()).add(partition)


class _PartitionSet:
    """A set of partitions whose first one is that of a Java HashSet with the same history."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}
        self._table = table_size(0)

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        self._partitions[partition] = None
        self._table = table_size(len(self._partitions), self._table)

    def remove(self, partition: TopicPartition) -> None:
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        return in_hash_order(self._partitions, partition_hash, self._table)[0]
