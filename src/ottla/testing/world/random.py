"""Random numbers of the simulated world: reproducible, with a stream per part, so that the draws of one part
do not change those of another."""

from __future__ import annotations

import random


def stream(seed: int, *names: object) -> random.Random:
    """The stream of a part of the world. It is the same in every Python process."""
    return random.Random("/".join(map(str, (seed, *names))))


class SimulatedRandom:
    """Implements `ottla.ports.Random`."""

    __slots__ = ("_source", "below", "bytes", "fraction")

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self.bytes = source.randbytes
        self.below = source.randrange
        self.fraction = source.random
