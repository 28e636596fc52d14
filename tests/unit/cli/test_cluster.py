"""`ottla cluster`: up, status, down, and error messages."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.asking import Asking
from tests.unit.server.nodes import wait_until
from tests.unit.testing.test_cluster import create_replicated, leader_of, produce

from ottla.cli import main
from ottla.cluster.layout import Plan, format_layout, read_layout, write_layout
from ottla.cluster.supervisor import BACKOFF_SECONDS_MAX, backoff_seconds
from ottla.properties import as_dict


def test_a_cluster_comes_up_survives_a_killed_leader_and_goes_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "cluster"

    def status() -> dict[str, Any]:
        capsys.readouterr()
        assert main(["cluster", "status", "--data", str(data), "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    command = [sys.executable, "-m", "ottla.cli", "cluster", "up", "--port", "0", "--data", str(data)]
    fast = [
        f"--override={one}" for one in ("broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
    ]
    with (tmp_path / "output").open("wb") as output:
        supervisor = subprocess.Popen([*command, *fast], stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(
            lambda: b"is up" in (tmp_path / "output").read_bytes(), "the cluster to come up", seconds_max=120
        )
        wait_until(lambda: status()["quorum_leader"] in (1, 2, 3), "a leader of the quorum in the status")
        found = status()
        assert [node["roles"] for node in found["nodes"]] == [["broker", "controller"]] * 3
        assert all(node["is_ready"] for node in found["nodes"])
        assert main(["cluster", "status", "--data", str(data)]) == 0
        assert "leads the quorum. Clients connect to localhost:" in capsys.readouterr().out
        ports = {node["node_id"]: node["port"] for node in found["nodes"]}
        create_replicated(ports[1], "led")
        wait_until(lambda: leader_of(ports[1], "led") > 0, "a leader")
        first = leader_of(ports[1], "led")
        produce(ports[first], "led", b"kept")
        os.kill(found["nodes"][first - 1]["pid"], signal.SIGKILL)
        wait_until(lambda: led_by(status()) not in (None, first), "another leader in the status")
        wait_until(
            lambda: status()["nodes"][first - 1]["is_ready"], "the killed node to run again", seconds_max=60
        )
        wait_until(lambda: status()["under_replicated_partitions"] == 0, "all replicas in sync")
        assert status()["nodes"][first - 1]["restarts"] >= 1
        assert main(["cluster", "up", "--data", str(data)]) == 1
        assert "are already running" in capsys.readouterr().err
        assert main(["cluster", "down", "--data", str(data)]) == 0
        assert supervisor.wait(60) == 0
    finally:
        supervisor.kill()
        supervisor.wait()
    assert not any(node["is_alive"] for node in status()["nodes"])
    for port in ports.values():
        with pytest.raises(OSError, match="refused"):
            Asking(port)
    printed = (tmp_path / "output").read_text()
    assert f"Node {first} exited on SIGKILL; restarting in 0.5 s." in printed
    for node_id in (1, 2, 3):
        assert (data / f"node-{node_id}" / "server.properties").read_text() in printed


def led_by(status: dict[str, Any]) -> int | None:
    """The leader of the only partition."""
    return next((node["node_id"] for node in status["nodes"] if node["partitions_led"]), None)


def test_the_first_nodes_are_controllers_and_all_are_in_one_rack(tmp_path: Path) -> None:
    layout = write_layout(tmp_path, Plan(nodes=5))
    assert [node.roles for node in layout.nodes.values()] == [["broker", "controller"]] * 3 + [["broker"]] * 2
    assert {node.config.rack for node in layout.nodes.values()} == {socket.gethostname()}
    assert {len(node.config.quorum_voters) for node in layout.nodes.values()} == {3}
    assert as_dict(layout.nodes[4].properties.read_text())["default.replication.factor"] == "3"
    assert len({listener.port for node in layout.nodes.values() for listener in node.config.listeners}) == 8


def test_files_with_secrets_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    layout = write_layout(tmp_path, Plan(nodes=1))
    format_layout(layout)
    (node,) = layout.nodes.values()
    (data,) = node.config.log_directories
    for private in (node.properties, Path(data, "bootstrap.checkpoint")):
        assert private.stat().st_mode & 0o077 == 0


def test_restart_delays_grow_up_to_a_limit() -> None:
    pauses = [backoff_seconds(crashes) for crashes in range(1, 50)]
    assert pauses[:4] == [0.5, 1, 2, 4]
    assert pauses == sorted(pauses)
    assert pauses[-1] == BACKOFF_SECONDS_MAX


def test_a_used_port_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        assert (
            main(["cluster", "up", "--nodes", "1", "--data", str(tmp_path / "c"), "--port", str(port)]) == 1
        )
    assert f"Cannot bind port {port} on localhost" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_data_of_another_cluster_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "other"):
        format_layout(write_layout(tmp_path / name, Plan(nodes=2)))
    shutil.rmtree(tmp_path / "one" / "node-2" / "data")
    shutil.copytree(tmp_path / "other" / "node-2" / "data", tmp_path / "one" / "node-2" / "data")
    assert main(["cluster", "up", "--data", str(tmp_path / "one")]) == 1
    assert "belongs to several clusters" in capsys.readouterr().err
    assert list(read_layout(tmp_path / "one").nodes) == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["status"], "contains no cluster"),
        (["down"], "contains no cluster"),
        (["up", "--nodes", "0"], "A cluster cannot have 0 nodes"),
        (["up", "--nodes", "2", "--controllers", "3"], "A cluster of 2 nodes cannot have 3 controllers"),
        (["up", "--port", "65535"], "are outside the valid range"),
        (["up", "--override", "x"], "--override x is not in the form name=value."),
        (["up", "--port", "0", "--override", "num.partitions=0"], "num.partitions=0 is not allowed"),
    ],
)
def test_cluster_reports_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["cluster", *arguments, "--data", str(tmp_path / "none")]) == 1
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.glob("none/*"))


def test_up_does_not_change_an_existing_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_layout(tmp_path, Plan(nodes=2))
    for arguments, sentence in (
        (["--nodes", "3"], "has 2 nodes, not 3"),
        (["--controllers", "2"], "has 1 controllers, not 2"),
        (["--port", "1"], "apply to a new cluster only"),
    ):
        assert main(["cluster", "up", "--data", str(tmp_path), *arguments]) == 1
        assert sentence in capsys.readouterr().err
    assert main(["cluster", "down", "--data", str(tmp_path)]) == 0
    assert "No cluster is running" in capsys.readouterr().out
