"""Plans where replicas go while copying as little as possible. Pure.

Rule: a replica stays on its broker if it may. A replica that must move is replaced at the same position in
the list, so that brokers keep as many leaderships as before. A broker is chosen first by rack (one without a
replica of the partition), then by the fewest replicas of the topic, then by the fewest replicas in total.
With `spreads`, the replicas of each topic are also balanced until no two brokers differ by more than one, and
with `evens_totals` then those of all topics together, as far as that keeps each topic balanced: without it
many topics of one partition would all stay where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    evens_totals: bool = False
    """The rows are all partitions of the cluster; applies with `spreads`."""
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
    if wish.spreads and wish.evens_totals:
        _Totals(current, planned, wish).even_out()
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


class _Totals:
    """The replicas and the leaders of all topics, after each topic was balanced."""

    def __init__(
        self,
        current: Mapping[TopicPartition, Sequence[int]],
        rows: Rows,
        wish: Wish,
    ) -> None:
        self._current = current
        self._rows = rows
        self._wish = wish

    def even_out(self) -> None:
        """Move replicas, then reorder them, which copies nothing."""
        self._even_out(lambda row: row, self._may_move, _replace)
        self._even_out(lambda row: row[:1], lambda row, _, low: low in row, _lead)

    def _even_out(
        self,
        counted: Callable[[list[int]], list[int]],
        may_change: Callable[[list[int], int, int], bool],
        change: Callable[[list[int], int, int], None],
    ) -> None:
        """Change one partition after the other, for the brokers that differ most, while that gains something.
        `counted` says which brokers of a row count."""
        held: dict[int, list[TopicPartition]] = {broker: [] for broker in self._wish.racks}
        counts: dict[str, Counter[int]] = {}
        places: dict[str, list[TopicPartition]] = {}
        for place in sorted(self._rows, key=self._cost):
            row = counted(self._rows[place])
            places.setdefault(place.topic, []).append(place)
            counts.setdefault(place.topic, Counter()).update(row)
            for broker in row:
                held[broker].append(place)

        def fits(place: TopicPartition, high: int, low: int) -> bool:
            of_topic, row = counts[place.topic], self._rows[place]
            return of_topic[high] > of_topic[low] and high in counted(row) and may_change(row, high, low)

        stuck: set[tuple[int, int]] = set()
        while (found := _widest(held, stuck, fits)) is not None:
            place, high, low = found
            change(self._rows[place], high, low)
            held[high].remove(place)
            held[low].append(place)
            counts[place.topic][high] -= 1
            counts[place.topic][low] += 1
            for one in held:  # only this topic's partitions may now change where they could not before
                for pair in ((low, one), (one, high)):
                    if pair in stuck and any(fits(other, *pair) for other in places[place.topic]):
                        stuck.remove(pair)

    def _may_move(self, row: list[int], high: int, low: int) -> bool:
        """Whether the other broker has no replica yet, and the replicas stay in as many racks."""
        racks = self._wish.racks
        others = {racks[one] for one in row if one != high}
        return low not in row and (racks[low] not in others or racks[high] in others)

    def _cost(self, place: TopicPartition) -> tuple[bool, int, TopicPartition]:
        """Partitions that are copied anyway come first, then small ones."""
        stays = set(self._rows[place]) == set(self._current[place])
        return stays, self._wish.sizes.get(place, 0), place


def _widest(
    held: Mapping[int, list[TopicPartition]],
    stuck: set[tuple[int, int]],
    fits: Callable[[TopicPartition, int, int], bool],
) -> tuple[TopicPartition, int, int] | None:
    """The first partition that may change from a broker with many to one with few. Adds to `stuck` the pairs
    of brokers that have none."""
    order = sorted(held, key=lambda one: (len(held[one]), one))
    for high in reversed(order):
        for low in order:
            if len(held[high]) - len(held[low]) <= 1:
                break
            if (high, low) in stuck:
                continue
            place = next((one for one in held[high] if fits(one, high, low)), None)
            if place is not None:
                return place, high, low
            stuck.add((high, low))
    return None


def _replace(row: list[int], high: int, low: int) -> None:
    row[row.index(high)] = low


def _lead(row: list[int], _: int, low: int) -> None:
    row.remove(low)
    row.insert(0, low)
