"""`ottla serve`: run a node in the foreground.

With a file it is `kafka-server-start.sh FILE`. Without one it is a node of its own on this machine: on
localhost:9092, its data in ./data, formatted by itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

SUMMARY = "Run a node: from a server.properties FILE, or on this machine's loopback with no configuration."


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
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
    parser.add_argument("file", nargs="?", metavar="FILE", help="server.properties, as Kafka reads it")
    parser.add_argument("--data", metavar="DIR", help="directory for data (default: data)")
    parser.add_argument(
        "--port", type=int, metavar="N", help="port for clients (default: 9092; 0 takes a free one)"
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set one setting; may be repeated, and wins over file and environment",
    )
    return parser


def _configuration(options: argparse.Namespace) -> BrokerConfig:
    import os

    from ottla.config import development_config
    from ottla.operations.configuration import load_configuration, parse_overrides

    overrides = parse_overrides(options.override)
    if options.port is not None and not 0 <= options.port <= 65535:
        raise ValueError(f"--port {options.port} is not a port: it goes from 0 to 65535.")
    if options.file is not None:
        if options.port is not None:
            raise ValueError("--port goes without a FILE only: with one, its listeners name the ports.")
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
