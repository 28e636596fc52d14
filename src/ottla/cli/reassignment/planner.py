"""Plans where replicas go while copying as little as possible. Pure.

Rule: a replica stays on its broker if it may. A replica that must move is replaced at the same position in
the list, so that brokers keep as many leaderships as before. A broker is chosen first by rack (one without a
replica of the partition), then by the fewest replicas of the topic, then by the fewest replicas in total.
With `spreads`, the replicas of each topic are also balanced until no two brokers differ by more than one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.values import TopicPartition

Rows = dict[TopicPartition, list[int]]


class CannotPlan(ValueError):
    """The request cannot be planned; the message says why."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The requested placement."""

    racks: Mapping[int, str | None]
    """The brokers that may hold replicas, with their racks."""
    replication_factor: int | None = None
    """The number of replicas per partition; None keeps the current number."""
    spreads: bool = False
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The size of each partition; among movable partitions, the smallest moves."""
    loads: Mapping[int, int] = field(default_factory=dict)
    """Replicas of other partitions on each broker."""
    in_sync: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)


def plan_moves(current: Mapping[TopicPartition, Sequence[int]], wish: Wish) -> Rows:
    """The replicas of every partition, including unchanged ones."""
    planned: Rows = {}
    totals = Counter({broker: wish.loads.get(broker, 0) for broker in wish.racks})
    totals.update(broker for row in current.values() for broker in row if broker in wish.racks)
    for topic in sorted({place.topic for place in current}):
        rows = {place: list(current[place]) for place in sorted(current) if place.topic == topic}
        planned |= _Topic(rows, wish, totals).planned()
    return planned


class _Topic:
    """The partitions of one topic during planning."""

    def __init__(self, rows: Rows, wish: Wish, totals: Counter[int]) -> None:
        self._current = rows
        self._wish = wish
        self._racks = wish.racks
        self._totals = totals
        """Replicas per broker over all topics, updated during planning."""
        self._counts = Counter(dict.fromkeys(wish.racks, 0))
        self._counts.update(broker for row in rows.values() for broker in row if broker in wish.racks)
        self._rows: Rows = {}

    def planned(self) -> Rows:
        for place, row in self._current.items():
            self._rows[place] = self._repaired(place, row)
        if self._wish.spreads:
            while self._even_out():
                continue
            while self._even_out_leaders():
                continue
        return self._rows

    def _repaired(self, place: TopicPartition, current: Sequence[int]) -> list[int]:
        """The replicas that may stay, with replacements for the others."""
        wanted = self._wish.replication_factor or len(current)
        if wanted > len(self._racks):
            brokers = ", ".join(map(str, sorted(self._racks))) or "none"
            raise CannotPlan(
                f"{place.topic}-{place.partition} needs {wanted} replicas, but the available brokers are "
                f"{brokers}."
            )
        row: list[int | None] = [broker if broker in self._racks else None for broker in current]
        while len(row) > wanted:
            at = self._least_needed(place, row)
            broker = row.pop(at)
            if broker is not None:
                self._count(broker, -1)
        row += [None] * (wanted - len(row))
        for at, broker in enumerate(row):
            if broker is None:
                row[at] = self._chosen(row)
        return [broker for broker in row if broker is not None]

    def _least_needed(self, place: TopicPartition, row: Sequence[int | None]) -> int:
        """The replica to drop if there are too many: one that must move anyway, never a first one that may
        stay."""
        gone = [at for at, broker in enumerate(row) if broker is None]
        if gone:
            return gone[-1]
        racks = Counter(self._racks[broker] for broker in row if broker is not None)
        in_sync = self._wish.in_sync.get(place)

        def need(at: int) -> tuple[bool, bool, int, int]:
            broker = row[at]
            assert broker is not None
            is_behind = in_sync is not None and broker not in in_sync
            return is_behind, racks[self._racks[broker]] > 1, self._counts[broker], at

        return max(range(1, len(row)), key=need)

    def _chosen(self, row: Sequence[int | None]) -> int:
        """The best broker for an additional replica."""
        used = {self._racks[broker] for broker in row if broker is not None}
        broker = min(
            (one for one in self._racks if one not in row),
            key=lambda one: (self._racks[one] in used, self._counts[one], self._totals[one], one),
        )
        self._count(broker, +1)
        return broker

    def _count(self, broker: int, change: int) -> None:
        self._counts[broker] += change
        self._totals[broker] += change

    def _even_out(self) -> bool:
        """Move one replica from a broker with many to one with few; False if that gains nothing."""
        order = sorted(self._counts, key=lambda one: (self._counts[one], self._totals[one], one))
        for high in reversed(order):
            for low in order:
                if self._counts[high] - self._counts[low] <= 1:
                    break
                place = self._movable(high, low)
                if place is not None:
                    row = self._rows[place]
                    row[row.index(high)] = low
                    self._count(high, -1)
                    self._count(low, +1)
                    return True
        return False

    def _movable(self, high: int, low: int) -> TopicPartition | None:
        """The best partition to move from one broker to the other without losing rack diversity."""
        candidates = [
            place
            for place, row in self._rows.items()
            if high in row and low not in row and self._spread(row, high, low) >= self._spread(row)
        ]
        sizes = self._wish.sizes

        def cost(place: TopicPartition) -> tuple[bool, bool, int, TopicPartition]:
            """A replica that is new on either broker is copied anyway."""
            was = self._current[place]
            return low not in was, high in was, sizes.get(place, 0), place

        return min(candidates, key=cost, default=None)

    def _spread(self, row: Sequence[int], high: int | None = None, low: int | None = None) -> int:
        return len({self._racks[low if broker == high and low is not None else broker] for broker in row})

    def _even_out_leaders(self) -> bool:
        """Reorder the replicas of one partition, if that balances leadership."""
        firsts = Counter(dict.fromkeys(self._racks, 0))
        firsts.update(row[0] for row in self._rows.values() if row)
        order = sorted(firsts, key=lambda one: (firsts[one], one))
        for high in reversed(order):
            for low in order:
                if firsts[high] - firsts[low] <= 1:
                    break
                for row in self._rows.values():
                    if row and row[0] == high and low in row:
                        row.remove(low)
                        row.insert(0, low)
                        return True
        return False
