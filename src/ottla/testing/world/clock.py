"""Clocks of the simulated world: each process has its own, which may be wrong, jump and drift."""

from __future__ import annotations

from ottla.testing.world.process import Process

EPOCH_MS = 1_767_225_600_000  # 2026-01-01: the start of every world


class SimulatedClock:
    """Implements `ottla.ports.Clock`. `offset_ms` shifts only the time of day; a drift (`Process.set_rate`)
    affects durations, too, and so every timer of the process."""

    __slots__ = ("_process", "_start", "offset_ms")

    def __init__(self, process: Process, *, start: float, offset_ms: int = 0) -> None:
        self._process = process
        self._start = start
        self.offset_ms = offset_ms

    def now_ns(self) -> int:
        return (EPOCH_MS + self.offset_ms) * 1_000_000 + int((self.monotonic() - self._start) * 1e9)

    def now_ms(self) -> int:
        return self.now_ns() // 1_000_000

    def monotonic(self) -> float:
        process = self._process
        return process.local_time(process.loop.now) if process.drifts else process.loop.now
