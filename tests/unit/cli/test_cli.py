"""The `ottla` command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla.cli.serve
from ottla.cli import main
from ottla.cli.app import command_of
from ottla.config import BrokerConfig
from ottla.records import KERNEL
from ottla.version import __version__


@pytest.mark.parametrize("arguments", [["--version"], ["-V"], ["--version", "config"]])
def test_version_names_python_and_the_kernel(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 0
    line = capsys.readouterr().out.strip()
    assert line.startswith(f"ottla {__version__} (Python {sys.version_info.major}.{sys.version_info.minor}.")
    assert line.endswith(f"records kernel: {KERNEL})")


def test_version_and_serve_load_neither_typer_nor_rich() -> None:
    code = (
        "import sys; from ottla.cli import main; main(['--version']); main(['serve', '--port', '-1']);"
        "sys.exit(any(name in sys.modules for name in ('typer', 'rich')))"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert result.returncode == 0


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "serve" in shown
    assert "config" in shown


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nope"]) == 2
    assert "nope" in capsys.readouterr().err


# serve --------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[BrokerConfig]:
    """The configurations that nodes were run with, from an empty working directory."""
    configs: list[BrokerConfig] = []

    def run(config: BrokerConfig) -> int:
        configs.append(config)
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ottla.cli.serve, "_run", run)
    return configs


def test_serve_without_a_file_runs_a_local_node(started: list[BrokerConfig], tmp_path: Path) -> None:
    assert main(["serve"]) == 0
    assert started[0].advertised_listeners[0].port == 9092
    assert started[0].advertised_listeners[0].host == "localhost"
    assert started[0].log_directories == (f"{tmp_path}/data",)
    assert started[0].auto_format


def test_serve_takes_data_port_and_overrides(
    started: list[BrokerConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "5")
    assert main(["serve", "--data", "/d", "--port", "0", "--override", "message.max.bytes=7"]) == 0
    assert started[0].log_directories == ("/d",)
    assert started[0].advertised_listeners[0].port == 0
    assert started[0]["message.max.bytes"] == 7
    assert started[0]["num.partitions"] == 5


def test_serve_with_a_file_uses_its_settings(started: list[BrokerConfig], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker\nnode.id=2\ncontroller.listener.names=C\ncontroller.quorum.voters=1@localhost:9093\n"
    )
    assert main(["serve", str(file), "--data", "/d"]) == 0
    assert started[0].node_id == 2
    assert started[0].log_directories == ("/d",)
    assert not started[0].auto_format


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--port", "70000"], 2, "--port 70000 is not a port"),
        (["/no/such/file"], 1, "/no/such/file cannot be read: No such file or directory."),
        (["--override", "x"], 2, "--override x is not in the form name=value."),
        (["--override", "num.partitions=0"], 1, "num.partitions=0 is not allowed. Value must be at least 1."),
        (["file", "--port", "1"], 2, "--port cannot be combined with a FILE"),
    ],
)
def test_serve_reports_errors(
    started: list[BrokerConfig],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    sentence: str,
) -> None:
    assert main(["serve", *arguments]) == code
    assert sentence in capsys.readouterr().err
    assert started == []


# config -------------------------------------------------------------------------------------------------


def test_settings_are_found_by_keyword(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "list", "retention", "deleted", "--for", "topic"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "retention.bytes", "retention.ms"]
    assert main(["config", "list", "no-such-word-at-all"]) == 1


def test_all_settings_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {entry["for"] for entry in listed} == {"broker", "topic", "group", "client-metrics"}
    assert len(listed) > 390


@pytest.mark.parametrize("command", ["show", "describe"])
def test_a_setting_is_shown_for_each_resource_type(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main(["config", command, "compression.type"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("Codec that batches are stored in") == 2
    assert main(["config", command, "compression.type", "--for", "topic", "--json"]) == 0
    assert [entry["for"] for entry in json.loads(capsys.readouterr().out)] == ["topic"]


def test_an_unknown_setting_suggests_similar_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "retention.m"]) == 1
    assert "Did you mean retention.ms" in capsys.readouterr().err


def test_check_validates_a_file_without_starting_a_node(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker\nnode.id=2\ncontroller.listener.names=C\n"
        "controller.quorum.voters=1@localhost:9093\nnum.partitons=2\n"
    )
    assert main(["config", "check", str(file)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{file} is valid: node 2, broker.\n"
    assert "Did you mean num.partitions?" in captured.err
    assert main(["config", "check", str(file), "--override", "num.partitions=0"]) == 1
    assert "num.partitions=0 is not allowed" in capsys.readouterr().err
    assert main(["config", "check", "/no/such/file"]) == 1


@pytest.mark.parametrize("noun", ["reassign", "topic", "cluster", "txn"])
def test_help_has_full_sentences_without_python_types(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, noun: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([noun, "--help"]) == 0
    verbs = capsys.readouterr().out
    assert "...\n" not in verbs.split("Commands:")[1]
    for verb in command_of(noun).commands:
        assert main([noun, verb, "--help"]) == 0
        shown = capsys.readouterr().out
        assert not re.search(r"<(int|str|float|list)", shown), shown
