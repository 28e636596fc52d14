"""Nodes with one role, as separate processes: a controller, and brokers that follow it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.unit.server.asking import Asking

from ottla.cluster.ports import free_ports
from ottla.wire.messages.metadata import MetadataRequest

CLUSTER_ID = "cm9sZXMtb2YtdGhlLW5vZA"
CONTROLLER_ID = 100
SECONDS_MAX = 120.0
_SOURCE = str(Path(__file__).resolve().parents[3] / "src")


def free_port() -> int:
    return free_ports(1)[0]


def wait_until(condition: Callable[[], object], what: str, *, seconds_max: float = SECONDS_MAX) -> None:
    """Wait for a condition; after the deadline raise AssertionError with `what`."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, f"gave up waiting for {what}"
        time.sleep(0.02)


class NodeProcess:
    """One node. Its data outlives the process: `kill` or `stop` it, then `start` it again."""

    def __init__(self, directory: Path, properties: dict[str, str], port: int) -> None:
        self.directory = directory
        self.port = port
        self.data = directory / "data"
        self.process: subprocess.Popen[bytes] | None = None
        directory.mkdir()
        self._file = directory / "server.properties"
        properties = {"log.dirs": str(self.data), **properties}
        self._file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def run_tool(self, module: str, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", module, *arguments],
            check=True,
            capture_output=True,
            env=self._environment(),
        )

    def format(self, *arguments: str, cluster_id: str = CLUSTER_ID) -> Self:
        self.run_tool("ottla.tools.storage", "format", "-t", cluster_id, "-c", str(self._file), *arguments)
        return self

    def start(self, *, wait: bool = True) -> Self:
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla.tools.server_start", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
            )
        starts = self.log_text.count("Kafka Server started")
        if wait:
            wait_until(lambda: self._has_started(starts), f"{self.directory.name} to start:\n{self.log_text}")
        return self

    def _has_started(self, starts: int) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log_text
        return self.log_text.count("Kafka Server started") > starts

    @property
    def log_text(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def kill(self) -> None:
        """As kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> int:
        """As SIGTERM; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SECONDS_MAX)
        self.process = None
        return code

    def ask(self) -> Asking:
        return Asking(self.port)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": _SOURCE}


class Nodes:
    """A controller and its brokers; all are killed at the end in any case."""

    def __init__(
        self, directory: Path, *, is_static: bool = False, data_port: int | None = None, **controller: str
    ) -> None:
        """With `data_port` the controller is also a broker. `controller`: settings, with underscores for
        dots."""
        self._directory = directory
        self._nodes: list[NodeProcess] = []
        port = free_port()
        name = "controller.quorum.voters" if is_static else "controller.quorum.bootstrap.servers"
        address = f"127.0.0.1:{port}"
        self._common = {
            "controller.listener.names": "CONTROLLER",
            name: f"{CONTROLLER_ID}@{address}" if is_static else address,
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "400",
        }
        settings = {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": f"CONTROLLER://{address}",
            **{key.replace("_", "."): value for key, value in controller.items()},
        }
        if data_port is not None:
            settings["process.roles"] = "broker,controller"
            settings["listeners"] += f",PLAINTEXT://127.0.0.1:{data_port}"
        self.controller = self._add("controller", settings, port)
        self.controller.format(*([] if is_static else ["--standalone"]))

    def broker(self, node_id: int, *, cluster_id: str = CLUSTER_ID, **extra: str) -> NodeProcess:
        """A formatted broker that is not started."""
        port = free_port()
        settings = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            **{key.replace("_", "."): value for key, value in extra.items()},
        }
        return self._add(f"broker-{node_id}-{port}", settings, port).format(cluster_id=cluster_id)

    def _add(self, name: str, settings: dict[str, str], port: int) -> NodeProcess:
        node = NodeProcess(self._directory / name, {**self._common, **settings}, port)
        self._nodes.append(node)
        return node

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self._nodes:
            if node.process is not None:
                node.kill()


def leaders(asking: Asking, topic: str) -> dict[int, int]:
    """Partition -> leader, in this broker's Metadata response."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    (found,) = asking.ask(request, 12).topics
    return {partition.partition_index: partition.leader_id for partition in found.partitions}


def wait_for_leaders(node: NodeProcess, topic: str, count: int) -> None:
    """Wait until a broker knows a leader for each of `count` partitions."""

    def are_known() -> bool:
        with node.ask() as asking:
            known = leaders(asking, topic)
        return len(known) == count and all(leader >= 0 for leader in known.values())

    wait_until(are_known, f"leaders of {topic}")
