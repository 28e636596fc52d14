"""Sticky assignment if all members subscribe to the same topics: counts differ by at most one.

First, members keep the partitions that they own, up to their count. Then the remaining partitions are
assigned: if racks matter, first to members in the same rack, then to members with too few.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from ottla.client.core.assignors.interface import Assigned, Topics
from ottla.client.core.assignors.java_order import text_order
from ottla.client.core.assignors.racks import Racks
from ottla.client.values import TopicPartition


class Constrained:
    """One assignment. `moving` contains the partitions that another member must revoke first."""

    def __init__(
        self,
        topics: Topics,
        racks: Racks,
        owned: Mapping[str, list[TopicPartition]],
        doubly_claimed: Collection[TopicPartition],
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._owned = owned
        self._doubly_claimed = doubly_claimed
        self._least, self._more = divmod(topics.partition_count, len(owned))
        self._most = self._least + (self._more > 0)
        self._with_most = 0  # how many members have more than the least already
        self._given_up: dict[TopicPartition, str] = {}
        self._below: list[str] = []  # members with less than the least
        self._at_least: deque[str] = deque()  # members with the least, that may get one more
        self._turn = 0  # whose turn it is of those below, while racks are looked at
        self.assigned: Assigned = {member: [] for member in owned}
        self.moving: dict[TopicPartition, str] = {}

    def build(self) -> Assigned:
        for member, owned in self._owned.items():
            self._keep(member, owned)
        kept = {partition for listed in self.assigned.values() for partition in listed}
        left = [one for one in self._topics.partitions(sorted(self._topics.racks)) if one not in kept]
        self._below.sort(key=text_order)
        self._at_least = deque(sorted(self._at_least, key=text_order))
        left = self._racks.rarest_first(left)
        if self._racks.matter:
            left = [partition for partition in left if not self._give_near(partition)]
        self._go_round(left)
        return self.assigned

    def _keep(self, member: str, owned: list[TopicPartition]) -> None:
        for partition in owned:
            if self._racks.mismatch(member, partition):
                self._given_up[partition] = member
        keepable = sorted(
            (
                one
                for one in owned
                if not self._racks.mismatch(member, one) and one not in self._doubly_claimed
            ),
            key=lambda one: (one.partition, one.topic),
        )
        if len(keepable) < self._least:
            self.assigned[member] += keepable
            self._below.append(member)
            return
        if len(keepable) >= self._most and self._with_most < self._more:
            count = self._most
            self._one_more_has_most()
        else:
            count = self._least
            if self._with_most < self._more:
                self._at_least.append(member)
        self.assigned[member] += keepable[:count]
        for partition in keepable[count:]:
            self._given_up[partition] = member

    def _one_more_has_most(self) -> None:
        self._with_most += 1
        if self._with_most == self._more:
            self._at_least.clear()

    def _give_near(self, partition: TopicPartition) -> bool:
        """Assign a partition to a member in its rack, if one may have it."""
        place = self._racks.next_near(partition, self._below, self._turn)
        if place >= 0:
            member = self._below[place]
            count = len(self.assigned[member]) + 1
            if count >= self._least:
                del self._below[place]
                if count < self._most and self._with_most < self._more:
                    self._at_least.append(member)
            else:
                place += 1
            self._turn = place % len(self._below) if self._below else 0
            self._give(partition, member)
            return True
        place = self._racks.next_near(partition, self._at_least, 0)
        if place < 0:
            return False
        member = self._at_least[place]
        if len(self.assigned[member]) + 1 == self._most:
            del self._at_least[place]
            self._one_more_has_most()
        self._give(partition, member)
        return True

    def _go_round(self, left: list[TopicPartition]) -> None:
        """Fill up members below the minimum, one partition each in turn; then some get one more."""
        place = 0
        for partition in left:
            if self._below:
                place = place % len(self._below)
                member = self._below[place]
                self._give(partition, member)
                if len(self.assigned[member]) == self._least:
                    del self._below[place]
                    self._at_least.append(member)
                else:
                    place += 1
            else:
                self._give(partition, self._at_least.popleft())

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.assigned[member].append(partition)
        if self._given_up.get(partition, member) != member or partition in self._doubly_claimed:
            self.moving[partition] = member
