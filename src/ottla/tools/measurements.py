"""What the tools that measure have in common: a pace to keep, and the table of a client's metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping

_SLEEP_SECONDS_MIN = 0.002


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Pace:
    """Keeps what is sent at a number a second; negative is as fast as can be."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._start = time.monotonic()

    def keep(self, done: int) -> None:
        """Wait if `done` is ahead of the pace."""
        if self._per_second < 0:
            return
        while self._per_second == 0:
            time.sleep(3600)
        ahead = done / self._per_second - (time.monotonic() - self._start)
        if ahead >= _SLEEP_SECONDS_MIN:
            time.sleep(ahead)


def print_metrics(group: str, client_id: str, metrics: Mapping[str, int]) -> None:
    """As Kafka's tools print the metrics of a client; the names are those that ours has."""
    names = {
        f"{group}:{name.replace('_', '-')}:{{client-id={client_id}}}": value
        for name, value in metrics.items()
    }
    width = max(map(len, names))
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, value in sorted(names.items()):
        print(f"{name:<{width}} : {float(value):.3f}")


def rate(amount: float, seconds: float, digits: int) -> str:
    """So much a second, as Java writes it, which divides by zero as well."""
    if seconds:
        return f"{amount / seconds:.{digits}f}"
    return "Infinity" if amount else "NaN"
