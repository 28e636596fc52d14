"""When the clients of a story are busy: in bursts, with quiet between them.

Faults come at any time, so they meet clusters at work and idle ones, and a long story costs what its bursts
cost. It begins with a burst, and after the faults are over there is one more. A short story has no quiet.
"""

from __future__ import annotations

import random
from bisect import bisect_right

ALWAYS_BUSY_S = 60.0
"""A story up to so long is busy all the time."""

_BURST_S = (1.0, 6.0)
_QUIET_S = (8.0, 40.0)
_LAST_BURST_S = 5.0


class Tempo:
    """`seconds` is the time of faults; `calm_s` is how long clients go on after it, at least."""

    def __init__(self, chance: random.Random, seconds: float, calm_s: float) -> None:
        self.ends: list[float] = []
        self.starts: list[float] = []
        if seconds <= ALWAYS_BUSY_S:
            return
        at = chance.uniform(*_BURST_S)
        while (again := at + chance.uniform(*_QUIET_S)) < seconds:
            self.ends.append(at)
            self.starts.append(again)
            at = again + chance.uniform(*_BURST_S)
        self.ends += [at, seconds + _LAST_BURST_S]
        self.starts += [max(at, seconds), max(seconds + calm_s, seconds + _LAST_BURST_S)]

    def quiet_s(self, at: float) -> float:
        """How much longer it is quiet, `at` seconds after the beginning; 0 in a burst."""
        number = bisect_right(self.ends, at) - 1
        return max(self.starts[number] - at, 0.0) if number >= 0 else 0.0
