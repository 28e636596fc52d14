"""The directories and processes of the nodes that one machine runs from one configuration."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.unit.server.asking import Asking
from tests.unit.server.nodes import leaders, wait_until

from ottla.cli import main
from ottla.cluster.group import ClusterError
from ottla.cluster.machine import (
    format_nodes,
    group_in,
    machine_group,
    node_count,
    refuse_lost_nodes,
    stored_group,
    stored_replicas,
    warn_of_other_nodes,
)
from ottla.cluster.ports import free_ports
from ottla.log.directories.names import Kind
from ottla.operations.configuration import ConfigurationSource
from ottla.properties import as_dict
from ottla.tools import storage

CLUSTER_ID = "b3R0bGEtcGVlcnMtY2x1cw"


@pytest.fixture
def source(tmp_path: Path) -> ConfigurationSource:
    """A file of a combined node with two directories."""
    client, controller = free_ports(2)
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\nlog.dirs={tmp_path}/a,{tmp_path}/b\n"
        "offsets.topic.replication.factor=1\ngroup.initial.rebalance.delay.ms=0\n"
        "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"
    )
    return ConfigurationSource(file=str(file))


def format_first(source: ConfigurationSource) -> None:
    assert source.file is not None
    assert storage.main(["format", "-t", CLUSTER_ID, "-c", source.file]) == 0


def test_further_nodes_are_formatted_for_the_cluster_of_the_first(
    source: ConfigurationSource, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError, match="is not formatted"):
        format_nodes(machine_group(source, 2), source)
    assert not (tmp_path / "a" / "nodes").exists()
    format_first(source)
    for count in (2, 3, 3):
        assert format_nodes(machine_group(source, count), source) == CLUSTER_ID
    found = {
        str(path.parent.relative_to(tmp_path)): as_dict(path.read_text())
        for path in tmp_path.rglob("meta.properties")
    }
    assert {name: meta["node.id"] for name, meta in found.items()} == {
        f"{base}{further}": node_id
        for base in "ab"
        for further, node_id in (("", "1"), ("/nodes/1001", "1001"), ("/nodes/2001", "2001"))
    }
    assert {meta["cluster.id"] for meta in found.values()} == {CLUSTER_ID}
    assert len({meta["directory.id"] for meta in found.values()}) == 6


def test_a_node_without_a_file_formats_itself_and_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = ConfigurationSource(port=0)
    assert format_nodes(machine_group(source, 2), source)
    assert (tmp_path / "data" / "meta.properties").exists()
    assert (tmp_path / "data" / "nodes" / "1001" / "meta.properties").exists()


def test_a_node_that_holds_replicas_is_not_left_out(source: ConfigurationSource, tmp_path: Path) -> None:
    config = source.load()
    for name in ("t-0", "t-1", f"u-0.{'0' * 32}{Kind.DELETED.value}", "__cluster_metadata-0", "no-number"):
        (tmp_path / "b" / "nodes" / "2001" / name).mkdir(parents=True)
    (tmp_path / "a" / "nodes" / "3001").mkdir(parents=True)  # drained
    assert stored_replicas(config) == {2001: 2, 3001: 0}
    with pytest.raises(ClusterError) as raised:
        refuse_lost_nodes(config, 2)
    assert "Node 2001 of this machine would not start with --nodes 2, but holds 2 replicas" in str(
        raised.value
    )
    assert "Start with --nodes 3; to use fewer" in str(raised.value)
    assert "ottla reassign start --drain 2001" in str(raised.value)
    refuse_lost_nodes(config, 3)
    warn_of_other_nodes(config)
    assert "replicas of other nodes of this machine, 2001, in" in config.warnings[-1]
    assert list(stored_group(source).nodes) == [1, 1001, 2001, 3001]


def test_the_command_line_that_finds_the_nodes(source: ConfigurationSource, tmp_path: Path) -> None:
    assert machine_group(source, 1).selector == source.file
    elsewhere = ConfigurationSource(file=source.file, data=str(tmp_path / "c"))
    group = machine_group(elsewhere, 1)
    option, _, directory = group.selector.partition(" ")
    assert option == "--data"
    assert Path(directory).resolve() == tmp_path / "c"
    group.directory.mkdir(parents=True)
    found = group_in(tmp_path / "c")
    assert found is not None
    assert found.directory == group.directory


def test_the_number_of_nodes() -> None:
    assert node_count("3") == 3
    assert node_count("auto") >= 1
    for bad in ("0", "-1", "many", "1000", "²"):
        with pytest.raises(ValueError, match=f"--nodes {bad} is not a number of nodes"):
            node_count(bad)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["serve", "--nodes", "x"], 2, "--nodes x is not a number of nodes"),
        (["serve", "/none", "--nodes", "2"], 1, "/none cannot be read"),
        (["cluster", "up", "/none", "--nodes", "2"], 1, "/none cannot be read"),
        (["cluster", "up", "/none", "--port", "1"], 2, "Omit the other flags"),
        (["cluster", "up", "--nodes", "auto"], 2, "Only with a FILE it may be auto"),
        (["cluster", "status", "/none"], 1, "/none cannot be read"),
        (["cluster", "down", "/none"], 1, "/none cannot be read"),
    ],
)
def test_mistakes_are_reported(
    arguments: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    assert sentence in capsys.readouterr().err


# Processes


@contextmanager
def supervisor(source: ConfigurationSource, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor of three nodes; what it leaves behind is killed."""
    command = [sys.executable, "-m", "ottla.cli", "serve", *source.words(), "--nodes", "3"]
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        left = status_of(source)
        process.kill()
        process.wait()
        for node in left["nodes"]:
            if node["pid"] is not None and is_running(node["pid"]):
                os.kill(node["pid"], signal.SIGKILL)


def status_of(source: ConfigurationSource) -> dict[str, Any]:
    assert source.file is not None
    command = [sys.executable, "-m", "ottla.cli", "cluster", "status", source.file, "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_three_nodes_from_one_file_serve_restart_and_stop_together(
    source: ConfigurationSource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    format_first(source)
    output = tmp_path / "output"

    def log() -> str:
        return output.read_text()

    with supervisor(source, output) as process:
        wait_until(lambda: "All 3 nodes of cluster" in log(), "three nodes", seconds_max=120)
        found = status_of(source)
        assert [node["node_id"] for node in found["nodes"]] == [1, 1001, 2001]
        assert [node["roles"] for node in found["nodes"]] == [
            ["broker", "controller"],
            ["broker"],
            ["broker"],
        ]
        assert found["cluster_id"] == CLUSTER_ID
        assert found["supervisor_pid"] == process.pid
        port = found["nodes"][0]["port"]
        with Asking(port) as client:
            client.create_topic("spread", partitions=6)
            assert sorted(leaders(client, "spread").values()) == [1, 1, 1001, 1001, 2001, 2001]
        sent = exchange(port, [b"%d" % number for number in range(60)])
        assert sorted(sent) == sorted(b"%d" % number for number in range(60))

        assert main(["serve", *source.words(), "--nodes", "3"]) == 1
        assert "are already running" in caplog.text

        killed = next(node["pid"] for node in found["nodes"] if node["node_id"] == 1001)
        os.kill(killed, signal.SIGKILL)
        wait_until(
            lambda: "[supervisor] Node 1001 exited on SIGKILL; restarting in 0.5 s" in log(),
            "the restart to be announced",
        )
        wait_until(
            lambda: log().count("[KafkaRaftServer nodeId=1001] Kafka Server started") == 2, "the restart"
        )
        wait_until(lambda: status_of(source)["nodes"][1]["restarts"] == 1, "the restart in the status")

        process.terminate()
        assert process.wait(120) == 0
        stopped = [line for line in log().splitlines() if "Kafka Server stopped" in line]
        assert len(stopped) == 3
        assert "[node 1] [KafkaRaftServer nodeId=1] Kafka Server stopped" in stopped[-1]
        assert not any(node["is_alive"] for node in status_of(source)["nodes"])


def exchange(port: int, values: list[bytes]) -> list[bytes]:
    """Write to topic `spread` and read it, through one bootstrap address."""
    servers = f"127.0.0.1:{port}"
    producer = Producer({"bootstrap.servers": servers})
    for number, value in enumerate(values):
        producer.produce("spread", value, partition=number % 6)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["spread"])
    found: list[bytes] = []
    try:

        def has_all() -> bool:
            found.extend(message.value() for message in consumer.consume(100, 0.1) if message.error() is None)
            return len(found) >= len(values)

        wait_until(has_all, "all records", seconds_max=120)
    finally:
        consumer.close()
    return found


def test_no_node_outlives_a_supervisor_that_is_killed(source: ConfigurationSource, tmp_path: Path) -> None:
    format_first(source)
    output = tmp_path / "output"
    quick = source.with_overrides({"controlled.shutdown.enable": "false"})  # the controller has gone, too
    with supervisor(quick, output) as process:
        wait_until(lambda: "All 3 nodes of cluster" in output.read_text(), "three nodes", seconds_max=120)
        pids = [node["pid"] for node in status_of(source)["nodes"]]
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(is_running, pids)), "all nodes to end", seconds_max=120)


def test_a_used_port_ends_the_start(source: ConfigurationSource, caplog: pytest.LogCaptureFixture) -> None:
    format_first(source)
    last = machine_group(source, 3).nodes[2001].config.listeners[0].port
    with socket.create_server(("127.0.0.1", last)):
        assert main(["serve", *source.words(), "--nodes", "3"]) == 1
    assert f"Cannot bind port {last} on 127.0.0.1" in caplog.text
