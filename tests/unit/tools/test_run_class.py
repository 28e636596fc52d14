"""`kafka-run-class`, and that every command is installed and documented under its names."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from tests.unit.server.nodes import wait_until

from ottla.tools import preferred_replica_election, run_class
from ottla.tools.commands import COMMANDS, GONE, GONE_SCRIPTS, Command, by_class

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_is_installed_and_documented_under_its_names(command: Command) -> None:
    assert callable(import_module(f"ottla.tools.{command.module}").main)
    for name in (command.name, f"{command.name}.sh"):
        assert SCRIPTS[name] == f"ottla.tools.{command.module}:main"
    (row,) = [
        line
        for line in (ROOT / "docs" / "tools.md").read_text().splitlines()
        if f"| `{command.name}` |" in line
    ]
    assert all(f"`{name}`" in row for name in command.classes)


def test_every_script_is_a_known_command() -> None:
    known = {name for command in COMMANDS for name in (command.name, f"{command.name}.sh")}
    known |= {name for script in GONE_SCRIPTS for name in (script, f"{script}.sh")}
    assert set(SCRIPTS) - known == {"ottla"}


def test_a_class_maps_to_one_command() -> None:
    classes = [name for command in COMMANDS for name in command.classes]
    assert len(classes) == len(set(classes)) == len(by_class())
    assert not set(GONE) & set(classes)


@pytest.mark.parametrize("name", ["kafka.tools.StorageTool", "org.apache.kafka.tools.StorageTool"])
def test_arguments_go_to_the_tool(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_class.main(["-name", "x", "-loggc", "-Dlog4j.level=INFO", name, "random-uuid"]) == 0
    assert len(capsys.readouterr().out.strip()) == 22


def test_a_daemon_writes_to_the_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    assert run_class.main(["-daemon", "-name", "ids", "kafka.tools.StorageTool", "random-uuid"]) == 0
    written = tmp_path / "logs" / "ids.out"
    wait_until(lambda: len(written.read_text().strip()) == 22, "the tool to print an id", seconds_max=120)


def test_the_exit_code_is_the_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_class.main(["kafka.tools.GetOffsetShell", "--topic", "t"]) == 1
    assert "bootstrap-server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("kafka.tools.GetOfsetShell", "Nearest is org.apache.kafka.tools.GetOffsetShell"),
        ("kafka.tools.TopicCommand", "Nearest is org.apache.kafka.tools.TopicCommand"),
        ("com.example.Mine", "Known are AclCommand, BrokerApiVersionsCommand, "),
        ("", "Known are AclCommand"),
    ],
)
def test_an_unknown_class_is_reported_as_in_java(
    name: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_class.main([name]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"Error: Could not find or load main class {name}")
    assert told in printed
    assert len(printed.splitlines()) == 1


@pytest.mark.parametrize("name", GONE)
def test_a_removed_class_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_class.main([name, "--zookeeper", "localhost:2181"]) == 1
    assert capsys.readouterr().err == f"{GONE[name]}\n"


def test_an_old_script_names_its_replacement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for script, name in GONE_SCRIPTS.items():
        assert SCRIPTS[script] == SCRIPTS[f"{script}.sh"] == "ottla.tools.run_class:gone"
        monkeypatch.setattr(sys, "argv", [f"/usr/bin/{script}.sh"])
        assert run_class.gone() == 1
        assert capsys.readouterr().err == f"{GONE[name]}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-daemon"], ["-name"], ["-loggc"]])
def test_without_a_class_the_usage_is_shown(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_class.main(arguments) == 1
    printed = capsys.readouterr()
    assert "[-daemon] [-name servicename] [-loggc] classname [opts]" in printed.out + printed.err


def test_the_old_election_refuses_zookeeper_and_wants_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    assert preferred_replica_election.main(["--zookeeper", "localhost:2181"]) == 1
    assert capsys.readouterr().err.startswith("zookeeper is not a recognized option: ZooKeeper")
    assert preferred_replica_election.main(["--path-to-json-file", "x"]) == 1
    assert 'Missing required argument "[bootstrap-server]"' in capsys.readouterr().err
