"""`kafka-run-class.sh [-daemon] [-name NAME] [-loggc] CLASS ...`: runs a tool by the name of its Java class.

It accepts the names of all versions. A class without a tool here yields one line with an alternative or the
nearest name.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ottla.operations.failure import Failure
from ottla.tools.commands import GONE, GONE_SCRIPTS, by_class
from ottla.tools.entry_point import finish

_USAGE = "USAGE: {} [-daemon] [-name servicename] [-loggc] classname [opts]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return finish(lambda: _work(list(sys.argv[1:] if arguments is None else arguments)))


def gone(arguments: Sequence[str] | None = None) -> int:
    """Handle an old script: print its replacement. Its own name says which script it is."""
    name = os.path.basename(sys.argv[0]).removesuffix(".sh")
    print(GONE[GONE_SCRIPTS[name]], file=sys.stderr)
    return 1


def _work(words: list[str]) -> int:
    is_daemon, service = False, ""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-daemon":
            is_daemon = True
        elif option == "-name" and words:
            service = words.pop(0)
        elif option == "--help":
            words = []
        elif option != "-loggc" and not option.startswith(("-X", "-D")):  # JVM options are ignored
            raise Failure(f"{option} is not an option of kafka-run-class.\n{_usage()}")
    if not words:
        print(_usage())
        return 1
    name, *rest = words
    command = by_class().get(name)
    if command is None:
        raise Failure(GONE[name] if name in GONE else _unknown(name))
    if is_daemon:
        from ottla.tools.daemon import run_apart

        return run_apart("run_class", words, service or name.rpartition(".")[2])
    main: int = import_module(f"ottla.tools.{command.module}").main(rest)
    return main


def _usage() -> str:
    return _USAGE.format(os.path.basename(sys.argv[0]) or "kafka-run-class.sh")


def _unknown(name: str) -> str:
    known = by_class()
    simple = {one.rpartition(".")[2].lower(): one for one in known}
    error = f"Error: Could not find or load main class {name}"
    near = difflib.get_close_matches(name.rpartition(".")[2].lower(), simple, n=1, cutoff=0.7)
    if near:
        return f"{error}. Nearest is {simple[near[0]]}"
    return f"{error}. Known are {', '.join(sorted({one.rpartition('.')[2] for one in known}))}"


if __name__ == "__main__":
    sys.exit(main())
