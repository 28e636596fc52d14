"""Which rare paths a world takes (`ottla.rare_paths`): some points of production code, by the seed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.rare_paths import decided_by
from ottla.testing.world.random import stream

SHARE = 0.4
"""How many of the points a world takes."""

PROBABILITIES = (0.002, 0.01, 0.05)
"""How often one of them says yes."""


class RarePaths:
    """`taken` counts them by point. `is_on` False ends it: after the healing nothing goes wrong any more.

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
            chance = stream(self._seed, "rare", point)
            probability = chance.choice(PROBABILITIES) if chance.random() < SHARE else 0.0
            known = self._points[point] = (chance, probability)
        chance, probability = known
        if not probability or chance.random() >= probability:
            return False
        self.taken[point] += 1
        return True


@contextmanager
def rare_paths(seed: int) -> Iterator[RarePaths]:
    """Until the end of the block, production code takes the rare paths of a seed."""
    paths = RarePaths(seed)
    with decided_by(paths.decide):
        yield paths
