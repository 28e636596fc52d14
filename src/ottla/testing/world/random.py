"""Randomness of the simulated world: reproducible, and each part has a stream of its own, so that what one
part draws does not change what others get."""

from __future__ import annotations

import random


def stream(seed: int, *names: object) -> random.Random:
    """The stream of a part of the world. It is the same in every process of Python."""
    return random.Random("/".join(map(str, (seed, *names))))


class SimulatedRandom:
    """Fills `ottla.ports.Random`."""

    __slots__ = ("_source", "below", "bytes", "fraction")

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self.bytes = source.randbytes
        self.below = source.randrange
        self.fraction = source.random
