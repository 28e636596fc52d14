"""500 connections to one machine: what the further nodes of `ottla serve --nodes` are worth on it.

    python -m bench.machine_nodes [--nodes 1 2] [--pin] [--records 100000] [--rounds 3]

Each node leads a topic of one partition. The connections are spread over the nodes, with one generator for
each node, and each connection has one request of one record in flight, as in the row `connections-500`. All
variants run at the same time and get their load in turns, so that a busy machine is busy for all. With --pin
there is one more variant of each number of nodes, with each node bound to a core. The machine has to serve
the generators, too: the figures are those of clients elsewhere only if there are cores to spare.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.peers import end_process, start_process, wait_until

from bench.contenders import SETTINGS
from bench.generators import Target, connection_load, produce_frame
from bench.rows import CONNECTIONS
from ottla.cluster.machine import group_in
from ottla.cluster.status import ClusterStatus, cluster_status

RECORD_BYTES = 100
TIMEOUT_S = 120


class Variant:
    """A number of nodes under one supervisor, and its results."""

    def __init__(self, count: int, is_pinned: bool, directory: Path) -> None:
        self.name = f"{count} node{'s' if count > 1 else ''}{', pinned' if is_pinned else ''}"
        self.rates: list[float] = []
        self.cpu_us: list[float] = []
        self._data = directory / self.name.replace(",", "").replace(" ", "-")
        self._log = (directory / f"{self._data.name}.log").open("wb")
        words = [f"--override={name}={value}" for name, value in SETTINGS.items()]
        self._supervisor = start_process(
            [sys.executable, "-m", "ottla.cli", "serve", "--nodes", str(count), "--port", "0"]
            + ["--data", str(self._data), *words],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until(lambda: self._is_up(count), TIMEOUT_S, self.name)
            self._nodes = self._status().nodes
            if is_pinned:
                cores = sorted(os.sched_getaffinity(0))
                for number, node in enumerate(self._nodes):
                    os.sched_setaffinity(node.pid or 0, {cores[number % len(cores)]})
            self._create_topics()
        except BaseException:
            self.close()
            raise

    def _status(self) -> ClusterStatus:
        group = group_in(self._data)
        assert group is not None, f"{self._data} has no nodes"
        return cluster_status(group)

    def _is_up(self, count: int) -> bool:
        if not self._data.exists() or group_in(self._data) is None:
            return False
        return sum(node.is_ready for node in self._status().nodes) == count

    def _create_topics(self) -> None:
        """One for each node, led by it."""
        admin = AdminClient({"bootstrap.servers": f"localhost:{self._nodes[0].port}"})
        topics = [
            NewTopic(f"of-{node.node_id}", 1, replica_assignment=[[node.node_id]]) for node in self._nodes
        ]
        for created in admin.create_topics(topics, request_timeout=30).values():
            created.result(TIMEOUT_S)

    def load(self, records: int) -> None:
        """One round; adds its rate and the nodes' CPU time for each request."""
        before = self._cpu_s()
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            figures = list(pool.map(lambda number: self._load_one(number, records), range(len(self._nodes))))
        self.cpu_us.append((self._cpu_s() - before) / records * 1e6)
        self.rates.append(sum(one["requests"] for one in figures) / max(one["seconds"] for one in figures))

    def _load_one(self, number: int, records: int) -> dict[str, float]:
        node, count = self._nodes[number], len(self._nodes)
        topic = f"of-{node.node_id}"
        assert node.port is not None, "it is a broker"
        target = Target(
            port=node.port, topic=topic, partitions=1, records=records // count, timeout_s=TIMEOUT_S
        )
        return dict(connection_load(target, produce_frame(topic, RECORD_BYTES), CONNECTIONS // count))

    def _cpu_s(self) -> float:
        times = [psutil.Process(node.pid).cpu_times() for node in self._nodes]
        return float(sum(one.user + one.system for one in times))

    def close(self) -> None:
        """Stop the nodes. They end with their supervisor."""
        self._supervisor.terminate()
        try:
            self._supervisor.wait(TIMEOUT_S)
        finally:
            end_process(self._supervisor)
            self._log.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.machine_nodes", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory, ExitStack() as stack:
        variants: list[Variant] = []
        for is_pinned in (False, True) if options.pin else (False,):
            for count in options.nodes:
                variants.append(Variant(count, is_pinned, Path(directory)))
                stack.callback(variants[-1].close)
        for variant in variants:
            variant.load(options.records // 5)  # warms up
        for variant in variants:
            variant.rates.clear()
            variant.cpu_us.clear()
        for _ in range(options.rounds):
            for variant in variants:
                variant.load(options.records)
        for variant in variants:
            rates = " ".join(f"{rate:,.0f}" for rate in variant.rates)
            print(
                f"{variant.name:<18}{statistics.median(variant.rates):>10,.0f} req/s"
                f"{statistics.median(variant.cpu_us):>8.1f} us of CPU a request   rounds: {rates}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
