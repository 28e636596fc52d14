"""Opens the log directories of a node: creates and locks them, and checks that they belong to this node.

The rule: nothing is written into a directory before its lock is held, and nothing is served from one whose
`meta.properties` names another cluster, another node or another directory's id. A directory with a disk error
is offline, and the others are served; a directory that belongs to another node stops the start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ottla.log.checkpoints import CheckpointFile
from ottla.log.directories.names import METADATA_LOG
from ottla.log.directories.properties import (
    META_PROPERTIES,
    DirectoryError,
    MetaProperties,
    new_directory_id,
    read_meta,
    verify_meta,
    write_meta,
)
from ottla.ports import OUT_OF_RESOURCES, Clock, Disk, Random
from ottla.wire import uuid

logger = logging.getLogger("ottla.log.directories.log_directories")

LOCK = ".lock"


class LogDirectory:
    """One of `log.dirs`."""

    __slots__ = (
        "cordoned",
        "failure",
        "files",
        "full",
        "has_damage",
        "id",
        "is_contiguous",
        "is_loaded",
        "online",
        "path",
        "release",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.id = uuid.ZERO
        self.online = True
        self.failure = ""
        """Why it is offline."""
        self.full = False
        """The last write found no room. Reads continue, and writes are tried again."""
        self.cordoned = False
        """No new replica is put here."""
        self.is_loaded = False
        """Its logs are loaded. Before that no checkpoint is written: it would lack them."""
        self.is_contiguous = False
        """Whether its recovery points say that there is no gap above them (`checkpoints.CONTIGUOUS`)."""
        self.has_damage = False
        """A log in it could not be loaded, and must be recovered at the next start."""
        self.files: dict[str, CheckpointFile] = {}
        self.release: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}, {'online' if self.online else 'offline: ' + self.failure})"

    def fail(self, failure: str) -> None:
        self.online = False
        self.failure = failure


def open_directories(
    disk: Disk,
    clock: Clock,
    random: Random,
    directories: Sequence[LogDirectory],
    metadata: LogDirectory,
    *,
    node_id: int,
    cluster_id: str | None,
) -> str:
    """Create, lock and identify the directories; `metadata` has the metadata log. Returns the cluster's id.

    Blocks. Raises DirectoryError.
    """
    everyone = list(dict.fromkeys((*directories, metadata)))
    _refuse_duplicates(everyone)
    metas: dict[str, MetaProperties | None] = {}
    for directory in everyone:
        try:
            metas[directory.path] = _claim(disk, directory, metadata)
        except OSError as error:
            if directory is metadata:
                raise DirectoryError(f"Cannot use the metadata log directory: {error}.") from error
            _refuse_without_resources(directory, error)
            logger.error("The log directory %s is offline: %s", directory.path, error)
            directory.fail(str(error))
    if not any(directory.online for directory in directories):
        raise DirectoryError(
            f"No directory of log.dirs is usable; the last failure: {directories[-1].failure}."
        )
    known = {path: meta for path, meta in metas.items() if meta is not None}
    if not known:
        raise DirectoryError(
            f"No readable meta.properties files found: {', '.join(metas)} is not formatted. Run "
            "`kafka-storage.sh format` once before the first start."
        )
    verify_meta(known, cluster_id=cluster_id, node_id=node_id)
    named = cluster_id or next((meta.cluster_id for meta in known.values() if meta.cluster_id), None)
    if named is None:
        raise DirectoryError(f"No {META_PROPERTIES} contains a cluster.id. Format the directories.")
    taken = {meta.directory_id for meta in known.values() if meta.directory_id is not None}
    for directory in everyone:
        if directory.online:
            meta = metas[directory.path] or MetaProperties(cluster_id=named, node_id=node_id)
            directory.id = meta.directory_id or new_directory_id(random, taken)
            taken.add(directory.id)
            if meta is not metas[directory.path] or meta.directory_id is None:
                _complete(disk, clock, directory, meta)
    return named


def _refuse_duplicates(directories: Sequence[LogDirectory]) -> None:
    paths = [directory.path for directory in directories]
    for path in paths:
        if paths.count(path) > 1:
            raise DirectoryError(f"log.dirs contains {path} twice.")


def _claim(disk: Disk, directory: LogDirectory, metadata: LogDirectory) -> MetaProperties | None:
    path = directory.path
    disk.make_directory(path)
    directory.release = disk.lock(f"{path}/{LOCK}")
    if directory.release is None:
        raise DirectoryError(
            f"Failed to acquire lock on file .lock in {path}. A Kafka instance in another process or thread "
            "is using this directory."
        )
    if directory is not metadata and disk.exists(f"{path}/{METADATA_LOG}"):
        raise DirectoryError(
            f"Found unexpected metadata location in data directory `{path}/{METADATA_LOG}` (the configured "
            f"metadata directory is {metadata.path}). Set metadata.log.dir to the directory that contains "
            "it."
        )
    return read_meta(disk, path)


def _complete(disk: Disk, clock: Clock, directory: LogDirectory, meta: MetaProperties) -> None:
    """Write what a directory lacks that is new, or older than directory ids."""
    logger.info(
        "Writing %s/%s with directory.id %s", directory.path, META_PROPERTIES, uuid.to_text(directory.id)
    )
    try:
        write_meta(disk, directory.path, replace(meta, directory_id=directory.id), clock.now_ms())
    except OSError as error:
        _refuse_without_resources(directory, error)
        logger.error("The log directory %s is offline: %s", directory.path, error)
        directory.fail(str(error))


def _refuse_without_resources(directory: LogDirectory, error: OSError) -> None:
    """A lack of descriptors is no fault of the directory, so it does not go offline: the start fails."""
    if error.errno in OUT_OF_RESOURCES:
        raise DirectoryError(
            f"Cannot use {directory.path}: {error}. Raise the limit of open files of this process, and "
            "start it again."
        ) from error
