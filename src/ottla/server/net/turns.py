"""Turns of the event loop for connections that have sent many requests at once.

Rule: however many connections have requests left, they share one slice of `TURN_MS` per turn of the loop.
While there are any (`is_due`), a connection that is read serves one request, and the others in such a slice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from ottla.ports import Clock

TURN_MS = 4


class Leftover(Protocol):
    def go_on(self, end: float) -> None:
        """Serve requests until the clock shows `end`; ask for another turn if some are left."""


class Turns:
    """The connections that wait for their next turn."""

    __slots__ = ("_clock", "_waiting", "is_due")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[Leftover] = deque()
        self.is_due = False

    def ask(self, one: Leftover) -> None:
        """Call `go_on` in the next turn of the loop, or a later one. Ask once at a time."""
        self._waiting.append(one)
        self._arm()

    def _arm(self) -> None:
        if not self.is_due:
            self.is_due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        monotonic = self._clock.monotonic
        end = monotonic() + TURN_MS / 1000
        try:
            for _ in range(len(self._waiting)):  # one that asks again waits for the next turn
                self._waiting.popleft().go_on(end)
                if monotonic() >= end:
                    break
        finally:  # whatever happens to one of them, the others have their turns
            self.is_due = False
            if self._waiting:
                self._arm()
