"""`kafka-server-start.sh [-daemon] server.properties [--override property=value]*`: runs a node.

The node runs in this process until it is stopped; with -daemon it runs in a new process, whose output goes to
`logs/kafkaServer.out` (or below LOG_DIR), as with Kafka's script.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

_USAGE = "USAGE: {} [-daemon] server.properties [--override property=value]*"


class _BadCommandLine(Exception):
    """Invalid arguments; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    usage = _USAGE.format(os.path.basename(sys.argv[0]) or "kafka-server-start.sh")
    if not given or "--help" in given:
        print(usage, file=sys.stderr if given else sys.stdout)
        return 1 if not given else 0
    if "--version" in given:
        from ottla.version import __version__

        print(f"{__version__} (Ottla)")
        return 0
    if given[0] in ("-daemon", "--daemon"):
        from ottla.tools.daemon import run_apart

        return run_apart("server_start", given[1:], "kafkaServer") if len(given) > 1 else main([])
    try:
        config = _configuration(given)
    except _BadCommandLine as error:
        print(f"{error}\n{usage}", file=sys.stderr)
        return 1
    return _run(config) if config is not None else 1


def _configuration(arguments: Sequence[str]) -> BrokerConfig | None:
    """The configuration; None if it is invalid, after printing the error."""
    from ottla.config.broker import ConfigError
    from ottla.operations.configuration import load_configuration, parse_overrides

    path, *rest = arguments
    entries: list[str] = []
    others: list[str] = []
    while rest:
        option = rest.pop(0)
        if option == "--override" and rest:
            entries.append(rest.pop(0))
        elif option.startswith("--override="):
            entries.append(option.removeprefix("--override="))
        else:
            others.append(option)
    if others:
        raise _BadCommandLine(f"Found non argument parameters: {','.join(others)}")
    try:
        return load_configuration(path, parse_overrides(entries))
    except OSError as error:
        print(f"The configuration file {path} cannot be read: {error.strerror}.", file=sys.stderr)
    except ConfigError as error:
        print(error, file=sys.stderr)
    except ValueError as error:
        raise _BadCommandLine(str(error)) from error
    return None


def _run(config: BrokerConfig) -> int:
    from ottla.server.node import run

    return run(config)


if __name__ == "__main__":
    sys.exit(main())
