"""Decides, by the seed, which rare paths of production code (`ottla.rare_paths`) a world takes."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.rare_paths import decided_by
from ottla.testing.world.random import stream

SHARE = 0.4
"""The share of the points that a world uses."""

PROBABILITIES = (0.002, 0.01, 0.05)
"""The probabilities with which a point is taken."""


class RarePaths:
    """`taken` counts the paths by point. Setting `is_on` to False stops them, after the faults are repaired.

    A real broker in another thread of the process takes none, and draws nothing from this world's seed.
    """

    def __init__(self, seed: int) -> None:
        self.taken: Counter[str] = Counter()
        self.is_on = True
        self._seed = seed
        self._thread = threading.get_ident()
        self._points: dict[str, tuple[random.Random, float]] = {}

    def decide(self, point: str) -> bool:
        if not self.is_on or threading.get_ident() != self._thread:
            return False
        known = self._points.get(point)
        if known is None:
            rng = stream(self._seed, "rare", point)
            probability = rng.choice(PROBABILITIES) if rng.random() < SHARE else 0.0
            known = self._points[point] = (rng, probability)
        rng, probability = known
        if not probability or rng.random() >= probability:
            return False
        self.taken[point] += 1
        return True


@contextmanager
def rare_paths(seed: int) -> Iterator[RarePaths]:
    """Let production code take rare paths, as the seed says, until the end of the block."""
    paths = RarePaths(seed)
    with decided_by(paths.decide):
        yield paths
