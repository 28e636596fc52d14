"""A flush as an object, so that a thread can wait for the disk while the log takes appends.

It holds open files and paths, and no state of the log that may change in the meantime. The rules: the
recovery point moves only after `run` has returned without an error. A failed fsync is final, since the data
may be lost from memory. A file that could not be opened for lack of descriptors was not synced at all:
`NotOpened`, and the same flush may be retried later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.ports import OUT_OF_RESOURCES, Disk, File

if TYPE_CHECKING:
    from ottla.log.segment import Segment


SIDE_BY_SIDE = 8
MANY_FILES = 64


class NotOpened(OSError):
    """A file to be synced could not be opened for lack of descriptors or memory: no fsync has failed."""


class Flush:
    """The files to sync so that everything below `offset` survives a power loss."""

    __slots__ = ("_directory", "_disk", "_files", "_paths", "has_epochs", "offset", "rolled", "snapshots")

    def __init__(
        self,
        disk: Disk,
        offset: int,
        files: list[File],
        paths: list[str],
        directory: str | None,
        *,
        rolled: Sequence[Segment] = (),
        snapshots: Sequence[int] = (),
        has_epochs: bool = False,
    ) -> None:
        self._disk = disk
        self.offset = offset
        self._files = files
        self._paths = paths
        self._directory = directory  # None: no file is new
        self.rolled = rolled
        """The segments whose index files it syncs."""
        self.snapshots = snapshots
        """The offsets of the producer snapshots that it syncs."""
        self.has_epochs = has_epochs
        """Whether it syncs the epoch checkpoint."""

    def run(self) -> None:
        """Block until all is on stable storage. After an OSError it may not be, even if a retry succeeds."""
        self._sync(self._files, self._paths)
        self.sync_names()

    def shares(self) -> list[Callable[[], None]]:
        """Parts that may run side by side, before `sync_names`: a file system commits many syncs at once.
        One part if there are few files."""
        count = SIDE_BY_SIDE if len(self._paths) >= MANY_FILES else 1
        shares = [partial(self._sync, [], self._paths[number::count]) for number in range(1, count)]
        return [partial(self._sync, self._files, self._paths[::count]), *shares]

    def _sync(self, files: list[File], paths: list[str]) -> None:
        for file in files:
            file.fsync()
        for path in paths:
            try:
                sync_file(self._disk, path)
            except FileNotFoundError:
                continue  # deleted, or renamed for deletion, in the meantime

    def sync_names(self) -> None:
        """Block until the names of new files are on stable storage."""
        if self._directory is not None:
            try:
                sync_directory(self._disk, self._directory)
            except FileNotFoundError:
                return  # the whole log was renamed for deletion


def sync_file(disk: Disk, path: str) -> None:
    """Bring a file to stable storage. Blocks."""
    try:
        file = disk.open(path)
    except OSError as error:
        raise opening_error(error) from error
    try:
        file.fsync()
    finally:
        file.close()


def sync_directory(disk: Disk, path: str) -> None:
    """Bring the names in a directory to stable storage. Blocks."""
    try:
        disk.sync_directory(path)
    except OSError as error:  # only opening the directory can fail for lack of descriptors
        raise opening_error(error) from error


def opening_error(error: OSError) -> OSError:
    """NotOpened if a file to be synced could not be opened for lack of resources, else the error itself."""
    if error.errno in OUT_OF_RESOURCES:
        return NotOpened(error.errno, error.strerror, error.filename)
    return error
