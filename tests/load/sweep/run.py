"""One sweep: a filled node, a request of each shape, and what another client and the machine notice of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.server.handlers import HANDLERS
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import UnencodableMessage, UnsupportedVersion
from ottla.wire.frame import request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.interop.peers import wait_until
from tests.load.sweep.filling import fill
from tests.load.sweep.node import Turns
from tests.load.sweep.shapes import Shape
from tests.unit.server.asking import Asking

ANSWER_WAIT_S = 60
START_WAIT_S = 120
_HELLO = request_frame(ApiVersionsRequest(), 0, 1, "other")
_REST_S = 0.02


@dataclass(frozen=True, slots=True)
class Measured:
    """What one request did."""

    api_key: int
    version: int
    name: str
    request_bytes: int
    answer_bytes: int
    """-1 where the connection was closed, -2 where no answer came."""
    turn_ms: float
    """The most processor time that the loop spent between two looks at its sockets."""
    total_ms: float
    """What all turns took while the request was under way."""
    long_turns: int
    waited_ms: float
    """The longest that another client waited for an answer."""
    grown_bytes: int
    """The most memory that the node had, over what it had before."""


class SweptNode:
    """A process with a filled node in it, or with an empty one if `share` is 0."""

    def __init__(self, directory: Path, *, share: float = 1.0) -> None:
        self.turns = Turns(directory / "turns")
        self.output = (directory / "output").open("w+")
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.load.sweep.node",
                str(directory / "data"),
                str(directory / "turns"),
            ],
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )
        wait_until(lambda: all(self.turns.read()[4:]), START_WAIT_S, lambda: "the node to start")
        # Read once: a read that meets a write of the node sees zeros.
        self.port, self.controller_port = self.turns.read()[4:]
        wait_until(self._connects, START_WAIT_S, lambda: "the node to serve")
        self.topic_id, self._kept = fill(self.port, share) if share else (b"", [])

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None and self._connects()

    def _connects(self) -> bool:
        with Asking(self.port) as asking:
            asking.ask(ApiVersionsRequest(), 0)
        return True

    def memory(self, name: str) -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise AssertionError("the node has no memory")

    def forget_peak(self) -> None:
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def close(self) -> None:
        for one in self._kept:
            one.socket.close()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.output.close()


@contextmanager
def swept_node(directory: Path, *, share: float = 1.0) -> Iterator[SweptNode]:
    node = SweptNode(directory, share=share)
    try:
        yield node
    finally:
        node.close()


class Other:
    """Another client, in a process of its own: asks again and again, and notes the longest wait."""

    def __init__(self, port: int) -> None:
        self.longest_s: Any = multiprocessing.Value("d", 0.0)
        self._stop: Any = multiprocessing.Event()
        self._process = multiprocessing.get_context("fork").Process(
            target=self._ask, args=(port,), daemon=True
        )
        self._process.start()

    def _ask(self, port: int) -> None:
        os.nice(-5) if os.geteuid() == 0 else None
        with socket.create_connection(("127.0.0.1", port)) as one:
            while not self._stop.is_set():
                begun = time.monotonic()
                one.sendall(_HELLO)
                left = 4
                size = b""
                while left:
                    size += one.recv(left)
                    left = 4 - len(size)
                left = int.from_bytes(size, "big")
                while left:
                    left -= len(one.recv(left))
                self.longest_s.value = max(self.longest_s.value, time.monotonic() - begun)
                time.sleep(0.001)

    def close(self) -> None:
        self._stop.set()
        self._process.join(10)


def served() -> Iterator[tuple[int, int, bool]]:
    """(key, version, whether the controller's listener serves it) of everything that a node serves."""
    for api in sorted(HANDLERS, key=lambda one: one.key):
        entry = API_BY_KEY[api.key]
        for version in entry.stable_versions:
            yield api.key, version, "broker" not in entry.listeners


def measure(node: SweptNode, other: Other, shape: Shape, *, at_controller: bool = False) -> Measured | None:
    """Send one request and wait for its answer; None where the version cannot carry it."""
    try:
        frame = request_frame(shape.request(node.topic_id), shape.version, 1, "sweep")
    except (UnencodableMessage, UnsupportedVersion):
        return None
    return measure_frame(
        node, other, shape.key, shape.version, shape.name, frame, at_controller=at_controller
    )


def measure_frame(
    node: SweptNode,
    other: Other,
    api_key: int,
    version: int,
    name: str,
    frame: bytes,
    *,
    at_controller: bool = False,
    rest_s: float = _REST_S,
) -> Measured:
    """Send one request, wait for its answer, and `rest_s` longer for what the node does afterwards."""
    node.forget_peak()
    before = node.memory("VmRSS")
    node.turns.reset()
    other.longest_s.value = 0.0
    answer_bytes = _asked(node.controller_port if at_controller else node.port, frame)
    time.sleep(rest_s)
    longest_s, total_s, long_turns, *_ = node.turns.read()
    grown = node.memory("VmHWM") - before
    return Measured(
        api_key,
        version,
        name,
        len(frame),
        answer_bytes,
        longest_s * 1000,
        total_s * 1000,
        long_turns,
        other.longest_s.value * 1000,
        grown,
    )


def _asked(port: int, frame: bytes) -> int:
    with Asking(port) as asking:
        asking.socket.settimeout(ANSWER_WAIT_S)
        try:
            asking.socket.sendall(frame)
            return len(asking.receive_frame())
        except TimeoutError:
            return -2
        except (OSError, EOFError):
            return -1
