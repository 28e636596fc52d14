"""Measures how long a partition accepts no writes when its leader is killed, killed with the controller, or
stopped.

A writer sends one record after the other with acks=all, and immediately tries the next node if one refuses:
so the cluster is measured, not a client's backoff. The result is the longest time between two
acknowledgments. Both clusters have the same timeouts.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.interop.peers import wait_until

from bench import machine
from bench.clusters import NODES, Cluster
from bench.generators import GeneratorFailed
from bench.plain_client import Client, NotAnswered
from bench.results import NAMES, Measurement, longest_gap_s
from bench.rows import Row
from ottla.records.record import Record, build_batch
from ottla.wire.messages.produce import ProduceRequest

TIMEOUTS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
}
KILL, KILL_CONTROLLER, STOP = "failover-kill", "failover-controller", "failover-stop"

_PRODUCE_VERSION = 12
_ACKNOWLEDGED_BEFORE = 100
_ACKNOWLEDGED_AFTER = 100
_PAUSE_S = 0.002
_TIMEOUT_S = 60.0


class Writer(threading.Thread):
    """Writes one record after the other to partition 0 of a topic, wherever its leader is."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[float] = []
        self._ports = itertools.cycle([node.port for node in cluster.nodes.values()])
        self._topic = topic
        self._is_over = threading.Event()
        self.start()

    def run(self) -> None:
        batch = build_batch([Record(offset=0, timestamp=0, key=None, value=b"x" * 100)])
        while not self._is_over.is_set():
            try:
                with Client(next(self._ports), timeout_s=5.0) as client:
                    while not self._is_over.is_set() and not self._write(client, batch):
                        self.acknowledged.append(time.monotonic())
                        time.sleep(_PAUSE_S)
            except (OSError, NotAnswered):
                pass  # try the next node
            time.sleep(_PAUSE_S)

    def _write(self, client: Client, batch: bytearray) -> int:
        partition = ProduceRequest.PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
        topic = ProduceRequest.TopicProduceData(name=self._topic, partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
        response = client.ask(request, _PRODUCE_VERSION)
        return int(response.responses[0].partition_responses[0].error_code)

    def wait_for(self, count: int) -> None:
        """Wait for this many more acknowledgments."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, _TIMEOUT_S, f"{count} writes")

    def close(self) -> None:
        self._is_over.set()
        self.join(_TIMEOUT_S)


def time_failovers(
    rows: Sequence[Row], rounds: int, directory: Path, patience_s: float, progress: Callable[[str], None]
) -> list[Measurement]:
    """Fail over in each way, on both clusters in turn."""
    found: list[Measurement] = []
    with ExitStack() as stack:
        clusters = {name: Cluster(name, directory / f"failover-{name}", TIMEOUTS) for name in NAMES}
        for cluster in clusters.values():
            stack.callback(cluster.close)
            cluster.start()
        for number in range(rounds):
            for row in rows:
                machine.wait_for_quiet(patience_s)
                for name, cluster in clusters.items():
                    seconds = _fail_over(cluster, row.name, f"{row.name}-{number}")
                    found.append(Measurement(row=row.name, broker=name, round=number, value=seconds))
                    progress(f"round {number + 1}/{rounds}  {row.name:20} {name:6} {seconds:>12,.3f} s")
    return found


def _fail_over(cluster: Cluster, way: str, topic: str) -> float:
    """Fail a leader and restart it; return the longest time without an acknowledgment."""
    controller = cluster.active_controller()
    if controller < 0:
        raise GeneratorFailed(f"The nodes of {cluster.name} name no leader of the quorum.")
    victim = controller if way == KILL_CONTROLLER else next(one for one in NODES if one != controller)
    others = [one for one in NODES if one != victim]
    cluster.create_topic(topic, 1, [victim, *others])
    writer = Writer(cluster, topic)
    try:
        writer.wait_for(_ACKNOWLEDGED_BEFORE)
        since = time.monotonic()
        if way == STOP:
            cluster.nodes[victim].stop()
        else:
            cluster.nodes[victim].kill()
        writer.wait_for(_ACKNOWLEDGED_AFTER)
    finally:
        writer.close()
        if cluster.nodes[victim].process is None:
            cluster.nodes[victim].start()
    cluster.wait_in_sync(topic, 1)
    cluster.delete_topic(topic)
    return longest_gap_s(writer.acknowledged, since)
