"""Runs the nodes of a group until stopped, and restarts crashed nodes with backoff.

A node that exits with code 0 was stopped on purpose and is not restarted; when all nodes have stopped, so
does the supervisor.

Only one supervisor runs at a time: it holds a lock on the group's directory, which also tells others that
it is alive. Its state is in `supervisor.json`, replaced atomically at every change. It has the nodes'
addresses, too: ports may be chosen at the start.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

from ottla.cluster.group import ClusterError, NodeFacts, NodeGroup
from ottla.cluster.process import STOP_SECONDS_MAX, NodeProcess
from ottla.cluster.shutdown import stop_nodes

LOOK_SECONDS = 0.1
BACKOFF_SECONDS = 0.5
BACKOFF_SECONDS_MAX = 30.0
CALM_SECONDS = 60.0
"""A node that has run this long has recovered: its next crash is its first."""

_LOCK = "supervisor.lock"
_STATE = "supervisor.json"


@dataclass(slots=True)
class _Watched:
    """One node: its process and its crash history."""

    process: NodeProcess
    started_at: float
    restarts: int = 0
    crashes_in_a_row: int = 0
    start_again_at: float | None = None
    has_served: bool = False
    is_stopped: bool = False

    @property
    def is_running(self) -> bool:
        return self.start_again_at is None and not self.is_stopped


def backoff_seconds(crashes_in_a_row: int) -> float:
    """How long to wait before the next restart, after at least one crash."""
    return float(min(BACKOFF_SECONDS * 2 ** min(crashes_in_a_row - 1, 10), BACKOFF_SECONDS_MAX))


class Supervisor:
    """`run` returns when all nodes have stopped. `say` gets a line for each event.

    `prepare` formats the nodes and returns the cluster id; it runs while no other supervisor can. With
    `crashes_max` the supervisor gives up when a node has crashed that often in a row.
    """

    def __init__(
        self,
        group: NodeGroup,
        say: Callable[[str], None],
        prepare: Callable[[], str],
        *,
        crashes_max: int | None = None,
    ) -> None:
        self._group = group
        self._say = say
        self._prepare = prepare
        self._crashes_max = crashes_max
        self._stop = Event()
        self._watched: dict[int, _Watched] = {}
        self._told: Any = None

    def request_stop(self) -> None:
        self._stop.set()

    def run(self, on_up: Callable[[str], None]) -> None:
        """Start all nodes and keep them running until `request_stop`; `on_up` gets the cluster id."""
        with _locked(self._group):
            self._forget_state()  # of a killed supervisor, whose process id may be another's by now
            self._group.check_ports()
            cluster_id = self._prepare()
            try:
                for node_id in self._group.nodes:
                    self._watched[node_id] = self._start(node_id)
                self._watch(lambda: on_up(cluster_id))
            finally:
                self._stop_all()

    def _start(self, node_id: int) -> _Watched:
        return _Watched(NodeProcess(self._group.nodes[node_id]), time.monotonic())

    def _watch(self, on_up: Callable[[], None]) -> None:
        is_up = False
        while not self._stop.is_set():
            for node_id, watched in self._watched.items():
                self._look_at(node_id, watched)
            self._write_state()
            if all(watched.is_stopped for watched in self._watched.values()):
                return
            if not is_up and all(watched.has_served for watched in self._watched.values()):
                is_up = True
                on_up()
            self._stop.wait(LOOK_SECONDS)

    def _look_at(self, node_id: int, watched: _Watched) -> None:
        now = time.monotonic()
        if watched.is_stopped:
            return
        if watched.start_again_at is not None:
            if now >= watched.start_again_at:
                watched.start_again_at = None
                watched.process = NodeProcess(self._group.nodes[node_id])
                watched.started_at = now
                watched.restarts += 1
            return
        watched.has_served |= watched.process.look()
        code = watched.process.exit_code
        if code is None:
            return
        words = watched.process.last_words()
        watched.process.kill()  # it has exited; this releases its resources
        if code > 0 and not watched.has_served:
            end = f". End of its log:\n{words}" if words else "; its lines are in the log."
            raise ClusterError(f"Node {node_id} failed to start (exit code {code}){end}")
        if code == 0:
            watched.is_stopped = True
            self._say(f"Node {node_id} was stopped. It stays down until the cluster restarts.")
            return
        is_calm = now - watched.started_at >= CALM_SECONDS
        watched.crashes_in_a_row = 1 if is_calm else watched.crashes_in_a_row + 1
        place = watched.process.start.log_place
        if self._crashes_max is not None and watched.crashes_in_a_row >= self._crashes_max:
            raise ClusterError(
                f"Node {node_id} exited {_how(code)}, {watched.crashes_in_a_row} times in a row within "
                f"{CALM_SECONDS:g} s of its start. All nodes stop. See {place} for the cause."
            )
        pause_seconds = backoff_seconds(watched.crashes_in_a_row)
        watched.start_again_at = now + pause_seconds
        self._say(f"Node {node_id} exited {_how(code)}; restarting in {pause_seconds:g} s. See {place}")

    def _stop_all(self) -> None:
        for problem in stop_nodes(watched.process for watched in self._watched.values()):
            self._say(problem)
        self._forget_state()

    def _forget_state(self) -> None:
        (self._group.directory / _STATE).unlink(missing_ok=True)

    def _write_state(self) -> None:
        nodes = {
            str(node_id): {
                "pid": watched.process.process_id if watched.is_running else None,
                "is_ready": watched.process.is_ready and watched.is_running,
                "restarts": watched.restarts,
                **asdict(watched.process.start.facts()),
            }
            for node_id, watched in self._watched.items()
        }
        state = {"pid": os.getpid(), "nodes": nodes}
        if state != self._told:
            self._told = state
            fresh = self._group.directory / f"{_STATE}.new"
            fresh.write_text(json.dumps(state))
            fresh.replace(self._group.directory / _STATE)


def _how(code: int) -> str:
    if code < 0:
        return f"on {signal.Signals(-code).name}"
    return f"with code {code}"


@contextmanager
def _locked(group: NodeGroup) -> Iterator[None]:
    with (group.directory / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                f"The nodes in {group.directory} are already running. Check them with ottla cluster status "
                f"{group.selector}, or stop them with ottla cluster down {group.selector}."
            ) from None
        yield


def is_supervised(directory: Path) -> bool:
    """Whether a supervisor runs in the directory."""
    try:
        with (directory / _LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What the supervisor has written about a node."""

    facts: NodeFacts
    pid: int | None
    is_ready: bool
    restarts: int


def node_states(state: Mapping[str, Any]) -> dict[int, NodeState]:
    """The nodes in what `read_state` returned."""
    found = {}
    for node_id, entry in state["nodes"].items():
        own = {name: entry.pop(name) for name in ("pid", "is_ready", "restarts")}
        for name in ("address", "local_address"):
            entry[name] = tuple(entry[name]) if entry[name] is not None else None
        found[int(node_id)] = NodeState(facts=NodeFacts(**entry), **own)
    return found


def read_state(directory: Path) -> dict[str, Any] | None:
    """The state that the supervisor has written; None if there is none."""
    if not is_supervised(directory):
        return None
    try:
        state: dict[str, Any] = json.loads((directory / _STATE).read_text())
    except FileNotFoundError:  # the supervisor has just started, or is stopping
        return None
    return state


def stop_supervisor(directory: Path) -> bool:
    """Stop a running cluster and wait for it; False if none was running."""
    state = read_state(directory)
    if state is None:
        if is_supervised(directory):
            raise ClusterError(f"The nodes in {directory} are starting or stopping. Try again.")
        return False
    with suppress(ProcessLookupError):  # it has exited meanwhile
        os.kill(state["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS_MAX + 10
    while is_supervised(directory):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"The supervisor, process {state['pid']}, does not stop. Kill it with: kill -9 {state['pid']}"
            )
        time.sleep(LOOK_SECONDS)
    return True


@contextmanager
def stops_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C stop the cluster; restore the previous handlers afterwards."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop()) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
