"""The `ottla` command. `ottla --help` lists its subcommands.

`serve` and `--version` bypass Typer and rich: a node should answer before those are imported.

app.py          parses the flags before the noun, imports the noun's module, and lets Typer parse the rest
flags.py        adds the common flags to every verb, except where a verb uses their letters itself
session.py      resolves flags over environment and profile (profiles.py) on first use, and opens the admin
output.py       prints rows of plain values as a table, JSON or YAML
errors.py       `finish` turns every exception into one line and an exit code
completion.py   completes commands; a metavar (TOPIC, GROUP, CONFIG) says which values to offer
records/        `ottla record`: formats, JSON lines, positions and values are pure; consumption and production
                use the client
checks/         `ottla doctor`: `connections.py` connects to each address, `health.py` asks the admin
logs/           `ottla log`: reads files and asks no broker
reassignment/   `ottla reassign`: `planner.py` and `progress.py` are pure
benchmarks.py   `ottla bench`
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
