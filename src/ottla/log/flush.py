"""A flush as a thing of its own, so that it can wait for the disk while the log goes on.

It holds open files and names, nothing of the log that may change meanwhile. The rules: the recovery point
moves only after `run` has come back without an error. A failed fsync is final, since what it should have
written may be gone from memory. A file that could not be opened for want of descriptors was not tried at
all: `NotOpened`, and the same flush may be tried later.
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
    """There was no descriptor, or no memory, to open a file that is to be synced: nothing has failed yet."""


class Flush:
    """What has to reach stable storage so that everything below `offset` survives."""

    __slots__ = ("_directory", "_disk", "_files", "offset", "paths", "rolled")

    def __init__(
        self,
        disk: Disk,
        offset: int,
        files: list[File],
        paths: list[str],
        directory: str | None,
        rolled: Sequence[Segment] = (),
    ) -> None:
        self._disk = disk
        self.offset = offset
        self._files = files
        self.paths = paths
        self._directory = directory  # None: no file is new
        self.rolled = rolled
        """Segments whose index files are among `paths`."""

    def run(self) -> None:
        """Block until all of it is safe. An OSError means that it may not be, now or after another try."""
        self._sync(self._files, self.paths)
        self.sync_names()

    def shares(self) -> list[Callable[[], None]]:
        """What may run side by side, before `sync_names`: a file system commits many syncs at once. One share
        where there are few files."""
        count = SIDE_BY_SIDE if len(self.paths) >= MANY_FILES else 1
        shares = [partial(self._sync, [], self.paths[number::count]) for number in range(1, count)]
        return [partial(self._sync, self._files, self.paths[::count]), *shares]

    def _sync(self, files: list[File], paths: list[str]) -> None:
        for file in files:
            file.fsync()
        for path in paths:
            try:
                sync_file(self._disk, path)
            except FileNotFoundError:
                continue  # deleted or renamed for deletion since, so nobody will ask for it

    def sync_names(self) -> None:
        """Block until the names of new files are safe."""
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
        raise told_apart(error) from error
    try:
        file.fsync()
    finally:
        file.close()


def sync_directory(disk: Disk, path: str) -> None:
    """Bring the names in a directory to stable storage. Blocks."""
    try:
        disk.sync_directory(path)
    except OSError as error:  # of these, only opening the directory can fail for want of descriptors
        raise told_apart(error) from error


def told_apart(error: OSError) -> OSError:
    """What an error of opening a file means to whoever wants to sync it."""
    if error.errno in OUT_OF_RESOURCES:
        return NotOpened(error.errno, error.strerror, error.filename)
    return error
