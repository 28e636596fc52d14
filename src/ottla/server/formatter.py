"""Formats the log directories of a node: writes its identity and the initial records of a new cluster.

A directory is formatted once it has a `meta.properties`, which is therefore written last: if formatting fails
before, it can be repeated. `kafka-storage format` and a node that formats itself share this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.config import BrokerConfig
from ottla.controller.bootstrap import (
    BOOTSTRAP_FILE,
    bootstrap_checkpoint,
    bootstrap_records,
    parse_scram,
    voters_checkpoint,
)
from ottla.controller.feature_levels import metadata_version, resolve_features
from ottla.controller.image import KRAFT_VERSION, METADATA_VERSION
from ottla.log.directories.properties import (
    MetaProperties,
    new_directory_id,
    read_meta,
    verify_meta,
    write_meta,
)
from ottla.ports import Clock, Disk, Random
from ottla.raft.voters import VoterSet, parse_initial_controllers
from ottla.wire import uuid
from ottla.wire.message import Message

METADATA_LOG = "__cluster_metadata-0"
_VOTERS_FILE = "00000000000000000000-0000000000.checkpoint"


class FormatError(Exception):
    """The directories cannot be formatted as requested; the message says why and what to do."""


class Request(NamedTuple):
    """The parameters of formatting: the options of `kafka-storage format`."""

    cluster_id: str
    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False
    release_version: str | None = None
    features: Mapping[str, int] = {}
    scram: Sequence[str] = ()
    ignore_formatted: bool = False


def format_directories(
    disk: Disk,
    clock: Clock,
    random: Random,
    config: BrokerConfig,
    request: Request,
    say: Callable[[str], None],
) -> None:
    """Format the directories that are not formatted yet; `say` gets the lines that the tool prints. Blocks.

    Raises FormatError, and DirectoryError for directories that belong to another node or cluster.
    """
    voters = _voters(config, request, random)
    try:
        levels = resolve_features(
            release=request.release_version,
            features=request.features,
            is_dynamic_quorum=not config.quorum_voters,
        )
        scram = [parse_scram(argument, random.bytes) for argument in request.scram]
        records = bootstrap_records(levels, scram)
    except ValueError as error:
        raise FormatError(str(error)) from error
    present = _present(disk, config, request, say)
    empty = [directory for directory, meta in present.items() if meta is None]
    if not empty:
        say("All of the log directories are already formatted.")
        return
    say(f"Bootstrap metadata: {_show_bootstrap(records, levels[METADATA_VERSION])}")
    taken = {meta.directory_id for meta in present.values() if meta is not None and meta.directory_id}
    release = metadata_version(levels[METADATA_VERSION]).name
    for directory in empty:
        kind = _kind(directory, config, voters)
        say(f"Formatting {kind} {directory} with metadata.version {release}.")
        own = voters.get(config.node_id) if voters is not None and kind.endswith("voter directory") else None
        directory_id = own.key.directory_id if own is not None else new_directory_id(random, taken)
        taken.add(directory_id)
        disk.make_directory(directory)
        now_ms = clock.now_ms()
        content = bootstrap_checkpoint(records, now_ms)
        disk.replace(f"{directory}/{BOOTSTRAP_FILE}", content)
        if voters is not None and kind.startswith("dynamic"):
            disk.make_directory(f"{directory}/{METADATA_LOG}")
            content = voters_checkpoint(voters, now_ms, kraft_version=levels[KRAFT_VERSION])
            disk.replace(f"{directory}/{METADATA_LOG}/{_VOTERS_FILE}", content)
        meta = MetaProperties(
            cluster_id=request.cluster_id, node_id=config.node_id, directory_id=directory_id, version=1
        )
        write_meta(disk, directory, meta, now_ms)


def format_if_new(
    disk: Disk, clock: Clock, random: Random, config: BrokerConfig, say: Callable[[str], None]
) -> None:
    """Format a node that may format itself and has never run: its own quorum and a new cluster id."""
    if not config.auto_format or any(read_meta(disk, path) is not None for path in config.all_directories):
        return
    cluster_id = config.cluster_id or uuid.to_text(uuid.random(random.bytes))
    standalone = config.is_controller and not config.quorum_voters
    format_directories(disk, clock, random, config, Request(cluster_id, standalone=standalone), say)


def _voters(config: BrokerConfig, request: Request, random: Random) -> VoterSet | None:
    """The initial voters of a dynamic quorum, None if none are written."""
    chosen = request.standalone or request.initial_controllers is not None
    if config.quorum_voters and chosen:
        raise FormatError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and "
            "specify controller.quorum.bootstrap.servers instead."
        )
    if not chosen:
        if config.is_controller and not config.quorum_voters and not request.no_initial_controllers:
            raise FormatError(
                "Because controller.quorum.voters is not set on this controller, you must specify one of the "
                "following: --standalone, --initial-controllers, or --no-initial-controllers."
            )
        return None
    text = request.initial_controllers
    if request.standalone:
        if not config.is_controller:
            raise FormatError("You can only use --standalone on a controller.")
        endpoint = config.advertised_controller_listeners[0]
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host or "localhost"
        directory_id = uuid.to_text(uuid.random(random.bytes))
        text = f"{config.node_id}@{host}:{endpoint.port}:{directory_id}"
    try:
        return parse_initial_controllers(text or "", config.controller_listener_names[0])
    except ValueError as error:
        raise FormatError(str(error)) from error


def _present(
    disk: Disk, config: BrokerConfig, request: Request, say: Callable[[str], None]
) -> dict[str, MetaProperties | None]:
    """The meta.properties of each readable directory, None if it is not formatted."""
    found: dict[str, MetaProperties | None] = {}
    for directory in sorted(config.all_directories):
        try:
            found[directory] = read_meta(disk, directory)
        except OSError:
            say(f"I/O error trying to read log directory {directory}. Ignoring...")
    formatted = {directory: meta for directory, meta in found.items() if meta is not None}
    verify_meta(formatted, cluster_id=request.cluster_id, node_id=config.node_id)
    if formatted and not request.ignore_formatted:
        raise FormatError(
            f"Log directory {min(formatted)} is already formatted. "
            "Use --ignore-formatted to ignore this directory and format the others."
        )
    if not found:
        raise FormatError("No available log directories to format.")
    return found


def _kind(directory: str, config: BrokerConfig, voters: VoterSet | None) -> str:
    if directory != config.metadata_log_directory:
        return "data directory"
    if voters is None:
        return "metadata directory"
    return "dynamic metadata voter directory" if voters.get(config.node_id) else "dynamic metadata directory"


def _show_bootstrap(records: Sequence[Message], level: int) -> str:
    """The bootstrap records in the format of Kafka's tool."""
    shown = ", ".join(f"ApiMessageAndVersion({_show_record(record)} at version 0)" for record in records)
    return f"BootstrapMetadata(records=[{shown}], metadataVersionLevel={level}, source=format command)"


def _show_record(record: Message) -> str:
    fields = []
    slots: Sequence[str] = vars(type(record))["__slots__"]
    for name in slots:
        if name != "unknown_tagged_fields":
            first, *rest = name.split("_")
            fields.append(f"{first}{''.join(map(str.capitalize, rest))}={_show_field(getattr(record, name))}")
    return f"{type(record).__name__}({', '.join(fields)})"


def _show_field(value: object) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bytes):
        return str([byte - 256 if byte > 127 else byte for byte in value])
    return str(value)
