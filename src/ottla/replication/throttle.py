"""Limits the traffic between replicas, so that a reassignment does not starve other traffic.

A limit counts the bytes of the replicas that are listed as throttled, and delays those of them that are out
of sync. Rule: an in-sync replica is never delayed, although its bytes count; otherwise it would drop out of
the ISR. A batch that exceeds the limit of the whole window delays the next one for as long as it takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

UNLIMITED = float("inf")
_LONG_MAX = (1 << 63) - 1


class Rate:
    """Bytes per second over the last samples, which have equal width."""

    __slots__ = ("_count", "_samples", "_width_ms")

    def __init__(self, *, samples: int = 11, width_ms: int = 1000) -> None:
        self._count = samples
        self._width_ms = width_ms
        self._samples: deque[list[int]] = deque()  # [start, bytes]

    def record(self, size: int, now_ms: int) -> None:
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._width_ms:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size

    def per_second(self, now_ms: int) -> float:
        self._forget(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0][0], self._width_ms)
        return sum(size for _, size in self._samples) * 1000 / elapsed_ms

    def _forget(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._count * self._width_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            self._samples.popleft()


class Throttle:
    """One direction of a node: the bytes it sends as a leader, or fetches as a follower."""

    __slots__ = ("_free_at_ms", "_limit", "_partitions", "_rate", "_window_ms")

    def __init__(self, *, samples: int = 11, width_ms: int = 1000) -> None:
        self._rate = Rate(samples=samples, width_ms=width_ms)
        self._window_ms = samples * width_ms
        self._free_at_ms = 0.0  # end of the delay for bytes that the window drops too early
        self._limit = UNLIMITED
        self._partitions: dict[str, frozenset[int] | None] = {}  # None: all partitions

    def set_limit(self, bytes_per_second: float) -> None:
        limit = UNLIMITED if bytes_per_second >= _LONG_MAX else bytes_per_second
        if limit != self._limit:
            self._limit = limit
            self._free_at_ms = 0.0

    def set_topic(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Throttle these partitions of a topic: None for all, an empty set for none."""
        if partitions is None or partitions:
            self._partitions[topic] = partitions
        else:
            self._partitions.pop(topic, None)

    @property
    def has_topics(self) -> bool:
        return bool(self._partitions)

    def is_throttled(self, topic: str, partition: int) -> bool:
        """Whether a replica is listed, whatever the rate."""
        if topic not in self._partitions:
            return False
        chosen = self._partitions[topic]
        return chosen is None or partition in chosen

    def record(self, size: int, now_ms: int) -> None:
        self._rate.record(size, now_ms)
        if size * 1000 > self._limit * self._window_ms and self._limit > 0:
            self._free_at_ms = now_ms + size * 1000 / self._limit

    def is_exceeded(self, now_ms: int) -> bool:
        if self._limit == UNLIMITED:
            return False
        return now_ms < self._free_at_ms or self._rate.per_second(now_ms) > self._limit

    def holds_back(self, topic: str, partition: int, *, in_sync: bool, now_ms: int) -> bool:
        return not in_sync and self.is_throttled(topic, partition) and self.is_exceeded(now_ms)


def throttled_partitions(listed: Iterable[str], node_id: int) -> frozenset[int] | None:
    """The partitions in `partition:broker` pairs with this node; None for `*`, all partitions."""
    chosen = set()
    for item in listed:
        text = item.strip()
        if text == "*":
            return None
        partition, separator, broker = text.partition(":")
        if separator and partition.isdecimal() and broker == str(node_id):
            chosen.add(int(partition))
    return frozenset(chosen)
