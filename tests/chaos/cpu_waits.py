"""Measures how long the processes of a run waited for a CPU while they were runnable, from Linux's counters.

A busy machine delays everything: nodes lose sessions and clients finish late without a bug. This lets a
report tell the difference.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

NANOSECONDS = 1e9
STARVED = 0.5
"""A process that waits for more than this share of the time is too slow for its work."""


class CpuWaits:
    """Samples from time to time; keeps the mean and the maximum of all samples, by name."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[float, float]] = {}
        self._seconds: dict[str, float] = defaultdict(float)
        self._waited: dict[str, float] = defaultdict(float)
        self.worst: dict[str, float] = {}

    def sample(self, processes: Mapping[str, int | None]) -> dict[str, float]:
        """For each process, by id: the share of the time since the last sample that it waited for a CPU.

        Processes that are new or have exited are missing. The table groups them by the cut_in_two of the name
        before a /.
        """
        found: dict[str, float] = {}
        now = time.monotonic()
        before, self._last = self._last, {}
        for name, process_id in processes.items():
            waited = None if process_id is None else _waited_s(process_id)
            if process_id is None or waited is None:
                continue
            self._last[process_id] = now, waited
            if process_id in before:
                since, earlier = before[process_id]
                found[name] = self._note(name, now - since, waited - earlier)
        return found

    def _note(self, name: str, seconds: float, waited: float) -> float:
        share = min(max(waited / seconds, 0.0), 1.0) if seconds else 0.0
        kind = name.partition("/")[0]
        self._seconds[kind] += seconds
        self._waited[kind] += share * seconds
        self.worst[kind] = max(self.worst.get(kind, 0.0), share)
        return share

    def rows(self) -> list[tuple[str, str]]:
        return [
            (
                f"{kind} waited for a CPU",
                f"{self._waited[kind] / seconds:.0%} of the time, {self.worst[kind]:.0%} at worst",
            )
            for kind, seconds in self._seconds.items()
            if seconds
        ]


def _waited_s(process_id: int) -> float | None:
    """The wait of the thread that waited most, since the event loop runs in that one."""
    longest = None
    with contextlib.suppress(OSError, ValueError, IndexError):  # it exited, or this is not Linux
        for thread in Path(f"/proc/{process_id}/task").iterdir():
            waited = int((thread / "schedstat").read_text().split()[1]) / NANOSECONDS
            longest = waited if longest is None else max(longest, waited)
    return longest
