"""Tools whose command line has subcommands: `kafka-cluster cluster-id --bootstrap-server ...`.

A bad command line ends with the usage, one line and exit code 1, as with Kafka's tools.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from ottla.tools.running import finish

_REQUIRED = "the following arguments are required: "


class SubcommandParser(argparse.ArgumentParser):
    """A parser that ends with exit code 1."""

    def error(self, message: str) -> NoReturn:
        if message.startswith(_REQUIRED):
            message = f"argument {message.removeprefix(_REQUIRED).split(', ')[-1]} is required"
        self.print_usage(sys.stderr)
        print(f"{self.prog.split()[0]}: error: {message}", file=sys.stderr)
        raise SystemExit(1)


def run(
    parser: SubcommandParser,
    commands: Mapping[str, Callable[[argparse.Namespace], int]],
    arguments: Sequence[str] | None,
) -> int:
    """Read the command line (`command` is the subcommand's name), do the work; the exit code."""

    def work() -> int:
        options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
        if options.command is None:
            parser.error("too few arguments")
        return commands[options.command](options)

    return finish(work)
