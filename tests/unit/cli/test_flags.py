"""The global flags: before the noun, between noun and verb, after the verb."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.main import get_command

from ottla.cli import main
from ottla.cli.app import NOUNS, command_of, nouns
from ottla.cli.errors import Misuse
from ottla.cli.flags import add_flags, take_flags
from ottla.cli.session import Flags, Session, session_of


def test_leading_flags_work_in_every_spelling() -> None:
    words = [
        "-b",
        "h:1",
        "--output=json",
        "-Xa=b",
        "-X",
        "c=d",
        "-pprod",
        "--config",
        "f",
        "topic",
        "-b",
        "x",
    ]
    flags, rest = take_flags(words)
    assert flags == Flags(
        profile="prod", bootstrap_server="h:1", output="json", properties=("a=b", "c=d"), config="f"
    )
    assert rest == ["topic", "-b", "x"]
    with pytest.raises(Misuse, match="-o needs a value"):
        take_flags(["-o"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["-o", "json", "config", "explain", "retention.ms"],
        ["config", "-o", "json", "explain", "retention.ms"],
        ["config", "explain", "-o", "json", "retention.ms"],
        ["config", "explain", "retention.ms", "--output=json"],
        ["-o", "yaml", "config", "explain", "retention.ms", "-o", "json"],
    ],
)
def test_a_flag_works_in_any_position_and_the_last_one_wins(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("[")


def test_a_flag_of_the_command_itself_wins() -> None:
    app = typer.Typer()
    seen: list[tuple[str | None, Flags]] = []

    @app.command()
    def consume(
        context: typer.Context, offset: Annotated[str | None, typer.Option("-o", "--offset")] = None
    ) -> None:
        seen.append((offset, session_of(context).flags))

    add_flags(app)
    command = get_command(app)

    def run(*arguments: str) -> tuple[str | None, Flags]:
        session = Session(Flags(output="wide"))
        command.main(args=list(arguments), prog_name="x", standalone_mode=False, obj=session)
        return seen.pop()

    assert run("-o", "-100") == ("-100", Flags(output="wide"))
    assert run("-o", "5", "--output", "json") == ("5", Flags(output="json"))
    assert run("-X", "a=1", "-X", "b=2", "-b", "h:1") == (
        None,
        Flags(output="wide", bootstrap_server="h:1", properties=("a=1", "b=2")),
    )


def test_a_command_without_a_context_gets_the_flags_too() -> None:
    app = typer.Typer()
    seen: list[int] = []

    @app.command()
    def plain(count: int = 1) -> None:
        seen.append(count)

    add_flags(app)
    add_flags(app)
    get_command(app).main(
        args=["--count", "3", "-b", "h:1"], prog_name="x", standalone_mode=False, obj=Session()
    )
    assert seen == [3]


@pytest.mark.parametrize("noun", [noun for noun in nouns() if noun != "serve"])
def test_every_command_has_help_and_the_global_flags(noun: str) -> None:
    assert noun in NOUNS
    leaves = [command_of(noun)]
    while any(hasattr(one, "commands") for one in leaves):
        leaves = [
            deeper
            for one in leaves
            for deeper in (one.commands.values() if hasattr(one, "commands") else [one])
        ]
    for leaf in leaves:
        spellings = {spelling for one in leaf.params for spelling in one.opts}
        assert {"--profile", "--bootstrap-server", "--output"} <= spellings, leaf.name
        assert leaf.help, leaf.name


def test_help_works_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["-h"], ["help"], []):
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        assert "topic       Create, list" in shown
        assert "-p, --profile PROFILE" in shown
    for arguments in (["topic"], ["topic", "--help"], ["help", "topic"], ["topic", "-h"]):
        assert main(arguments) == 0
        assert "describe" in capsys.readouterr().out
    assert main(["topic", "create", "-h"]) == 0
    assert "--replication-factor" in capsys.readouterr().out
