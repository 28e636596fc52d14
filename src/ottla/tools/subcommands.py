"""Tools whose command line has subcommands: `kafka-cluster cluster-id --bootstrap-server ...`.

A bad command line ends with the usage, one line and exit code 1, as with Kafka's tools.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from ottla.tools.entry_point import finish

_REQUIRED = "the following arguments are required: "
_COMMAND = re.compile(r"^argument (command|\{.*?\}): ")


class SubcommandParser(argparse.ArgumentParser):
    """A parser that exits with code 1 on errors."""

    _commands: argparse._SubParsersAction[SubcommandParser] | None = None

    def add_commands(self, shown_as: str | None = None) -> argparse._SubParsersAction[SubcommandParser]:
        """Add subcommands to it; `command` has the name of the chosen one."""
        self._commands = self.add_subparsers(dest="command", metavar=shown_as)
        return self._commands

    def parse_command(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a command line with a required subcommand."""
        options, rest = self.parse_known_args(arguments)
        if options.command is None or self._commands is None:
            self.error("too few arguments")
        if rest:
            self._commands.choices[options.command].error(f"unrecognized arguments: '{' '.join(rest)}'")
        return options

    def error(self, message: str) -> NoReturn:
        if message.startswith(_REQUIRED):
            message = f"argument {message.removeprefix(_REQUIRED).split(', ')[-1]} is required"
        self.print_usage(sys.stderr)
        print(f"{self.prog.split()[0]}: error: {_COMMAND.sub('', message)}", file=sys.stderr)
        raise SystemExit(1)


def run(
    parser: SubcommandParser,
    commands: Mapping[str, Callable[[argparse.Namespace], int]],
    arguments: Sequence[str] | None,
) -> int:
    """Parse the command line and run the tool; return the exit code."""

    def work() -> int:
        options = parser.parse_command(sys.argv[1:] if arguments is None else arguments)
        return commands[options.command](options)

    return finish(work)
