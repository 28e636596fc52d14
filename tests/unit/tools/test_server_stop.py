"""`kafka-server-stop`: finding nodes among processes, and stopping them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.nodes import wait_until

from ottla.cluster.ports import free_ports
from ottla.tools import server_stop, storage
from ottla.tools.node_processes import NodeProcess, node_processes, words_of_node

SECONDS_MAX = 120


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("/v/bin/python /v/bin/kafka-server-start.sh a.properties", (("a.properties",), False)),
        ("python3.11 -u -X dev -m ottla.tools.server_start a.properties", (("a.properties",), False)),
        ("python /v/bin/kafka-run-class -name k kafka.Kafka a.properties", (("a.properties",), False)),
        ("python -m ottla.cluster.child node-1/server.properties", (("node-1/server.properties",), False)),
        (
            "python -m ottla.cluster.child --shared-log a.properties --override=node.id=1001",
            (("--shared-log", "a.properties", "--override=node.id=1001"), False),
        ),
        ("/v/bin/python /v/bin/ottla serve --port 0", (("--port", "0"), True)),
        ("python -m ottla.cli -p serve serve", ((), True)),
        ("python /v/bin/ottla -o json start -d here", (("-d", "here"), True)),
        ("python /v/bin/kafka-server-start -daemon a.properties", None),
        ("python /v/bin/kafka-server-start --help", None),
        ("python /v/bin/kafka-run-class kafka.tools.StorageTool kafka.Kafka", None),
        ("python /v/bin/ottla topic create serve", None),
        ("python /v/bin/ottla -p serve topic list", None),
        ("python -c pass /v/bin/kafka-server-start.sh a.properties", None),
        ("vim /v/bin/kafka-server-start.sh a.properties", None),
        ("java kafka.Kafka a.properties", None),
        ("grep ottla serve", None),
        ("python", None),
        ("python -m", None),
        ("", None),
    ],
)
def test_a_node_is_recognized_by_its_command_line(line: str, given: object) -> None:
    assert words_of_node(line.split()) == given


def test_processes_are_read_with_directory_and_environment(tmp_path: Path) -> None:
    lines = {
        7: ["python", "-m", "ottla.cli", "serve"],
        8: ["sleep", "9"],
        9: ["python", "-m", "ottla.cluster.child", "x"],
        11: ["python", "-m", "ottla.cli", "start", "-n", "3"],  # its children are the nodes
        12: ["python", "-m", "ottla.cli", "serve", "a.properties", "--nodes", "auto"],  # likewise
    }
    for pid, words in lines.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes("".join(f"{word}\0" for word in words).encode())
    (tmp_path / "7" / "cwd").symlink_to("/somewhere")
    (tmp_path / "7" / "environ").write_bytes(b"KAFKA_NODE_ID=12\0LANG=C\0")
    (tmp_path / "10").mkdir()  # it has just exited
    (tmp_path / "self").mkdir()
    surroundings = ("/somewhere", {"KAFKA_NODE_ID": "12", "LANG": "C"})
    assert node_processes(tmp_path) == [
        NodeProcess(7, (), True, *surroundings),
        NodeProcess(9, ("x",), False, os.getcwd()),
    ]


def test_a_node_of_several_is_known_by_its_settings(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text(
        "process.roles=broker\nnode.id=1\nlisteners=PLAINTEXT://localhost:9092\n"
        "controller.listener.names=C\ncontroller.quorum.voters=9@localhost:9093\n"
    )
    words = ("--shared-log", "a.properties", "--override=node.id=1001", "--override=broker.id=1001")
    assert NodeProcess(7, words, False, str(tmp_path)).configuration().node_id == 1001


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--node-id", "one"], "Cannot parse argument 'one' of option node-id"),
        (["--node"], "node is not a recognized option"),
        (["all"], "all is not recognized. Nothing was stopped."),
    ],
)
def test_invalid_arguments_stop_no_node(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server_stop.main(arguments) == 1
    assert capsys.readouterr().err.startswith(told)


def is_served(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


@contextlib.contextmanager
def running(*words: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=output.parent
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_all_nodes_and_only_nodes_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def of_this_test() -> list[NodeProcess]:
        """Other nodes may run on this machine, too."""
        return [node for node in node_processes() if node.directory.startswith(str(tmp_path))]

    monkeypatch.setattr(server_stop, "node_processes", of_this_test)
    assert server_stop.main([]) == 1
    assert capsys.readouterr().out == "No kafka server to stop\n"
    ports = free_ports(3)
    (tmp_path / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=7\n"
        f"listeners=PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.voters=7@127.0.0.1:{ports[1]}\n"
        f"log.dirs={tmp_path / 'start'}\n"
    )
    properties = str(tmp_path / "server.properties")
    assert storage.main(["format", "-t", "b3R0bGEtcGVlcnMtY2x1cw", "-c", properties]) == 0
    with contextlib.ExitStack() as stack:

        def start(name: str, *words: str) -> subprocess.Popen[bytes]:
            return stack.enter_context(running(*words, output=tmp_path / f"{name}.out"))

        started = start("start", "-m", "ottla.tools.server_start", "server.properties")
        served = start("serve", "-m", "ottla.cli", "serve", "--data", "serve", "--port", str(ports[2]))
        cluster = start(
            "cluster", "-m", "ottla.cli", "cluster", "up", "--nodes", "1", "--port", "0", "--data", "cluster"
        )
        decoy = start("decoy", "-c", "import time; time.sleep(600)", "kafka-server-start.sh", properties)

        def is_up() -> bool:
            return b"is up" in (tmp_path / "cluster.out").read_bytes() and all(map(is_served, ports))

        wait_until(is_up, "three nodes to serve", seconds_max=SECONDS_MAX)
        capsys.readouterr()
        assert server_stop.main(["--process-role=controller"]) == 1
        assert server_stop.main(["--node-id=12345"]) == 1
        assert [started.poll(), served.poll(), cluster.poll()] == [None, None, None]
        assert server_stop.main(["--node-id=7", "--process-role=controller"]) == 0
        assert "the value for node-id will take precedence" in capsys.readouterr().out
        assert started.wait(SECONDS_MAX) == 0
        assert [served.poll(), cluster.poll()] == [None, None]
        monkeypatch.setenv("SIGNAL", "nothing")
        assert server_stop.main([]) == 1
        assert "Unknown signal nothing" in capsys.readouterr().err
        monkeypatch.delenv("SIGNAL")
        assert server_stop.main(["--process-role", "broker,controller"]) == 0
        # The supervisor does not restart stopped nodes, and exits with its last node.
        assert [served.wait(SECONDS_MAX), cluster.wait(SECONDS_MAX)] == [0, 0]
        assert "Node 1 was stopped. It stays down" in (tmp_path / "cluster.out").read_text()
        assert decoy.poll() is None
        assert server_stop.main([]) == 1
        decoy.send_signal(signal.SIGKILL)
