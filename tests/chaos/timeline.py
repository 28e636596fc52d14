"""The timeline of a run of real processes: one clock and one list of events for all threads.

It has the parts of a simulated world that `tests.sim.workload` needs: the time, and `note`.
"""

from __future__ import annotations

import threading
import time

from ottla.testing.world.timeline_svg import picture
from ottla.testing.world.world import Event


class Timeline:
    """The seconds since its creation, and the events in order. Thread-safe."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.events: list[Event] = []

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def note(self, who: str, what: str) -> None:
        with self._lock:
            self.events.append(Event(self.now, who, what))

    def text(self, lines: int | None = None) -> str:
        with self._lock:
            events = self.events if lines is None else self.events[-lines:]
            return "\n".join(map(str, events))

    def picture(self, title: str) -> str:
        with self._lock:
            return picture(self.events, title=title)
