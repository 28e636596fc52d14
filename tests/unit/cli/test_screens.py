"""The screens in docs/cli exist, and contain only commands and flags that exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.app import NOUNS, command_of

ROOT = Path(__file__).resolve().parents[3]
SCREENS = ROOT / "docs" / "cli"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("screens", SCREENS / "screens.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


def typed() -> list[str]:
    """Every `ottla` command line in the screens and in the script that creates them."""
    found = [
        line[2:]
        for path in sorted(SCREENS.glob("*.txt"))
        for line in path.read_text().splitlines()
        if line.startswith("$ ottla ")
    ]
    for screen in script().SCREENS:
        lines = [*screen.commands, *screen.before, screen.meanwhile or ""]
        found += [
            part.strip() for line in lines for part in line.split("|") if part.strip().startswith("ottla ")
        ]
    return sorted(set(found))


MISTAKES = ("ottla topc list", "ottla -b localhost:1")


@pytest.mark.parametrize("line", [one for one in typed() if not one.startswith(MISTAKES)])
def test_commands_in_screens_exist(line: str) -> None:
    words = shlex.split(line.partition(">")[0])[1:]
    noun, rest = words[0], words[1:]
    assert noun in NOUNS
    command = command_of(noun)
    if hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    flags = [word.partition("=")[0] for word in rest if re.fullmatch(r"-[a-zA-Z]|--[a-z-]+(=.*)?", word)]
    assert set(flags) <= known


def test_every_screen_is_saved_and_referenced() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    names = {screen.name for screen in script().SCREENS} | {"start"}

    assert {path.stem for path in SCREENS.glob("*.txt")} == names
    for name in names:
        assert f"(cli/{name}.txt)" in page
    for screen in script().SCREENS:
        assert (SCREENS / f"{screen.name}.txt").read_text().startswith(f"$ {screen.commands[0]}\n"[:100])
        assert (SCREENS / f"{screen.name}.svg").exists() == screen.has_picture
