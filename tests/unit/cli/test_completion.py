"""Tab completion, with a real bash and with the arguments of other shells."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli import main, profiles
from ottla.cli.completion import SCRIPTS, complete


def candidates(*words: str) -> list[str]:
    return [text for text, _ in complete(words)]


def test_nouns_verbs_and_flags_are_completed() -> None:
    assert "topic" in candidates("")
    assert candidates("to") == ["topic"]
    assert candidates("topic", "") == ["create", "list", "describe", "alter", "delete"]
    assert candidates("-o", "json", "topic", "-b", "h:1", "cr") == ["create"]
    assert candidates("topic", "create", "a", "--part") == ["--partitions"]
    assert "--partitions" not in candidates("topic", "create", "--partitions", "3", "--")
    assert "--set" in candidates("topic", "create", "--set", "a=b", "--")
    assert candidates("--boot") == ["--bootstrap-server"]
    assert candidates("serve", "--po") == ["--port"]
    assert candidates("nope", "") == []
    assert candidates("topic", "nope", "") == []


def test_values_are_completed_by_metavar() -> None:
    assert candidates("-o", "") == ["table", "wide", "json", "yaml"]
    assert candidates("topic", "list", "-o", "j") == ["json"]
    assert candidates("topic", "list", "--output=j") == ["--output=json"]
    assert candidates("config", "set", "to") == ["topic"]
    assert candidates("config", "set", "topic", "t", "retention.b") == [":nospace", "retention.bytes="]
    assert candidates("config", "unset", "topic", "t", "retention.m") == ["retention.ms"]
    assert candidates("config", "set", "user", "ann", "SCRAM-SHA-5") == [":nospace", "SCRAM-SHA-512="]
    assert candidates("topic", "create", "t", "--set", "retention.m") == [":nospace", "retention.ms="]
    assert candidates("topic", "alter", "t", "--unset", "retention.m") == ["retention.ms"]
    assert candidates("config", "list", "--for", "client") == ["client-metrics"]
    assert candidates("profile", "set", "p", "security.p") == [
        ":nospace",
        "security.protocol=",
        "security.providers=",
    ]
    assert candidates("cluster", "up", "--data", "") == [":dirs"]
    assert candidates("topic", "list", "--config", "") == [":files"]
    assert candidates("config", "check", "") == [":files"]
    assert candidates("completion", "") == ["bash", "zsh", "fish"]
    assert candidates("group", "list", "--state", "Sta") == ["Stable"]
    assert candidates("txn", "list", "--state", "On") == ["Ongoing"]


def test_profiles_are_completed(own_home: Path) -> None:
    profiles.set_settings(profiles.load(), "prod", {"bootstrap.servers": "h:1"})
    assert candidates("-p", "") == ["prod"]
    assert candidates("profile", "use", "p") == ["prod"]
    assert candidates("topic", "list", "--profile", "") == ["prod"]


def test_completion_survives_an_unreachable_cluster_quickly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["__complete", "zsh", "-b", "127.0.0.1:1", "topic", "describe", ""]) == 0
    assert main(["__complete", "zsh", "-p", "nope", "group", "describe", ""]) == 0
    assert main(["__complete", "bash"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_completion_times_out_on_a_silent_cluster() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = [sys.executable, "-m", "ottla.cli", "__complete", "fish", "-b"]
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = subprocess.run(
            [*command, address, "topic", "describe", ""], capture_output=True, timeout=120, check=False
        )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.fixture
def bash(tmp_path: Path, own_home: Path) -> Path:
    """A directory that contains only the command `ottla`, for the PATH of a shell."""
    command = tmp_path / "bin" / "ottla"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla.cli "$@"\n')
    command.chmod(0o755)
    return command.parent


def ask_bash(bin_directory: Path, own_home: Path, line: str) -> list[str]:
    """The candidates that bash offers for a line: runs the command's script as readline does."""
    shell = shutil.which("bash")
    assert shell is not None
    program = (
        'eval "$(ottla completion bash)"\n'
        'complete -p ottla | grep -q -- "-F _ottla" || exit 3\n'
        f"COMP_LINE={_quoted(line)}; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=(ottla); COMP_CWORD=1\n"
        '_ottla\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    result = subprocess.run(
        [shell, "--norc", "--noprofile", "-c", program],
        env={"PATH": f"{bin_directory}:/usr/bin:/bin", "XDG_CONFIG_HOME": str(own_home), "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout.split()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ottla top", ["topic"]),
        ("ottla topic de", ["describe", "delete"]),
        # bash splits --output=j at the = and completes the second part.
        ("ottla topic list --output=j", ["json"]),
        ("ottla -X 'client.id=a b' topic list -o y", ["yaml"]),
        ("ottla config set topic t retention.m", ["retention.ms="]),
        ("ottla config check ", []),
    ],
)
def test_a_real_bash_completes(bash: Path, own_home: Path, line: str, offered: list[str]) -> None:
    assert ask_bash(bash, own_home, line) == offered


def test_each_shell_has_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert capsys.readouterr().out == SCRIPTS[shell]
        assert "__complete" in SCRIPTS[shell]
