"""The `ottla` command. `ottla --help` lists its subcommands.

`serve` and `--version` bypass Typer and rich, whose imports would delay the start of a node.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["serve"]:
        from ottla.cli.serve import main as serve

        return serve(given[1:])
    if given[:1] == ["__complete"]:
        from ottla.cli.completion import main as complete

        return complete(given[1:])
    if given in (["--version"], ["-V"]):
        print(version_line())
        return 0
    from ottla.cli.app import run

    return run(given)


def version_line() -> str:
    """The version of Ottla, the version of Python, and the records kernel in use."""
    import platform

    from ottla.records import KERNEL
    from ottla.version import __version__

    return f"ottla {__version__} (Python {platform.python_version()}, records kernel: {KERNEL})"
