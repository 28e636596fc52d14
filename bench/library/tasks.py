"""The task of a client in a row, in a separate process that prints its measurements as JSON.

`python -m bench.library.tasks CLIENT TASK JSON`. All clients get the same settings: acks=1, no idempotence, 5
ms of linger, batches of 128 KiB (or each client's own linger and batches, `has_default_batches`), no
compression, one partition. Sending ends when everything is acknowledged.
The first record is sent or read before the clock starts, so that connecting is not measured.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bench.library.rows import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, OTTLA, PLAIN

LINGER_MS = 5
BATCH_BYTES = 128 << 10
HOMES = {
    OTTLA: "bench.library.with_ottla",
    PLAIN: "bench.library.with_ottla",
    CONFLUENT: "bench.library.with_confluent",
    AIOKAFKA: "bench.library.with_aiokafka",
    KAFKA_PYTHON: "bench.library.with_kafka_python",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The target and the amount."""

    bootstrap: str
    topic: str
    records: int
    size: int
    callbacks: bool = False
    has_default_batches: bool = False
    """Whether the producer has the size and linger of batches that its library chooses."""
    rate: int = 0

    @property
    def value(self) -> bytes:
        return bytes(index * 31 % 251 for index in range(self.size))


def run(client: str, name: str, task: Task) -> dict[str, float]:
    """Run a task with one client, in this process."""
    function: Callable[[Task], dict[str, float]] = getattr(import_module(HOMES[client]), name)
    return function(task)


def rate(records: int, seconds: float) -> dict[str, float]:
    return {"value": records / seconds, "seconds": seconds}


def quantiles(latencies_ns: list[int]) -> dict[str, float]:
    """The p99 and others, in milliseconds, without the first tenth."""
    steady = sorted(latencies_ns[len(latencies_ns) // 10 :])
    return {
        "value": _at(steady, 0.99),
        "p50_ms": _at(steady, 0.5),
        "p999_ms": _at(steady, 0.999),
        "max_ms": _at(steady, 1.0),
    }


def _at(steady: list[int], share: float) -> float:
    return steady[min(len(steady) - 1, int(len(steady) * share))] / 1e6


def resident_mb() -> float:
    """The current memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(arguments: list[str]) -> int:
    client, name, given = arguments
    fields: dict[str, Any] = json.loads(given)
    print(json.dumps(run(client, name, Task(**fields))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
