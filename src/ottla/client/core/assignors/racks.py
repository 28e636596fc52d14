"""Racks of members and partitions, for the sticky assignors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.client.core.assignors.interface import Topics, racks_matter
from ottla.client.core.subscription import MemberSubscription
from ottla.client.values import TopicPartition


class Racks:
    """Which members and partitions share racks. `matter` is false if racks make no difference."""

    def __init__(self, topics: Topics, members: Mapping[str, MemberSubscription]) -> None:
        racks = {name: member.rack for name, member in members.items() if member.rack}
        self._topics = topics
        self._members_in_rack = Counter(racks.values())
        partitions = [one for listed in topics.racks.values() for one in listed]
        everywhere = frozenset[str]().union(*partitions)
        self.matter = racks_matter(racks.values(), partitions, everywhere)
        self._racks: Mapping[str, str] = racks if self.matter else {}

    def of(self, member: str) -> str | None:
        return self._racks.get(member)

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack in which the partition has no replica."""
        rack = self._racks.get(member)
        return rack is not None and rack not in self._topics.racks_of(partition)

    def rarest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Partitions with the fewest members in their racks first."""
        if not self._members_in_rack:
            return partitions
        near = self._members_in_rack
        return sorted(partitions, key=lambda one: sum(near[rack] for rack in self._topics.racks_of(one)))

    def next_near(self, partition: TopicPartition, members: Sequence[str], first: int) -> int:
        """The index of the next member, from `first` on, in a rack of a partition; -1 if none."""
        racks = self._topics.racks_of(partition)
        for step in range(len(members)):
            place = (first + step) % len(members)
            if self._racks.get(members[place]) in racks:
                return place
        return -1
