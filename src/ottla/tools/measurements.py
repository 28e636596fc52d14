"""The code that the measuring tools share: a rate limiter, and the table of a client's metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping

_SLEEP_SECONDS_MIN = 0.002


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Pace:
    """Limits the rate of sends; a negative rate means no limit."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._start = time.monotonic()

    def keep(self, done: int) -> None:
        """Wait if `done` is ahead of the rate."""
        if self._per_second < 0:
            return
        while self._per_second == 0:
            time.sleep(3600)
        ahead = done / self._per_second - (time.monotonic() - self._start)
        if ahead >= _SLEEP_SECONDS_MIN:
            time.sleep(ahead)


def print_metrics(group: str, client_id: str, metrics: Mapping[str, int]) -> None:
    """Format a client's metrics like Kafka's tools, under our own names."""
    names = {
        f"{group}:{name.replace('_', '-')}:{{client-id={client_id}}}": value
        for name, value in metrics.items()
    }
    width = max(map(len, names))
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, value in sorted(names.items()):
        print(f"{name:<{width}} : {float(value):.3f}")


def rate(amount: float, seconds: float, digits: int) -> str:
    """Units per second, formatted as in Java, including a division by zero."""
    if seconds:
        return f"{amount / seconds:.{digits}f}"
    return "Infinity" if amount else "NaN"
