"""Three nodes with 2,000 partitions of three replicas each: created at once, idle, one node restarted,
deleted.

Each cluster is alone on the machine. A probe sends a request to each node every ten milliseconds, on the
controller's listener, which also receives heartbeats: the slowest response shows how long a heartbeat could
have waited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.interop.peers import BrokerProcess

from bench import machine
from bench.clusters import NODES, Cluster
from bench.plain_client import Client, NotAnswered
from bench.results import NAMES, Measurement
from ottla.wire.messages.api_versions import ApiVersionsRequest

CREATE, IDLE, MEMORY, RESTART, STALL = (
    "many-create",
    "many-idle",
    "many-memory",
    "many-restart",
    "many-stall",
)
TOPIC = "many"
IDLE_S = 10.0

_PROBE_PAUSE_S = 0.01
_SETTLE_S = 3.0


class Probe(threading.Thread):
    """Probes one node repeatedly; `longest_ms` is the slowest response so far."""

    def __init__(self, node: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self.longest_ms = 0.0
        self._port = node.controller_port
        self._is_over = threading.Event()
        self.start()

    def run(self) -> None:
        request = ApiVersionsRequest(client_software_name="probe", client_software_version="1")
        while not self._is_over.wait(_PROBE_PAUSE_S):
            try:
                with Client(self._port) as client:
                    while not self._is_over.wait(_PROBE_PAUSE_S):
                        started = time.monotonic()
                        client.ask(request, 3)
                        self.longest_ms = max(self.longest_ms, (time.monotonic() - started) * 1000)
            except (OSError, NotAnswered):
                pass  # the node is down

    def close(self) -> None:
        self._is_over.set()
        self.join()


@dataclass(frozen=True, slots=True)
class _Story:
    """The results of one cluster: the figures by row."""

    figures: dict[str, float]
    cpu_s: dict[str, float]


def measure_many(
    partitions: int, rounds: int, directory: Path, patience_s: float, progress: Callable[[str], None]
) -> list[Measurement]:
    """Run both clusters in turn, each from start to end."""
    found: list[Measurement] = []
    for number in range(rounds):
        for name in NAMES:
            machine.wait_for_quiet(patience_s)
            story = _live_through(Cluster(name, directory / f"many-{name}-{number}"), partitions)
            for row, value in story.figures.items():
                found.append(
                    Measurement(
                        row=row, broker=name, round=number, value=value, cpu_s=story.cpu_s.get(row, 0.0)
                    )
                )
            summary = ", ".join(f"{row} {value:,.2f}" for row, value in story.figures.items())
            progress(f"round {number + 1}/{rounds}  {name:6} {summary}")
    return found


def _live_through(cluster: Cluster, partitions: int) -> _Story:
    figures: dict[str, float] = {}
    used: dict[str, float] = {}
    try:
        cluster.start()
        probes = [Probe(node) for node in cluster.nodes.values()]
        before, started = cluster.cpu_s(), time.monotonic()
        cluster.create_topic(TOPIC, partitions)
        cluster.wait_for_files(TOPIC, partitions)
        figures[CREATE], used[CREATE] = time.monotonic() - started, cluster.cpu_s() - before
        time.sleep(_SETTLE_S)
        stalls = _close(probes)
        before, started = cluster.cpu_s(), time.monotonic()
        time.sleep(IDLE_S)
        figures[IDLE] = (cluster.cpu_s() - before) / (time.monotonic() - started) * 100
        figures[MEMORY] = cluster.memory_mb()
        probes = [Probe(node) for node in cluster.nodes.values()]
        node = cluster.nodes[NODES[1]]
        started = time.monotonic()
        node.stop()
        node.start()
        cluster.wait_in_sync(TOPIC, partitions)
        figures[RESTART] = time.monotonic() - started
        cluster.delete_topic(TOPIC)
        time.sleep(_SETTLE_S)
        figures[STALL] = max(*stalls, *_close(probes))
    finally:
        cluster.close()
    return _Story(figures, used)


def _close(probes: list[Probe]) -> list[float]:
    for probe in probes:
        probe.close()
    return [probe.longest_ms for probe in probes]
