"""`kafka-storage.sh`: formats and inspects log directories, and creates ids.

Options, output and exit codes are those of Kafka's tool. Each command imports its own modules, so that
`random-uuid` starts fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.operations.failure import Failure
from ottla.tools.subcommands import SubcommandParser, run

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

_COMMANDS = "{info,format,version-mapping,feature-dependencies,random-uuid}"
_RELEASES = "The oldest is 3.3-IV3, the default is 4.3-IV0."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _RUN, arguments)


# Command line -------------------------------------------------------------------------------------------


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="kafka-storage", description="Format and inspect log directories.", fromfile_prefix_chars="@"
    )
    commands = parser.add_commands(_COMMANDS)
    info = commands.add_parser("info", help="Describe the log directories of this node.")
    _add_config(info)
    _add_format(commands.add_parser("format", help="Format the log directories of this node."))
    mapping = commands.add_parser("version-mapping", help="Show the feature levels of a release.")
    mapping.add_argument("--release-version", "-r", help=f"Release to look up. {_RELEASES}")
    needs = commands.add_parser("feature-dependencies", help="Show the dependencies of a feature level.")
    needs.add_argument(
        "--feature",
        "-f",
        required=True,
        action="append",
        help="Feature to look up: feature=level; repeatable.",
    )
    commands.add_parser("random-uuid", help="Print a random id, for example for a new cluster.")
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", "-c", required=True, help="Configuration file of the node.")


def _add_format(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    parser.add_argument(
        "--cluster-id", "-t", required=True, help="Id of the cluster, the same on all its nodes."
    )
    parser.add_argument(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        help="Initial SCRAM credential: 'SCRAM-SHA-256=[name=alice,password=secret]'; repeatable.",
    )
    parser.add_argument(
        "--ignore-formatted",
        "-g",
        action="store_true",
        help="Skip formatted directories instead of failing.",
    )
    parser.add_argument("--release-version", "-r", help=f"Release whose features to start with. {_RELEASES}")
    parser.add_argument(
        "--feature",
        "-f",
        action="append",
        help="Level of one feature: feature=level, such as kraft.version=1.",
    )
    quorum = parser.add_mutually_exclusive_group()
    quorum.add_argument(
        "--standalone", "-s", action="store_true", help="Start a dynamic quorum with this controller alone."
    )
    quorum.add_argument(
        "--no-initial-controllers",
        "-N",
        action="store_true",
        help="Write no voters: this node joins an existing dynamic quorum.",
    )
    quorum.add_argument(
        "--initial-controllers",
        "-I",
        help="Start a dynamic quorum with these voters: id@host:port:directory-id, separated by commas; "
        "the same on every node.",
    )


# Commands -----------------------------------------------------------------------------------------------


def _random_uuid(options: argparse.Namespace) -> int:
    from secrets import token_bytes

    from ottla.wire import uuid

    print(uuid.to_text(uuid.random(token_bytes)))
    return 0


def _format(options: argparse.Namespace) -> int:
    from ottla.host import HostClock, HostDisk, HostRandom
    from ottla.log.directories.properties import DirectoryError
    from ottla.server.formatter import FormatError, Request, format_directories
    from ottla.tools.feature_text import feature_level

    config = _load(options.config)
    request = Request(
        cluster_id=options.cluster_id,
        standalone=options.standalone,
        initial_controllers=options.initial_controllers,
        no_initial_controllers=options.no_initial_controllers,
        release_version=options.release_version,
        features=dict(map(feature_level, options.feature or ())),
        scram=options.add_scram,
        ignore_formatted=options.ignore_formatted,
    )
    try:
        format_directories(HostDisk(), HostClock(), HostRandom(), config, request, print)
    except (FormatError, DirectoryError) as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"Error while formatting: {error}") from error
    return 0


def _info(options: argparse.Namespace) -> int:
    from ottla.host import HostDisk
    from ottla.log.directories.properties import META_PROPERTIES, DirectoryError, MetaProperties, read_meta
    from ottla.wire import uuid

    disk = HostDisk()
    found: list[str] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    for directory in sorted(_load(options.config).all_directories):
        if not disk.is_directory(directory):
            what = "is not a directory" if disk.exists(directory) else "does not exist"
            problems.append(f"{directory} {what}")
            continue
        found.append(directory)
        try:
            meta = read_meta(disk, directory)
        except DirectoryError as error:
            problems.append(f"Error loading {directory}/{META_PROPERTIES}: {error}")
            continue
        if meta is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = meta
        elif first.cluster_id != meta.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.node_id != meta.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    if first is not None and first.version == 0:
        problems.append(
            "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are "
            "formatted for legacy mode."
        )
    _print_block("Found log directory:", "Found log directories:", found)
    if first is not None:
        fields = {
            "broker.id" if first.version == 0 else "node.id": first.node_id,
            "cluster.id": first.cluster_id,
            "directory.id": uuid.to_text(first.directory_id) if first.directory_id else None,
            "version": first.version,
        }
        shown = ", ".join(f"{name}={value}" for name, value in sorted(fields.items()) if value is not None)
        print(f"Found metadata: {{{shown}}}\n")
    _print_block("Found problem:", "Found problems:", problems)
    return 1 if problems else 0


def _print_block(one: str, several: str, lines: Sequence[str]) -> None:
    if lines:
        print(one if len(lines) == 1 else several)
        for line in lines:
            print(f"  {line}")
        print()


def _version_mapping(options: argparse.Namespace) -> int:
    from ottla.tools.feature_text import mapping_lines

    print(*mapping_lines(options.release_version), sep="\n")
    return 0


def _feature_dependencies(options: argparse.Namespace) -> int:
    from ottla.tools.feature_text import dependency_lines, short

    for argument in options.feature:
        name, equals, text = (part.strip() for part in argument.partition("="))
        if not equals:
            raise Failure(
                f"Invalid feature format: {argument}. Expected format: 'feature=version' "
                "(e.g. 'group.version=1')"
            )
        try:
            level = short(text)
        except ValueError:
            raise Failure(f"Invalid version format: {text} for feature {name}") from None
        print(*dependency_lines(name, level), sep="\n")
    return 0


def _load(path: str) -> BrokerConfig:
    from ottla.config import ConfigError
    from ottla.operations.configuration import load_configuration

    try:
        return load_configuration(path, base_directory="")
    except ConfigError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"The configuration file {path} cannot be read: {error.strerror}.") from error


_RUN: dict[str, Callable[[argparse.Namespace], int]] = {
    "info": _info,
    "format": _format,
    "version-mapping": _version_mapping,
    "feature-dependencies": _feature_dependencies,
    "random-uuid": _random_uuid,
}

if __name__ == "__main__":
    sys.exit(main())
