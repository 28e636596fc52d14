"""A shard's timers. To extend a running one, as each heartbeat does, costs no call to the event loop.

A timer that fires late, after a stall of the loop, is extended once by the lateness: the heartbeat or the
join that it waits for may be unread in a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from ottla.coordinator.result import Result

LATE_S = 0.05
EXTENSION_S_MAX = 5.0

Decision = Callable[[], Result[object]]


class _Timer:
    __slots__ = ("deadline", "decision", "extended_to", "handle")

    def __init__(self, deadline: float, decision: Decision, handle: asyncio.TimerHandle) -> None:
        self.deadline = deadline
        self.extended_to = -1.0
        self.decision = decision
        self.handle = handle


class Timers:
    """Decisions to be made later, by key."""

    __slots__ = ("_decide", "_loop", "_timers")

    def __init__(self, loop: asyncio.AbstractEventLoop, decide: Callable[[Decision], None]) -> None:
        self._loop = loop
        self._decide = decide
        self._timers: dict[Hashable, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def start(self, key: Hashable, delay_ms: int, decision: Decision) -> None:
        deadline = self._loop.time() + delay_ms / 1000
        timer = self._timers.get(key)
        if timer is not None:
            if deadline >= timer.deadline:
                timer.deadline = deadline  # it fires at its old time, and continues to wait
                timer.decision = decision
                return
            timer.handle.cancel()
        self._timers[key] = _Timer(deadline, decision, self._loop.call_at(deadline, self._fire, key))

    def stop(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.handle.cancel()

    def stop_all(self) -> None:
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()

    def _fire(self, key: Hashable) -> None:
        timer = self._timers[key]
        late_s = self._loop.time() - timer.deadline
        if late_s >= LATE_S and timer.deadline != timer.extended_to:
            timer.deadline = timer.extended_to = self._loop.time() + min(late_s, EXTENSION_S_MAX)
            timer.handle = self._loop.call_at(timer.deadline, self._fire, key)
            return
        # The loop's own clock may be a little behind its timers: half a millisecond is on time.
        if late_s < -0.0005:
            timer.handle = self._loop.call_at(timer.deadline, self._fire, key)
            return
        del self._timers[key]
        self._decide(timer.decision)
