"""How commands end: one line, the right code, no traceback."""

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
        (TopicAlreadyExists("Topic 'a' already exists."), 1, "already exists. ottla topic alter changes it."),
        (
            UnknownTopicOrPartition(),
            1,
            "ottla: Unknown topic or partition. ottla topic list shows the topics.",
        ),
        (NonEmptyGroup("Not\nempty"), 1, "ottla: Not empty. Stop its members first"),
        (
            TimedOut("No answer"),
            1,
            "No answer. The cluster was looked for at h:1; -b HOST:PORT names another.",
        ),
        (AuthenticationFailed("Refused"), 1, "Refused. Check the sasl settings"),
        (ClientError("Odd"), 1, "ottla: Odd."),
        (FileNotFoundError(2, "No such file", "x.toml"), 1, "x.toml cannot be used: No such file."),
        (KeyError("inner"), 1, "This is a fault in Ottla: KeyError: 'inner'. OTTLA_DEBUG=1 shows where"),
        (typer.Abort(), 1, "Nothing was done."),
        (typer.BadParameter("No good"), 2, "ottla: Invalid value: No good."),
    ],
)
def test_an_error_is_one_line_with_cause_and_cure(
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


def test_the_traceback_is_there_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> int:
        raise KeyError("inner")

    monkeypatch.setenv("OTTLA_DEBUG", "1")
    with pytest.raises(KeyError):
        finish(work)


def test_a_reader_that_leaves_ends_the_command_quietly() -> None:
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
def test_an_error_of_the_connection_names_the_cluster_that_was_meant(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    def silent(self: Session) -> None:
        raise TimedOut("No answer")

    monkeypatch.setattr(Session, "check_reachable", silent)
    words = ["topic", "list"]
    assert main([*words[:place], "-b", "h:7", *words[place:]]) == 1
    assert "looked for at h:7;" in capsys.readouterr().err


def test_near_names_are_few_and_near() -> None:
    assert near_names("ordres", ["orders", "payments"]) == "Did you mean orders?"
    assert near_names("ORDERS", ["orders"]) == "Did you mean orders?"
    assert near_names("zzz", ["orders"]) == ""
    assert str(unknown("topic", "zzz", ["a"], cure="List them.")) == "There is no topic zzz. List them."


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["topc", "list"], 2, "There is no command topc. Did you mean topic?"),
        (["topic", "lst"], 2, "No such command 'lst'."),
        (["topic", "describe"], 2, "Missing argument 'TOPIC'. Try: ottla topic describe --help"),
        (["topic", "list", "--nope"], 2, "No such option: --nope"),
        (["-q", "topic"], 2, "There is no flag -q before a command."),
        (["-b"], 2, "-b needs a value: -b HOST:PORT"),
        (["topic", "list", "-b", "127.0.0.1:1"], 1, "No broker can be reached (127.0.0.1:1: nothing listens"),
        (["topic", "list", "-b", "h"], 1, "h"),
        (["topic", "create", "a", "-s", "x"], 2, "--set x is not of the form name=value."),
        (["topic", "create", "a", "--retention", "soon"], 2, "--retention soon is no length of time"),
        (["topic", "create", "a", "--replicas", "1:x"], 2, "is not of the form 1:2,2:3"),
        (["topic", "alter", "a"], 2, "Say what to change"),
        (["group", "reset", "g", "--topic", "t"], 2, "Say where to, in one way"),
        (["group", "reset", "g", "--to", "earliest"], 2, "Say which partitions"),
        (["group", "reset", "g", "--topic", "t", "--to", "noon"], 2, "--to noon is no time"),
        (["config", "get", "tpic", "a", "b"], 2, "There are no settings of tpic. Did you mean topic?"),
        (["config", "describe", "topic"], 2, "Say whose settings"),
        (
            ["config", "set", "topic", "a", "--client", "c", "b=1"],
            2,
            "--client goes with the settings of a user",
        ),
        (["txn", "abort"], 2, "Say what to abort"),
        (["txn", "list", "--state", "odd"], 2, "There is no state odd. Take one of Ongoing"),
        (["completion", "tcsh"], 2, "There is no completion for tcsh."),
        (["-p", "nope", "topic", "list"], 1, "There is no profile nope."),
    ],
)
def test_bad_use_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, line: str
) -> None:
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert line in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
