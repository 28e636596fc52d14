"""`kafka-storage.sh`: format log directories, look at them, and a few look-ups around formatting.

Options, output and exit codes are those of Kafka's tool. Modules are imported by the command that needs them,
so that `random-uuid` starts at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

_COMMANDS = "{info,format,version-mapping,feature-dependencies,random-uuid}"
_FEATURES = (
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
_RELEASES = "The oldest is 3.3-IV3, the default is 4.3-IV0."


class Failure(Exception):
    """The command ends with exit code 1 and this sentence."""


class _Parser(argparse.ArgumentParser):
    """Ends with exit code 1 on a bad command line, as Kafka's tools do."""

    def error(self, message: str) -> NoReturn:
        missing = "the following arguments are required: "
        if message.startswith(missing):
            message = f"argument {message.removeprefix(missing).split(', ')[-1]} is required"
        self.print_usage(sys.stderr)
        print(f"kafka-storage: error: {message.removeprefix(f'argument {_COMMANDS}: ')}", file=sys.stderr)
        raise SystemExit(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; the exit code."""
    try:
        options = _parse(sys.argv[1:] if arguments is None else arguments)
        return _RUN[options.command](options)
    except SystemExit as end:
        return int(end.code or 0)
    except Failure as error:
        print(error, file=sys.stderr)
        return 1


# Command line -------------------------------------------------------------------------------------------


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="kafka-storage", description="Format and inspect log directories.", fromfile_prefix_chars="@"
    )
    commands = parser.add_subparsers(dest="command", metavar=_COMMANDS)
    info = commands.add_parser("info", help="Show what the log directories of this node are.")
    _add_config(info)
    _add_format(commands.add_parser("format", help="Format the log directories of this node."))
    mapping = commands.add_parser("version-mapping", help="Show the feature levels that belong to a release.")
    mapping.add_argument("--release-version", "-r", help=f"Release to look up. {_RELEASES}")
    needs = commands.add_parser(
        "feature-dependencies", help="Show what a level of a feature needs of others."
    )
    needs.add_argument(
        "--feature",
        "-f",
        required=True,
        action="append",
        help="Feature to look up: feature=level; may be repeated.",
    )
    commands.add_parser("random-uuid", help="Print a random id, for example for a new cluster.")
    options, rest = parser.parse_known_args(arguments)
    chosen: argparse.ArgumentParser = commands.choices.get(options.command, parser)
    if options.command is None:
        parser.error("too few arguments")
    if rest:
        chosen.error(f"unrecognized arguments: '{' '.join(rest)}'")
    return options


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
        help="SCRAM credential to start with: 'SCRAM-SHA-256=[name=alice,password=secret]'; may be repeated.",
    )
    parser.add_argument(
        "--ignore-formatted",
        "-g",
        action="store_true",
        help="Leave directories alone that are formatted already, instead of refusing.",
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
        help="Write no voters: this node joins a dynamic quorum that others have.",
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
    from ottla.log.properties import DirectoryError
    from ottla.server.formatting import FormatError, Request, format_directories

    config = _load(options.config)
    request = Request(
        cluster_id=options.cluster_id,
        standalone=options.standalone,
        initial_controllers=options.initial_controllers,
        no_initial_controllers=options.no_initial_controllers,
        release_version=options.release_version,
        features=dict(map(_feature_level, options.feature or ())),
        scram=options.add_scram,
        ignore_formatted=options.ignore_formatted,
    )
    try:
        format_directories(HostDisk(), HostClock(), HostRandom(), config, request, print)
    except (FormatError, DirectoryError) as error:
        raise Failure(error) from error
    except OSError as error:
        raise Failure(f"Error while formatting: {error}") from error
    return 0


def _feature_level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise Failure(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), _short(level.strip())
    except ValueError:
        raise Failure(
            f"Can't parse feature=level string {text}: unable to parse {level.strip()} as a short."
        ) from None


def _short(text: str) -> int:
    number = int(text)
    if not -(2**15) <= number < 2**15:
        raise ValueError(text)
    return number


def _info(options: argparse.Namespace) -> int:
    from ottla.host import HostDisk
    from ottla.log.properties import META_PROPERTIES, DirectoryError, MetaProperties, read_meta
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
    from ottla.controller.feature_levels import (
        METADATA_VERSION_LATEST,
        default_level,
        metadata_version,
        metadata_version_of_release,
    )

    release = options.release_version or metadata_version(METADATA_VERSION_LATEST).name
    try:
        version = metadata_version_of_release(release, unstable=True)
    except ValueError as error:
        raise Failure(error) from error
    print(f"metadata.version={version.level} ({release})")
    for name in _FEATURES:
        print(f"{name}={default_level(name, version.level)}")
    return 0


def _feature_dependencies(options: argparse.Namespace) -> int:
    for argument in options.feature:
        name, equals, text = (part.strip() for part in argument.partition("="))
        if not equals:
            raise Failure(
                f"Invalid feature format: {argument}. Expected format: 'feature=version' "
                "(e.g. 'group.version=1')"
            )
        try:
            level = _short(text)
        except ValueError:
            raise Failure(f"Invalid version format: {text} for feature {name}") from None
        _print_dependencies(name, level)
    return 0


def _print_dependencies(name: str, level: int) -> None:
    from ottla.controller.feature_levels import SUPPORTED_FEATURES, dependencies, metadata_version

    if name == "metadata.version":
        try:
            print(f"{name}={level} ({metadata_version(level).name}) has no dependencies.")
        except ValueError:
            raise Failure(f"Unknown metadata.version {level}") from None
        return
    if name not in SUPPORTED_FEATURES:
        raise Failure(f"Unknown feature: {name}")
    lowest, highest = SUPPORTED_FEATURES[name]
    if not lowest <= level <= highest:
        raise Failure(f"Feature level {level} is not supported for feature {name}")
    needs = dependencies(name, level)
    print(f"{name}={level} requires:" if needs else f"{name}={level} has no dependencies.")
    for needed, needed_level in needs.items():
        release = f" ({metadata_version(needed_level).name})" if needed == "metadata.version" else ""
        print(f"    {needed}={needed_level}{release}")


def _load(path: str) -> BrokerConfig:
    from ottla.config import ConfigError
    from ottla.tools.configuration import load_configuration

    try:
        return load_configuration(path, base_directory="")
    except ConfigError as error:
        raise Failure(error) from error
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
