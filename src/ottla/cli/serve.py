"""`ottla serve`: run a node in the foreground.

With a file it works like `kafka-server-start.sh FILE`. Without one it runs a single node on localhost:9092
with its data in ./data, which it formats.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

SUMMARY = "Run a node from a server.properties FILE, or on localhost without any configuration."


def main(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    from ottla.config import ConfigError

    try:
        options = _parser().parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        config = _configuration(options)
    except OSError as error:
        print(f"ottla serve: {options.file} cannot be read: {error.strerror}.", file=sys.stderr)
        return 1
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"ottla serve: {error}", file=sys.stderr)
        return 2
    return _run(config)


def _run(config: BrokerConfig) -> int:
    from ottla.server.node import run

    return run(config)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla serve",
        description=SUMMARY,
        epilog="Settings also come from the environment: KAFKA_NUM_PARTITIONS=3 sets num.partitions.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="server.properties file in Kafka's format")
    parser.add_argument("--data", metavar="DIR", help="directory for data (default: data)")
    parser.add_argument(
        "--port", type=int, metavar="N", help="port for clients (default: 9092; 0 picks a free port)"
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="override a setting; repeatable, takes precedence over file and environment",
    )
    return parser


def _configuration(options: argparse.Namespace) -> BrokerConfig:
    import os

    from ottla.config import development_config
    from ottla.operations.configuration import load_configuration, parse_overrides

    overrides = parse_overrides(options.override)
    if options.port is not None and not 0 <= options.port <= 65535:
        raise ValueError(f"--port {options.port} is not a port. Use 0 to 65535.")
    if options.file is not None:
        if options.port is not None:
            raise ValueError("--port cannot be combined with a FILE, whose listeners set the ports.")
        if options.data is not None:
            overrides["log.dirs"] = options.data
        return load_configuration(options.file, overrides)
    return development_config(
        data_directory=options.data or "data",
        port=9092 if options.port is None else options.port,
        overrides=overrides,
        environment=os.environ,
        base_directory=os.getcwd(),
    )
