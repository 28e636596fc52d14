"""How late the event loop runs: a counter for metrics, and a warning that names the request to look at.

A timer measures how late the loop calls it, and connections report how long each read of requests took. The
rule: both measure the same delay, so they count once. A delay starts at `LATE_MS`, the longest that one
request may hold the loop.
"""

from __future__ import annotations

import asyncio
import logging

from ottla.ports import Clock
from ottla.wire import apis

LATE_MS = 50
INTERVAL_MS = 100
WARNING_INTERVAL_S = 10.0

logger = logging.getLogger("ottla.server.net.loop_lag")


class LoopLateness:
    """Delays of one node's event loop. Durations are in seconds.

    `count`, `worst_s` and `last_s` describe every delay since the node started or since `reset`. `latest_api`
    is api key << 16 | version of the latest request that a dispatcher took.
    """

    __slots__ = (
        "_clock",
        "_due",
        "_held_by",
        "_held_s",
        "_next_warning",
        "_timer",
        "count",
        "last_s",
        "latest_api",
        "worst_s",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._held_s = 0.0  # the longest hold since the last tick
        self._held_by = -1
        self._next_warning = float("-inf")
        self.count = 0
        self.last_s = 0.0
        self.worst_s = 0.0
        self.latest_api = -1

    def start(self) -> None:
        """Measure from now on, on the running loop."""
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reset(self) -> None:
        """Forget every delay so far, for a measurement that starts now."""
        self.count = 0
        self.last_s = self.worst_s = self._held_s = 0.0
        self._due = self._clock.monotonic() + INTERVAL_MS / 1000

    def held(self, seconds: float) -> None:
        """A connection held the loop for this long, in one turn, up to the latest request."""
        if seconds > self._held_s:
            self._held_s = seconds
            self._held_by = self.latest_api

    def _arm(self) -> None:
        self._due = self._clock.monotonic() + INTERVAL_MS / 1000
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_MS / 1000, self._tick)

    def _tick(self) -> None:
        late_s = self._clock.monotonic() - self._due
        held_s, self._held_s = self._held_s, 0.0
        if max(late_s, held_s) * 1000 >= LATE_MS:
            self._note(late_s, held_s)
        self._arm()

    def _note(self, late_s: float, held_s: float) -> None:
        delay_s = max(late_s, held_s)
        self.count += 1
        self.last_s = delay_s
        self.worst_s = max(self.worst_s, delay_s)
        now = self._clock.monotonic()
        if now < self._next_warning:
            return
        self._next_warning = now + WARNING_INTERVAL_S
        if held_s * 1000 >= LATE_MS:
            cause = (
                f"a batch of requests ending with {_name(self._held_by)} held it for {held_s * 1000:.0f} ms"
            )
        else:
            cause = f"the latest request was {_name(self.latest_api)}"
        logger.warning(
            "The event loop was %.0f ms late (%d delays of %d ms or more, the worst %.0f ms): %s",
            delay_s * 1000,
            self.count,
            LATE_MS,
            self.worst_s * 1000,
            cause,
        )


def _name(api: int) -> str:
    if api < 0:
        return "none"
    known = apis.API_BY_KEY.get(api >> 16)
    return f"{known.name if known is not None else api >> 16} v{api & 0xFFFF}"
