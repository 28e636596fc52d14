"""The tempo of a story's clients: bursts of work, with quiet periods between them.

Faults come at any time, so they hit busy and idle clusters, and a long story costs only its bursts. It begins
with a burst, and another one follows the faults. A short story has no quiet periods.
"""

from __future__ import annotations

import random
from bisect import bisect_right

ALWAYS_BUSY_S = 60.0
"""A story up to this length is busy all the time."""

_BURST_S = (1.0, 6.0)
_QUIET_S = (8.0, 40.0)
_LAST_BURST_S = 5.0


class Tempo:
    """`seconds` is the duration of the faults; clients continue for at least `calm_s` after them."""

    def __init__(self, rng: random.Random, seconds: float, calm_s: float) -> None:
        self.ends: list[float] = []
        self.starts: list[float] = []
        if seconds <= ALWAYS_BUSY_S:
            return
        at = rng.uniform(*_BURST_S)
        while (again := at + rng.uniform(*_QUIET_S)) < seconds:
            self.ends.append(at)
            self.starts.append(again)
            at = again + rng.uniform(*_BURST_S)
        self.ends += [at, seconds + _LAST_BURST_S]
        self.starts += [max(at, seconds), max(seconds + calm_s, seconds + _LAST_BURST_S)]

    def quiet_s(self, at: float) -> float:
        """The rest of the quiet period, `at` seconds after the start; 0 in a burst."""
        number = bisect_right(self.ends, at) - 1
        return max(self.starts[number] - at, 0.0) if number >= 0 else 0.0
