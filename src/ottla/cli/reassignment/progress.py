"""Progress of reassignments, by bytes copied. Pure.

The progress of an added replica is its log size relative to the leader's. A reassignment that was seen in
progress and has disappeared is complete, so its bytes count as copied. The rate covers the last samples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.values import TopicPartition

_SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Moving:
    """A partition that is being reassigned."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied_bytes: int
    total_bytes: int
    """The bytes of its new replicas: current and final."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The total over all reassignments, in progress or complete."""

    partitions: int
    partitions_done: int
    copied_bytes: int
    total_bytes: int
    bytes_per_second: float | None
    seconds_left: float | None


class Tracker:
    """Computes progress from a series of samples."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, Moving] = {}
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)

    def take(self, moving: Mapping[TopicPartition, Moving], seconds: float) -> Standing:
        """Add a sample: the reassignments in progress at a monotonic time in seconds."""
        self._known.update(moving)
        copied = total = 0
        for place, one in self._known.items():
            total += one.total_bytes
            copied += min(one.copied_bytes, one.total_bytes) if place in moving else one.total_bytes
        self._samples.append((seconds, copied))
        rate = self._rate()
        left = (total - copied) / rate if rate else None
        return Standing(
            len(self._known), len(self._known) - len(moving), copied, total, rate, 0.0 if not moving else left
        )

    def _rate(self) -> float | None:
        (first, before), (last, now) = self._samples[0], self._samples[-1]
        return None if last <= first else max(now - before, 0) / (last - first)


def moving_of(
    reassignments: Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]],
    sizes: Mapping[tuple[int, TopicPartition], int],
) -> dict[TopicPartition, Moving]:
    """Reassignments (replicas, adding, removing) with the log size of each replica."""
    found = {}
    for place, (replicas, adding, removing) in reassignments.items():
        whole = max((sizes.get((broker, place), 0) for broker in replicas if broker not in adding), default=0)
        copied = sum(min(sizes.get((broker, place), 0), whole) for broker in adding)
        found[place] = Moving(replicas, adding, removing, copied, whole * len(adding))
    return found
