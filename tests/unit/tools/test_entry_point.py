"""Errors and exit codes of the tools: one line for the user, no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run
from ottla.version import __version__
from ottla.wire.errors import UnknownTopicOrPartition


def ended(error: BaseException | None, words: list[str]) -> int:
    parser = OptionParser("kafka-thing", "Does a thing.")
    parser.flag("go", text="Go.")

    def work(_options: Options) -> int:
        if error is not None:
            raise error
        print("done")
        return 7

    return run(parser, work, words)


def test_the_exit_code_is_that_of_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(None, ["--go"]) == 7
    assert capsys.readouterr().out == "done\n"


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(None, ["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Failure("There is no such thing."), "There is no such thing."),
        (UnknownTopicOrPartition("No topic a."), "No topic a."),
        (FileNotFoundError(2, "No such file or directory", "/a"), "/a: No such file or directory"),
    ],
)
def test_a_failure_is_one_line(error: BaseException, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(error, ["--go"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"{line}\n")


def test_ctrl_c_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(KeyboardInterrupt(), ["--go"]) == 130
    assert capsys.readouterr().err == ""


def test_a_usage_error_prints_its_message_and_help_prints_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(None, ["--stay"]) == 1
    assert capsys.readouterr().err == "stay is not a recognized option\n"
    assert ended(None, []) == 1
    assert "--go" in capsys.readouterr().err


def test_a_closed_pipe_ends_a_tool_quietly() -> None:
    """As with `kafka-dump-log ... | head`: the reader exits after the first line."""
    program = (
        "import sys\n"
        "from ottla.tools.arguments import OptionParser\n"
        "from ottla.tools.entry_point import run\n"
        "def work(options):\n    for number in range(200_000): print(number)\n    return 0\n"
        "parser = OptionParser('x', 'x'); parser.flag('go', text='')\n"
        "sys.exit(run(parser, work, ['--go']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1
