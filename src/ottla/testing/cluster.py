"""A cluster for tests, as a context manager: each node is a child process that can be killed.

Nodes listen on free ports of 127.0.0.1, which they keep across `kill`, `stop` and `start`. They exit when the
test process exits, however it does.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.cluster.group import ClusterError
from ottla.cluster.layout import (
    Layout,
    Plan,
    format_layout,
    is_layout,
    read_layout,
    write_layout,
)
from ottla.cluster.process import NodeProcess
from ottla.cluster.shutdown import stop_nodes
from ottla.testing.broker import BrokerFailed

START_SECONDS_MAX = 120.0

_SETTINGS = {
    # Tests wait for a new leader after a kill, and for the first join of a group.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
}


class Cluster:
    """Nodes 1 to `nodes`, all brokers; the first `controllers` nodes are controllers, too (by default three,
    or one in a cluster with fewer than three nodes).

    `overrides` takes settings for every node, as in server.properties.
    """

    def __init__(
        self,
        nodes: int = 3,
        controllers: int | None = None,
        overrides: Mapping[str, str] | None = None,
        *,
        data_directory: str | Path | None = None,
    ) -> None:
        settings = {**_SETTINGS, **(overrides or {})}
        plan = Plan(nodes=nodes, controllers=controllers, host="127.0.0.1", overrides=settings)
        plan.check()
        self._is_temporary = data_directory is None
        self.data_directory = Path(data_directory or tempfile.mkdtemp(prefix="ottla-"))
        self._running: dict[int, NodeProcess] = {}
        try:
            self._layout = _layout(self.data_directory, plan)
            format_layout(self._layout)
        except BaseException:
            self._remove_data()
            raise

    @property
    def bootstrap_servers(self) -> str:
        return self._layout.bootstrap_servers

    @property
    def node_ids(self) -> list[int]:
        return list(self._layout.nodes)

    @property
    def running(self) -> list[int]:
        """The ids of the running nodes."""
        return sorted(node_id for node_id, node in self._running.items() if node.exit_code is None)

    def port(self, node_id: int) -> int:
        """The port of this node for clients, on 127.0.0.1."""
        address = self._layout.node(node_id).address
        assert address is not None
        return address[1]

    def process_id(self, node_id: int) -> int:
        return self._node(node_id).process_id

    def log_text(self, node_id: int) -> str:
        """The log of a node so far."""
        path = self._layout.node(node_id).log
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, *node_ids: int) -> Self:
        """Start these nodes, or all stopped ones, in parallel; return when they serve clients."""
        started = []
        for node_id in node_ids or self.node_ids:
            files = self._layout.node(node_id)
            if node_id not in self.running:
                self._forget(node_id)
                self._running[node_id] = NodeProcess(files.start)
                started.append(self._running[node_id])
        _wait_until_ready(started)
        return self

    def stop(self, *node_ids: int) -> None:
        """Stop these nodes, or all, cleanly, as SIGTERM does."""
        stopped = [self._node(node_id) for node_id in node_ids or self.running]
        problems = stop_nodes(stopped)
        for node in stopped:
            del self._running[node.start.node_id]
        if problems:
            raise BrokerFailed("\n".join(problems))

    def kill(self, node_id: int) -> None:
        """Kill a node, as SIGKILL does."""
        self._node(node_id).kill()
        del self._running[node_id]

    def restart(self, *node_ids: int) -> Self:
        self.stop(*node_ids)
        return self.start(*node_ids)

    def close(self) -> None:
        """Stop all nodes and delete the data if it is temporary. If the data stays, the stop is clean."""
        try:
            if not self._is_temporary:
                self.stop()
        finally:
            for node_id in list(self._running):
                self._forget(node_id)
            self._remove_data()

    def _remove_data(self) -> None:
        if self._is_temporary:
            shutil.rmtree(self.data_directory, ignore_errors=True)

    def _node(self, node_id: int) -> NodeProcess:
        self._layout.node(node_id)
        if node_id not in self.running:
            raise BrokerFailed(f"Node {node_id} is not running. Start it with start({node_id}).")
        return self._running[node_id]

    def _forget(self, node_id: int) -> None:
        node = self._running.pop(node_id, None)
        if node is not None:
            node.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(BrokerFailed, ClusterError) if kind else contextlib.nullcontext():
            self.close()


def _layout(directory: Path, plan: Plan) -> Layout:
    """Create a cluster, or load the one in the directory."""
    if not is_layout(directory):
        return write_layout(directory, plan)
    layout = read_layout(directory)
    if len(layout.nodes) != plan.nodes:
        raise ClusterError(
            f"The cluster in {directory} has {len(layout.nodes)} nodes, not {plan.nodes}. Request that "
            "number, or use another directory."
        )
    return layout


def _wait_until_ready(nodes: Iterable[NodeProcess]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    waiting = list(nodes)
    while waiting:
        left_seconds = deadline - time.monotonic()
        readable, _, _ = select.select(waiting, [], [], max(left_seconds, 0))
        for node in readable or waiting:
            if not node.look() and (readable or left_seconds <= 0):
                what = "did not start" if readable else f"did not start in {START_SECONDS_MAX:.0f} seconds"
                raise BrokerFailed(f"Node {node.start.node_id} {what}: {node.last_words()}")
        waiting = [node for node in waiting if not node.is_ready]
