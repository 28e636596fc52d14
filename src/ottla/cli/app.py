"""The nouns of `ottla`, looked up by name and imported only when used.

A noun is a module with `app`, a Typer app; its verbs take `context: typer.Context` and get the session of the
call from `session_of(context)`. The flags of `flags.py` are added to each verb here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import Misuse, finish, near_names

if TYPE_CHECKING:
    from ottla.cli.session import Session

# Noun -> its purpose. Nouns whose module is not installed are missing.
NOUNS: dict[str, str] = {
    "start": "Start a node or a cluster and show how to connect.",
    "topic": "Create, list, describe, alter and delete topics.",
    "record": "Produce and consume records.",
    "group": "List, describe, reset and delete groups.",
    "config": "Read, change and explain settings.",
    "txn": "List, describe and abort transactions.",
    "cluster": "Describe a cluster, or run one on this machine.",
    "quorum": "Show the controller quorum and its lag.",
    "reassign": "Move replicas between brokers.",
    "log": "Inspect and verify log files.",
    "doctor": "Diagnose a cluster and suggest fixes.",
    "pipeline": "Run data pipelines on Spark.",
    "bench": "Benchmark a cluster.",
    "serve": "Run a node.",
    "profile": "Manage connection profiles.",
    "completion": "Print a shell completion script.",
}

_HELP_WIDTH = 110

_EXAMPLES = """\
Examples:
  ottla start                                     run a node on this machine
  ottla topic create orders --partitions 3
  ottla topic describe orders -o json
  ottla -p prod group describe billing            use the cluster of a profile"""


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    from ottla.cli.session import Session

    session = Session()

    def work() -> int:
        from ottla.cli.flags import take_flags

        flags, rest = take_flags(list(arguments))
        session.put_on_top(flags)
        if not rest or rest[0] in ("--help", "-h", "help"):
            return _help(rest)
        if rest[0] in ("--version", "-V"):
            from ottla.cli import version_line

            print(version_line())
            return 0
        return _run_noun(rest[0], rest[1:], session)

    return finish(work, servers=lambda: session.bootstrap_servers)


def nouns() -> list[str]:
    """The names of the installed nouns."""
    return [name for name in NOUNS if find_spec(f"ottla.cli.{name}") is not None]


def command_of(noun: str) -> Any:
    """The command of a noun, including the global flags."""
    from typer.main import get_command

    from ottla.cli.fast_parsing import make_quick
    from ottla.cli.flags import add_flags

    app = import_module(f"ottla.cli.{noun}").app
    add_flags(app)
    command = get_command(app)
    command.name = noun
    # Typer's own installation of completions knows neither nouns nor topics.
    command.params = [one for one in command.params if not str(one.name).endswith("_completion")]
    _set_plain_help(command)
    make_quick(command)
    return command


def _set_plain_help(command: Any) -> None:
    """Print help as plain columns: boxes leave too little room for text on an 80-column terminal."""
    command.rich_markup_mode = None
    # Click would truncate it at the width of the terminal, in the middle of a sentence.
    command.short_help = _first_sentence(command.help or "")
    for one in command.params:
        if one.param_type_name == "argument":
            one.display_type_rich = _no_type
    for one in getattr(command, "commands", {}).values():
        _set_plain_help(one)


def _no_type(**_: object) -> str:
    """Suppress the Python type names that Typer prints after arguments."""
    return ""


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.split(". ")[0].removesuffix(".") + "."


def _run_noun(noun: str, rest: list[str], session: Session) -> int:
    from ottla.cli.flags import take_flags

    if noun.startswith("-"):
        raise Misuse(f"Unknown flag {noun} before the command. Try: ottla --help")
    if noun not in NOUNS or find_spec(f"ottla.cli.{noun}") is None:
        hint = near_names(noun, nouns()) or "Try: ottla --help"
        raise Misuse(f"Unknown command {noun}. {hint}")
    if noun == "serve":
        from ottla.cli.serve import main

        return main(rest)
    command = command_of(noun)
    if hasattr(command, "commands"):
        between, rest = take_flags(rest)
        session.put_on_top(between)
        if not rest:
            rest = ["--help"]
    code = command.main(
        args=rest,
        prog_name=f"ottla {noun}",
        standalone_mode=False,
        obj=session,
        help_option_names=["-h", "--help"],
        max_content_width=_HELP_WIDTH,
    )
    return code if isinstance(code, int) else 0


def _help(rest: list[str]) -> int:
    if rest[:1] == ["help"] and len(rest) > 1:
        return run([*rest[1:], "--help"])
    from ottla.cli.flags import GLOBAL_FLAGS

    there = nouns()
    lines = ["Usage: ottla [FLAGS] COMMAND [VERB] ...", ""]
    lines += ["Ottla: an event streaming platform that speaks Apache Kafka.", "", "Commands:"]
    lines += [f"  {name:<12}{NOUNS[name]}" for name in there]
    lines += ["", "Global flags, before or after the command:"]
    for spellings, metavar, text in GLOBAL_FLAGS.values():
        lines.append(f"  {', '.join(spellings) + ' ' + metavar:<34}{text}")
    lines.append(f"  {'-V, --version':<34}Show the version.")
    lines.append(f"  {'-h, --help':<34}Show this help, or the help of a command.")
    lines += ["", _EXAMPLES]
    print("\n".join(lines), file=sys.stdout)
    return 0
