"""The assignors `range` and `roundrobin`.

Range assigns each member consecutive partitions of every topic, so that equal partition numbers of several
topics go together. If racks matter, it first assigns partitions with a replica in the member's rack, as far
as the counts stay as balanced as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

from ottla.client.core.assignors.interface import Assigned, Topics, in_order, racks_matter
from ottla.client.core.assignors.java_order import text_order
from ottla.client.core.metadata import ClusterView
from ottla.client.core.subscription import MemberSubscription
from ottla.client.values import TopicPartition


class _Plain:
    """The base of assignors without state."""

    protocol: Literal["eager", "cooperative"] = "eager"

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return None

    def on_assignment(
        self, partitions: Iterable[TopicPartition], user_data: bytes | None, generation: int
    ) -> None:
        """Keeps no state."""


def _turns(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Members in order: static ones first, by instance id, then the others."""

    def key(member: str) -> tuple[bool, bytes]:
        instance = members[member].instance_id
        return instance is None, text_order(member if instance is None else instance)

    return sorted(members, key=key)


class RoundRobin(_Plain):
    """One partition for each member in turn, over all topics."""

    name = "roundrobin"

    def assign(self, view: ClusterView, members: Mapping[str, MemberSubscription]) -> Assigned:
        topics = Topics.of(view, members)
        turns = _turns(in_order(members))
        wants = {member: frozenset(members[member].topics) for member in turns}
        assigned: Assigned = {member: [] for member in turns}
        turn = 0
        for partition in topics.partitions(sorted(topics.racks)):
            while partition.topic not in wants[turns[turn]]:
                turn = (turn + 1) % len(turns)
            assigned[turns[turn]].append(partition)
            turn = (turn + 1) % len(turns)
        return assigned


class Range(_Plain):
    """Consecutive partitions of each topic for each member."""

    name = "range"

    def assign(self, view: ClusterView, members: Mapping[str, MemberSubscription]) -> Assigned:
        ordered = in_order(members)
        topics = Topics.of(view, members)
        turns = _turns(ordered)
        subscribed = {member: frozenset(ordered[member].topics) for member in turns}
        racks = {member: ordered[member].rack or None for member in turns}
        shares = []
        for topic, partitions in topics.racks.items():
            takers = {member: racks[member] for member in turns if topic in subscribed[member]}
            shares.append(_TopicShares(topic, partitions, takers))
        assigned: Assigned = {member: [] for member in ordered}
        by_racks = any(share.racks_matter for share in shares)
        if by_racks:
            _by_racks(shares, assigned)
        for share in shares:
            share.hand_out(assigned, lambda member, index: True)
        if by_racks:
            for partitions_of_member in assigned.values():
                partitions_of_member.sort()
        return assigned


def _by_racks(shares: list[_TopicShares], assigned: Assigned) -> None:
    """Assign partitions in members' racks; topics with equal subscribers and size together."""
    alike: dict[tuple[tuple[str, ...], int], list[_TopicShares]] = {}
    for share in shares:
        alike.setdefault((tuple(share.takers), share.rack_count), []).append(share)
    for (takers, count), together in alike.items():
        if len(together) > 1:
            _together(list(takers), count, together, assigned)
        elif together[0].racks_matter:
            together[0].hand_out(assigned, together[0].in_rack)


def _together(takers: list[str], count: int, shares: list[_TopicShares], assigned: Assigned) -> None:
    """Assign the same partition of these topics to one member, if its rack has a replica of each."""
    open_takers = list(takers)
    for index in range(count):
        for member in open_takers:
            if all(share.in_rack(member, index) and share.room(member) > 0 for share in shares):
                for share in shares:
                    share.give(assigned, member, [index])
                if not any(share.room(member) > 0 for share in shares):
                    open_takers.remove(member)
                break
        if not open_takers:
            return


class _TopicShares:
    """The unassigned partitions of one topic, and how many each subscriber may still get."""

    def __init__(
        self, topic: str, partitions: Collection[frozenset[str]], takers: Mapping[str, str | None]
    ) -> None:
        self.topic = topic
        self.takers = takers
        self._left = dict.fromkeys(range(len(partitions)))
        self._given = dict.fromkeys(takers, 0)
        self._each, self._extra = divmod(len(partitions), len(takers)) if takers else (0, 0)
        racks = {rack for rack in takers.values() if rack is not None}
        everywhere = frozenset[str]().union(*partitions)
        self._racks = list(partitions) if racks else []
        self.racks_matter = racks_matter(racks, partitions, everywhere)

    @property
    def rack_count(self) -> int:
        """The number of partitions to match by rack: 0 if no subscriber has a rack."""
        return len(self._racks)

    def in_rack(self, member: str, index: int) -> bool:
        rack = self.takers[member]
        return rack is None or (bool(self._racks) and rack in self._racks[index])

    def room(self, member: str) -> int:
        return max(0, self._each + (self._extra > 0) - self._given[member])

    def hand_out(self, assigned: Assigned, may_have: Callable[[str, int], bool]) -> None:
        for member in self.takers:
            if not self._left:
                return
            room = self.room(member)
            indexes: list[int] = []
            for index in self._left:
                if len(indexes) == room:
                    break
                if may_have(member, index):
                    indexes.append(index)
            if indexes:
                self.give(assigned, member, indexes)

    def give(self, assigned: Assigned, member: str, indexes: list[int]) -> None:
        assigned[member].extend(TopicPartition(self.topic, index) for index in indexes)
        self._given[member] += len(indexes)
        if self._given[member] > self._each:
            self._extra -= 1
        for index in indexes:
            del self._left[index]
