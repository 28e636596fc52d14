"""`ottla bench` on Kafka and on Ottla, and `ottla start` as a person starts it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.client.admin import Admin
from tests.interop import peers
from tests.interop.cli.conftest import Run

SECONDS_MAX = 120.0


def test_a_cluster_is_measured_and_left_as_it_was(ottla: Run, broker: peers.BrokerProcess) -> None:
    ran = ottla("bench", "--seconds", "0.4", "-o", "json", "--compare", broker.bootstrap)

    assert ran.code == 0, ran.err
    found = json.loads(ran.text)
    assert [row["part"] for row in found["results"]] == [
        part for part in ("produce", "consume", "latency") for _ in range(2)
    ]
    assert all(row["records"] > 0 for row in found["results"])
    assert all(row["p50_ms"] <= row["p99_ms"] for row in found["results"] if row["part"] != "consume")
    assert [one["part"] for one in found["ratios"]] == ["produce", "consume", "latency"]
    with Admin(broker.bootstrap) as admin:

        def is_gone() -> bool:
            return not any(name.startswith("ottla-bench") for name in admin.list_topics())

        peers.wait_until(is_gone, 60, lambda: f"topics are left: {list(admin.list_topics())}")


def test_one_part_is_measured_as_a_table(ottla: Run) -> None:
    ran = ottla("bench", "latency", "--seconds", "0.3", "--size", "10", "-a", "1")

    assert ran.code == 0, ran.err
    assert ran.text.splitlines()[1].split()[:2] == ["PART", "RECORDS"]
    assert ran.text.splitlines()[2].startswith("latency")


@pytest.mark.parametrize("nodes", [1, 2])
def test_start_says_when_it_is_ready_and_how_to_connect(
    nodes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(peers.ROOT / "src")
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": "1"}
    data = str(tmp_path / "data")
    for _ in range(2 if nodes == 1 else 1):  # the second time on the same data
        process = peers.start_process(
            [
                sys.executable,
                "-m",
                "ottla.cli",
                "start",
                "--nodes",
                str(nodes),
                "--data",
                data,
                "--port",
                "0",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            shown = shown_until(process, "Press Ctrl-C to stop.")
            servers = shown.partition("Clients connect to")[2].split()[0]
            assert len(servers.split(",")) == nodes
            assert f"OTTLA_BOOTSTRAP_SERVERS={servers.split(',')[0]}" in shown
            assert main(["topic", "list", "-b", servers]) == 0, capsys.readouterr().err
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS_MAX) == 0
        finally:
            peers.end_process(process)
            assert process.stdout is not None
            process.stdout.close()


def shown_until(process: subprocess.Popen[bytes], words: str) -> str:
    """The output of a process up to these words."""
    shown = b""
    assert process.stdout is not None
    until = time.monotonic() + SECONDS_MAX
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while words.encode() not in shown:
            assert selector.select(max(until - time.monotonic(), 0)), f"not shown in time: {shown!r}"
            piece = os.read(process.stdout.fileno(), 65536)
            assert piece, f"it ended: {shown!r}"
            shown += piece
    return shown.decode()
