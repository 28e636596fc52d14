"""Errors of commands: one line, the right exit code, no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from ottla.cli import main
from ottla.cli.errors import Misuse, Problem, finish, near_names, unknown
from ottla.cli.session import Session
from ottla.client.errors import AuthenticationFailed, ClientError, TimedOut
from ottla.wire.errors import NonEmptyGroup, TopicAlreadyExists, UnknownTopicOrPartition


def ended(capsys: pytest.CaptureFixture[str], error: BaseException) -> tuple[int, str]:
    def work() -> int:
        raise error

    code = finish(work, servers=lambda: "h:1")
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (Problem("It is so. Do that."), 1, "ottla: It is so. Do that."),
        (Misuse("Say it."), 2, "ottla: Say it."),
        (
            TopicAlreadyExists("Topic 'a' already exists."),
            1,
            "already exists. Change it with: ottla topic alter",
        ),
        (
            UnknownTopicOrPartition(),
            1,
            "ottla: Unknown topic or partition. List topics with: ottla topic list",
        ),
        (NonEmptyGroup("Not\nempty"), 1, "ottla: Not empty. Stop its members first"),
        (
            TimedOut("No answer"),
            1,
            "No answer. Tried h:1; use -b HOST:PORT for another cluster.",
        ),
        (AuthenticationFailed("Refused"), 1, "Refused. Check the sasl settings"),
        (ClientError("Odd"), 1, "ottla: Odd."),
        (FileNotFoundError(2, "No such file", "x.toml"), 1, "Cannot use x.toml: No such file."),
        (KeyError("inner"), 1, "Bug in Ottla: KeyError: 'inner'. Please report it"),
        (typer.Abort(), 1, "Aborted; nothing was changed."),
        (typer.BadParameter("No good"), 2, "ottla: Invalid value: No good."),
    ],
)
def test_an_error_is_one_line_with_cause_and_remedy(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, line: str
) -> None:
    ended_with, text = ended(capsys, error)
    assert ended_with == code
    assert line in text
    assert text.count("\n") == 1


def test_ctrl_c_and_exits_keep_their_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(capsys, KeyboardInterrupt()) == (130, "\n")
    assert ended(capsys, SystemExit(3)) == (3, "")
    assert ended(capsys, SystemExit()) == (0, "")


def test_the_traceback_is_available_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> int:
        raise KeyError("inner")

    monkeypatch.setenv("OTTLA_DEBUG", "1")
    with pytest.raises(KeyError):
        finish(work)


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    command = f"{sys.executable} -m ottla.cli config list 2>&1 >&3 | cat >&2"
    # The reader of the table closes the pipe after one line.
    result = subprocess.run(
        ["bash", "-c", f"{{ {command}; }} 3>&1 | head -n 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.stdout.startswith("NAME")
    assert result.stderr == ""


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_connection_error_names_the_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    def silent(self: Session) -> None:
        raise TimedOut("No answer")

    monkeypatch.setattr(Session, "check_reachable", silent)
    words = ["topic", "list"]
    assert main([*words[:place], "-b", "h:7", *words[place:]]) == 1
    assert "Tried h:7;" in capsys.readouterr().err


def test_suggested_names_are_few_and_similar() -> None:
    assert near_names("ordres", ["orders", "payments"]) == "Did you mean orders?"
    assert near_names("ORDERS", ["orders"]) == "Did you mean orders?"
    assert near_names("zzz", ["orders"]) == ""
    assert str(unknown("topic", "zzz", ["a"], cure="List them.")) == "There is no topic zzz. List them."


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["topc", "list"], 2, "Unknown command topc. Did you mean topic?"),
        (["topic", "lst"], 2, "No such command 'lst'."),
        (["topic", "describe"], 2, "Missing argument 'TOPIC'. Try: ottla topic describe --help"),
        (["topic", "list", "--nope"], 2, "No such option: --nope"),
        (["-q", "topic"], 2, "Unknown flag -q before the command."),
        (["-b"], 2, "-b needs a value: -b HOST:PORT"),
        (
            ["topic", "list", "-b", "127.0.0.1:1"],
            1,
            "No broker is reachable (127.0.0.1:1: connection refused",
        ),
        (["topic", "list", "-b", "h"], 1, "h"),
        (["topic", "create", "a", "-s", "x"], 2, "--set x is not in the form name=value."),
        (["topic", "create", "a", "--retention", "soon"], 2, "--retention soon is not a duration"),
        (["topic", "create", "a", "--replicas", "1:x"], 2, "Use the form 1:2,2:3"),
        (["topic", "alter", "a"], 2, "Specify a change"),
        (["group", "reset", "g", "--topic", "t"], 2, "Specify exactly one of"),
        (["group", "reset", "g", "--to", "earliest"], 2, "Specify partitions with"),
        (["group", "reset", "g", "--topic", "t", "--to", "noon"], 2, "--to noon is not a time"),
        (["config", "get", "tpic", "a", "b"], 2, "Unknown kind of settings tpic. Did you mean topic?"),
        (["config", "describe", "topic"], 2, "Specify a name"),
        (
            ["config", "set", "topic", "a", "--client", "c", "b=1"],
            2,
            "--client requires a user",
        ),
        (["txn", "abort"], 2, "Specify a transactional id"),
        (["txn", "list", "--state", "odd"], 2, "Unknown state odd. Use one of Ongoing"),
        (["completion", "tcsh"], 2, "Unknown shell tcsh."),
        (["-p", "nope", "topic", "list"], 1, "There is no profile nope."),
    ],
)
def test_a_usage_error_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, line: str
) -> None:
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert line in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
