"""The supervisor and nodes that crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cluster import supervisor
from ottla.cluster.group import ClusterError, NodeGroup, NodeStart, bootstrap_servers
from ottla.cluster.machine import machine_group
from ottla.cluster.supervisor import Supervisor
from ottla.operations.configuration import ConfigurationSource


class CrashedNode:
    """In place of a process: it has served, and is dead."""

    started = 0
    is_ready = True
    process_id = 1
    exit_code: int | None = -9

    def __init__(self, start: NodeStart) -> None:
        self.start = start
        CrashedNode.started += 1

    def look(self) -> bool:
        return True

    def last_words(self) -> str:
        return ""

    def kill(self) -> None:
        return


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeGroup:
    monkeypatch.setattr(supervisor, "NodeProcess", CrashedNode)
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.0)
    CrashedNode.started = 0
    found = machine_group(ConfigurationSource(port=0, data=str(tmp_path)), 1)
    found.directory.mkdir()
    return found


def test_a_node_that_crashes_again_and_again_ends_the_supervisor(group: NodeGroup) -> None:
    said: list[str] = []
    with pytest.raises(ClusterError, match=r"Node 1 exited on SIGKILL, 4 times in a row.*All nodes stop\."):
        Supervisor(group, said.append, lambda: "id", crashes_max=4).run(lambda _: None)
    assert CrashedNode.started == 4
    assert len(said) == 3
    assert all(line.startswith("Node 1 exited on SIGKILL; restarting in 0 s. See the log") for line in said)


def test_a_node_that_was_stopped_is_not_restarted(group: NodeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CrashedNode, "exit_code", 0)
    said: list[str] = []
    Supervisor(group, said.append, lambda: "id", crashes_max=4).run(lambda _: None)
    assert said == ["Node 1 was stopped. It stays down until the cluster restarts."]
    assert not (group.directory / "supervisor.json").exists()


def test_a_node_that_cannot_start_ends_the_supervisor(
    group: NodeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CrashedNode, "exit_code", 1)
    monkeypatch.setattr(CrashedNode, "look", lambda _: False)
    with pytest.raises(ClusterError, match=r"Node 1 failed to start \(exit code 1\)"):
        Supervisor(group, lambda _: None, lambda: "id").run(lambda _: None)


def test_nobody_reads_what_a_killed_supervisor_has_left(
    group: NodeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CrashedNode, "exit_code", 0)
    monkeypatch.setattr("os.kill", lambda pid, _signal: pytest.fail(f"it would kill {pid}"))
    (group.directory / "supervisor.json").write_text('{"pid": 1, "nodes": {}}')
    seen: list[object] = []

    def prepare() -> str:
        seen.append(supervisor.read_state(group.directory))
        with pytest.raises(ClusterError, match="are starting or stopping"):
            supervisor.stop_supervisor(group.directory)
        return "id"

    Supervisor(group, lambda _: None, prepare).run(lambda _: None)
    assert seen == [None]


def test_addresses_of_ipv6_are_written_with_brackets() -> None:
    addresses = [("::1", 9092), None, ("machine-a", 9094)]
    assert bootstrap_servers(addresses) == "[::1]:9092,machine-a:9094"


def test_an_advertised_port_0_is_the_port_of_the_listener() -> None:
    overrides = {
        "advertised.listeners": "PLAINTEXT://a:0",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    }
    group = machine_group(ConfigurationSource(overrides=overrides), 2)
    assert group.bootstrap_servers == "a:9092,a:9094"
