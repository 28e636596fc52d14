"""The small files of a log directory: `meta.properties`, the clean-shutdown marker, `partition.metadata`.

`meta.properties` assigns a directory to one cluster and one node and gives it an id. The rule: a file that
exists but cannot be parsed stops the start; only a missing one means "not formatted".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ottla import properties
from ottla.ports import Disk, Random
from ottla.wire import uuid

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"

NO_BROKER_EPOCH = -1
_NODE_ID_MAX = 2**31 - 1
_EPOCH_MAX = 2**63 - 1
_VERSIONS = ("0", "1")
_CURE = "restore the file or format the directory"


class DirectoryError(Exception):
    """A log directory that this node must not use; the message names path, cause and cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """What `meta.properties` says. Version 0 (of the ZooKeeper days) may lack ids; version 1 has both."""

    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None = None
    version: int = 1


def parse_meta(text: str, path: str) -> MetaProperties:
    """The contents of the file at `path`, or a DirectoryError."""
    try:
        entries = properties.as_dict(text)
    except properties.PropertiesError as error:
        raise DirectoryError(f"{path} is damaged, {error}: {_CURE}.") from error
    if entries.keys().isdisjoint(("version", "broker.id")):
        # Kafka accepts such a file as version 0 without a node, but a truncated file looks the same.
        raise DirectoryError(f"{path} contains no version: {_CURE}.")
    version = entries.get("version", "0").strip()
    if version not in _VERSIONS:
        raise DirectoryError(
            f"{path} has version {version[:40]}, but only 0 and 1 are supported. Use a newer release."
        )
    node_key = "broker.id" if version == "0" else "node.id"
    cluster_id = entries.get("cluster.id")
    node_id = entries.get(node_key)
    if version != "0":
        for key, value in (("cluster.id", cluster_id), (node_key, node_id)):
            if not value:
                raise DirectoryError(f"{path} contains no {key}: {_CURE}.")
    if node_id is not None and not _is_node_id(node_id):
        raise DirectoryError(
            f"{path} contains {node_key}={node_id[:40]}, which is not a non-negative integer: {_CURE}."
        )
    directory_id = None
    if "directory.id" in entries:
        try:
            directory_id = uuid.from_text(entries["directory.id"])
        except ValueError as error:
            raise DirectoryError(
                f"{path} contains an invalid directory.id: {error} Remove that line, and the node generates "
                "a new one."
            ) from error
    return MetaProperties(
        cluster_id=cluster_id,
        node_id=None if node_id is None else int(node_id),
        directory_id=directory_id,
        version=int(version),
    )


def format_meta(meta: MetaProperties, now_ms: int) -> str:
    """The file's text, as Java's Properties.store lays it out."""
    entries: dict[str, str] = {}
    if meta.cluster_id is not None:
        entries["cluster.id"] = meta.cluster_id
    entries["version"] = str(meta.version)
    if meta.directory_id is not None:
        entries["directory.id"] = uuid.to_text(meta.directory_id)
    if meta.node_id is not None:
        entries["node.id" if meta.version else "broker.id"] = str(meta.node_id)
    written = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    return properties.format(entries, ("", written))


def read_meta(disk: Disk, directory: str) -> MetaProperties | None:
    """None where the directory has no such file: it is not formatted. Blocks."""
    path = f"{directory}/{META_PROPERTIES}"
    if not disk.exists(path):
        return None
    return parse_meta(properties.decode(disk.read(path)), path)


def write_meta(disk: Disk, directory: str, meta: MetaProperties, now_ms: int) -> None:
    """Replace the file, all or nothing, down to stable storage. Blocks."""
    disk.replace(f"{directory}/{META_PROPERTIES}", format_meta(meta, now_ms).encode("utf-8"))


def verify_meta(
    metas: Mapping[str, MetaProperties], *, cluster_id: str | None = None, node_id: int | None = None
) -> None:
    """Check that directories (path -> contents) are of one cluster and one node and have ids of their own.

    `cluster_id` and `node_id` are what the node expects; None accepts what the first file says.
    """
    owners: dict[bytes, str] = {}
    for directory, meta in sorted(metas.items()):
        path = f"{directory}/{META_PROPERTIES}"
        cluster_id = _agreed_cluster(meta, path, cluster_id)
        node_id = _agreed_node(meta, path, node_id)
        if meta.directory_id is not None:
            _claim_directory_id(meta.directory_id, directory, owners)


def _agreed_cluster(meta: MetaProperties, path: str, expected: str | None) -> str | None:
    if meta.cluster_id is None or expected is None or meta.cluster_id == expected:
        return expected or meta.cluster_id
    raise DirectoryError(
        f"Invalid cluster.id in: {path}. Expected {expected}, but read {meta.cluster_id}: "
        "the directory belongs to another cluster."
    )


def _agreed_node(meta: MetaProperties, path: str, expected: int | None) -> int | None:
    if meta.node_id is None or expected is None or meta.node_id == expected:
        return meta.node_id if expected is None else expected
    raise DirectoryError(
        f"Stored node id {meta.node_id} doesn't match previous node id {expected} in {path}. If you moved "
        "the data, set node.id to the stored one; for a new node, empty the directory first."
    )


def _claim_directory_id(identifier: bytes, directory: str, owners: dict[bytes, str]) -> None:
    text = uuid.to_text(identifier)
    if uuid.is_reserved(identifier):
        raise DirectoryError(
            f"{directory}/{META_PROPERTIES} contains the reserved directory.id {text}. Remove that line, "
            "and the node generates a new one."
        )
    owner = owners.setdefault(identifier, directory)
    if owner != directory:
        raise DirectoryError(
            f"Duplicate directory ID {text} found. It was the ID of {owner}, but also of {directory}. One "
            "is probably a copy of the other; remove one from log.dirs."
        )


def new_directory_id(random: Random, taken: Collection[bytes] = ()) -> bytes:
    """An id that no directory in `taken` has, that is not reserved and does not begin with a dash."""
    while True:
        drawn = uuid.random(random.bytes)
        if drawn not in taken:
            return drawn


def format_clean_shutdown(broker_epoch: int) -> bytes:
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def parse_clean_shutdown(data: bytes) -> int:
    """The broker epoch in a clean-shutdown marker, -1 where it has none: old markers are empty files."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return NO_BROKER_EPOCH
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if type(epoch) is int and 0 <= epoch <= _EPOCH_MAX else NO_BROKER_EPOCH


def format_partition_metadata(topic_id: bytes) -> str:
    return f"version: 0\ntopic_id: {uuid.to_text(topic_id)}"


def parse_partition_metadata(text: str, path: str) -> bytes:
    """The topic id in the file at `path`, or a DirectoryError."""
    words = [line.split() for line in text.splitlines()[:2]]
    keys = [line[0] for line in words if len(line) == 2]
    if keys != ["version:", "topic_id:"] or not (words[0][1].isascii() and words[0][1].isdigit()):
        raise DirectoryError(
            f"{path} is damaged: it must contain the lines `version: 0` and `topic_id: <id>`."
        )
    try:
        topic_id = uuid.from_text(words[1][1])
    except ValueError as error:
        raise DirectoryError(f"{path} is damaged: {error}") from error
    if topic_id == uuid.ZERO:
        raise DirectoryError(f"{path} is damaged: its topic id is zero.")
    return topic_id


def _is_node_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _NODE_ID_MAX
