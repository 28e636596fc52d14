"""kafka-server-start.sh: the configuration of the node, and errors."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.tools import server_start


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker\nnode.id=2\ncontroller.listener.names=C\ncontroller.quorum.voters=1@localhost:9093\n"
    )
    return path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[BrokerConfig]:
    """The configurations that nodes were run with."""
    configs: list[BrokerConfig] = []

    def run(config: BrokerConfig) -> int:
        configs.append(config)
        return 0

    monkeypatch.setattr(server_start, "_run", run)
    return configs


def test_the_node_gets_file_and_overrides(file: Path, started: list[BrokerConfig]) -> None:
    code = server_start.main([str(file), "--override", "num.partitions=3", "--override=broker.rack=a=b"])
    assert code == 0
    assert started[0]["num.partitions"] == 3
    assert started[0].rack == "a=b"
    assert started[0].node_id == 2


def test_relative_directories_become_absolute(
    file: Path, started: list[BrokerConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    server_start.main([str(file), "--override", "log.dirs=data"])
    assert started[0].log_directories == (f"{file.parent}/data",)


def test_no_arguments_show_the_usage(capsys: pytest.CaptureFixture[str], started: list[BrokerConfig]) -> None:
    assert server_start.main([]) == 1
    assert "[-daemon] server.properties [--override property=value]*" in capsys.readouterr().out
    assert started == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["extra"], "Found non argument parameters: extra"),
        (["--override"], "Found non argument parameters: --override"),
        (["--override", "novalue"], "--override novalue is not in the form name=value."),
        (["--override", "num.partitions=0"], "num.partitions=0 is not allowed. Value must be at least 1."),
    ],
)
def test_an_invalid_command_line_is_reported(
    file: Path,
    started: list[BrokerConfig],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    assert server_start.main([str(file), *arguments]) == 1
    assert sentence in capsys.readouterr().err
    assert started == []


def test_a_missing_file_is_reported(capsys: pytest.CaptureFixture[str], started: list[BrokerConfig]) -> None:
    assert server_start.main(["/no/such/file"]) == 1
    assert capsys.readouterr().err == (
        "The configuration file /no/such/file cannot be read: No such file or directory.\n"
    )


def test_version_and_help_start_nothing(
    capsys: pytest.CaptureFixture[str], started: list[BrokerConfig]
) -> None:
    assert server_start.main(["--version"]) == 0
    assert "Ottla" in capsys.readouterr().out
    assert server_start.main(["--help"]) == 0
    assert started == []


def test_a_daemon_runs_in_a_session_of_its_own_and_writes_to_a_file(
    file: Path, started: list[BrokerConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: calls.append((command, options)))
    monkeypatch.setenv("LOG_DIR", str(file.parent / "out"))
    assert server_start.main(["-daemon", str(file), "--override", "num.partitions=3"]) == 0
    command, options = calls[0]
    assert command[-3:] == [str(file), "--override", "num.partitions=3"]
    assert options["start_new_session"] is True
    assert (file.parent / "out" / "kafkaServer.out").exists()
    assert started == []
