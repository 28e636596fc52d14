"""Plain values skip pydantic and have the same result as in Typer."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from ottla.cli.fast_parsing import make_quick


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def outcome(arguments: list[str], *, quick: bool) -> tuple[str, Any]:
    """The values that a command with parameters of every kind receives, or its error."""
    app = typer.Typer()
    seen: list[dict[str, Any]] = []

    @app.command()
    def work(
        first: str,
        rest: Annotated[list[str] | None, typer.Argument()] = None,
        count: Annotated[int | None, typer.Option("--count")] = None,
        bounded: Annotated[int, typer.Option("--bounded", min=1, max=9)] = 5,
        ratio: Annotated[float, typer.Option("--ratio")] = 0.5,
        switch: Annotated[bool, typer.Option("--switch/--no-switch")] = False,
        many: Annotated[list[str] | None, typer.Option("--many")] = None,
        numbers: Annotated[list[int] | None, typer.Option("--number")] = None,
        colour: Annotated[Colour, typer.Option("--colour")] = Colour.RED,
        path: Annotated[Path | None, typer.Option("--path")] = None,
        upper: Annotated[str, typer.Option("--upper", parser=str.upper)] = "x",
    ) -> None:
        seen.append(dict(locals()))

    command = get_command(app)
    if quick:
        make_quick(command)
        make_quick(command)
    try:
        command.main(args=arguments, prog_name="x", standalone_mode=False)
    except typer.TyperException as error:
        return type(error).__name__, error.format_message()
    values = {name: value for name, value in seen[0].items() if name != "seen"}
    return "done", {name: (type(value).__name__, value) for name, value in values.items()}


@pytest.mark.parametrize(
    "arguments",
    [
        ["a"],
        ["a", "b", "c"],
        ["a", "--count", "3"],
        ["a", "--count", "-3"],
        ["a", "--count", "007"],
        ["a", "--count", "1_000"],
        ["a", "--count", " 5"],
        ["a", "--count", "٣"],
        ["a", "--count", "3.5"],
        ["a", "--count", "x"],
        ["a", "--count", ""],
        ["a", "--count", "9" * 30],
        ["a", "--bounded", "9"],
        ["a", "--bounded", "10"],
        ["a", "--ratio", "1e3"],
        ["a", "--ratio", "x"],
        ["a", "--switch"],
        ["a", "--no-switch"],
        ["a", "--many", "x", "--many", ""],
        ["a", "--number", "1", "--number", "x"],
        ["a", "--number", "1", "--number", "2"],
        ["a", "--colour", "blue"],
        ["a", "--colour", "green"],
        ["a", "--path", "/tmp"],
        ["a", "--upper", "abc"],
        ["", "--many", "-"],
        [],
        ["a", "--nope"],
        ["a", "--count"],
    ],
)
def test_the_fast_path_gives_the_same_results(arguments: list[str]) -> None:
    assert outcome(arguments, quick=True) == outcome(arguments, quick=False)


def test_a_command_with_plain_values_does_not_load_pydantic() -> None:
    code = (
        "import sys; from ottla.cli import main;"
        "main('topic create a b -n 3 -s x=y --dry-run -b 127.0.0.1:1 -o json'.split());"
        "sys.exit('pydantic' in sys.modules or 'rich' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "connection refused" in result.stderr
    assert result.returncode == 0
