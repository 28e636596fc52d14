"""`ottla serve`: run a node in the foreground.

With a file it works like `kafka-server-start.sh FILE`. Without one it runs a single node on localhost:9092
with its data in ./data, which it formats. With --nodes it runs several brokers from the same configuration.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.operations.configuration import ConfigurationSource

SUMMARY = "Run a node from a server.properties FILE, or on localhost without any configuration."


def main(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    from ottla.config import ConfigError

    try:
        options = _parser().parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        source = _source(options)
        if options.nodes is not None:
            return _run_nodes(source, options.nodes)
        config = source.load()
    except OSError as error:
        print(f"ottla serve: {options.file} cannot be read: {error.strerror}.", file=sys.stderr)
        return 1
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"ottla serve: {error}", file=sys.stderr)
        return 2
    _warn_of_other_nodes(config)
    return _run(config)


def _warn_of_other_nodes(config: BrokerConfig) -> None:
    from pathlib import Path

    from ottla.cluster.derivation import DIRECTORY

    if Path(config.metadata_log_directory, DIRECTORY).is_dir():
        from ottla.cluster.machine import warn_of_other_nodes

        warn_of_other_nodes(config)


def _run(config: BrokerConfig) -> int:
    from ottla.server.node import run

    return run(config)


def _run_nodes(source: ConfigurationSource, nodes: str) -> int:
    from ottla.cluster.group import ClusterError
    from ottla.cluster.machine import node_count, run_machine
    from ottla.server.log_lines import set_up_logging

    count = node_count(nodes)
    source.load()  # a mistake in the file is no event of a log
    set_up_logging(source="supervisor")
    try:
        run_machine(source, count)
    except (ClusterError, OSError) as error:
        logging.getLogger("ottla.cluster.machine").critical("%s", error)
        return 1
    except KeyboardInterrupt:  # before the nodes started
        return 130
    return 0


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
        "--nodes",
        metavar="N",
        help="run N brokers, each in its own process; auto: one for each core that this process may use",
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="override a setting; repeatable, takes precedence over file and environment",
    )
    return parser


def _source(options: argparse.Namespace) -> ConfigurationSource:
    from ottla.operations.configuration import ConfigurationSource, parse_overrides

    overrides = parse_overrides(options.override)
    if options.port is not None and not 0 <= options.port <= 65535:
        raise ValueError(f"--port {options.port} is not a port. Use 0 to 65535.")
    if options.file is not None and options.port is not None:
        raise ValueError("--port cannot be combined with a FILE, whose listeners set the ports.")
    return ConfigurationSource(file=options.file, data=options.data, port=options.port, overrides=overrides)
