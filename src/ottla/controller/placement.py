"""Places the replicas of new partitions: Kafka's striped placement.

Brokers are used in turn, racks are used in turn, and the first replica is always on an unfenced broker.
Starting points are random; with the same random numbers the placement is Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ottla.wire.errors import InvalidReplicationFactor


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker that may get replicas."""

    id: int
    rack: str | None = None
    is_fenced: bool = False


class _Stripe:
    """Brokers of one rack and kind, used in turn; each partition starts one further."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._index = 0
        self._offset = 0
        self._round = 0

    def begin(self, draw: Callable[[int], int]) -> None:
        if self.brokers:
            self.brokers.sort()
            self._offset = draw(len(self.brokers))

    def next(self, round_: int) -> int:
        """The next broker of this round, -1 if all were used."""
        brokers = self.brokers
        if not brokers:
            return -1
        if self._round != round_:
            self._round = round_
            self._index = 0
            self._offset = (self._offset + 1) % len(brokers)
        if self._index >= len(brokers):
            return -1
        broker = brokers[(self._index + self._offset) % len(brokers)]
        self._index += 1
        return broker


class _Rack:
    def __init__(self) -> None:
        self.fenced = _Stripe()
        self.unfenced = _Stripe()

    def next(self, round_: int) -> int:
        broker = self.unfenced.next(round_)
        return broker if broker >= 0 else self.fenced.next(round_)


class Placer:
    """Places the partitions of one request on the brokers that are usable now."""

    def __init__(self, brokers: Iterable[UsableBroker], draw: Callable[[int], int]) -> None:
        self._draw = draw
        self._racks: dict[str | None, _Rack] = {}
        self._total = self._unfenced = 0
        for broker in brokers:
            rack = self._racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.is_fenced else rack.unfenced).brokers.append(broker.id)
            self._total += 1
            self._unfenced += not broker.is_fenced
        for rack in self._racks.values():
            rack.fenced.begin(draw)
            rack.unfenced.begin(draw)
        self._names = sorted(self._racks, key=lambda name: (name is not None, name or ""))
        self._offset = draw(len(self._names)) if self._names else 0
        self._round = 0

    def place(self, partitions: int, replicas: int) -> Iterator[list[int]]:
        """The brokers of each of `partitions` new partitions; InvalidReplicationFactor if too few."""
        if replicas <= 0:
            raise InvalidReplicationFactor(
                f"Invalid replication factor {replicas}: the replication factor must be positive."
            )
        if self._unfenced == 0:
            raise InvalidReplicationFactor(
                "All brokers are currently fenced, or have all their log directories cordoned."
            )
        if replicas > self._total:
            raise InvalidReplicationFactor(
                f"The target replication factor of {replicas} cannot be reached because only {self._total} "
                "broker(s) are registered or some brokers have all their log directories cordoned."
            )
        return (self._place_one(replicas) for _ in range(partitions))

    def _place_one(self, replicas: int) -> list[int]:
        if self._round == self._unfenced and self._unfenced > 1:
            self._shuffle_all()
            self._round = 0
        if self._offset == len(self._names):
            self._offset = 0
        names, racks, round_ = self._names, self._racks, self._round
        first_rack = self._offset
        while (broker := racks[names[first_rack]].unfenced.next(round_)) < 0:
            first_rack = (first_rack + 1) % len(names)
        chosen = [broker]
        rack_index = self._offset
        for _ in range(1, replicas):
            broker = -1
            while broker < 0:
                if rack_index == first_rack:
                    first_rack = -1  # the leader's rack sits out its first turn
                else:
                    broker = racks[names[rack_index]].next(round_)
                rack_index = (rack_index + 1) % len(names)
            chosen.append(broker)
        self._round += 1
        self._offset += 1
        return chosen

    def _shuffle_all(self) -> None:
        _shuffle(self._names, self._draw)
        for rack in self._racks.values():
            _shuffle(rack.fenced.brokers, self._draw)
            _shuffle(rack.unfenced.brokers, self._draw)


def _shuffle(items: list[str | None] | list[int], draw: Callable[[int], int]) -> None:
    """Fisher and Yates, from the end as Java does it."""
    for end in range(len(items) - 1, 0, -1):
        other = draw(end + 1)
        items[end], items[other] = items[other], items[end]  # type: ignore[assignment]
