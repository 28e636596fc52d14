"""A flush as a thing of its own, so that it can wait for the disk while the log goes on.

It holds open files and names, nothing of the log that may change meanwhile. Rule: the recovery point moves
only after `run` has come back without an error.
"""

from __future__ import annotations

from ottla.ports import Disk, File


class Flush:
    """What has to reach stable storage so that everything below `offset` survives."""

    __slots__ = ("_directory", "_disk", "_files", "_paths", "offset")

    def __init__(
        self, disk: Disk, offset: int, files: list[File], paths: list[str], directory: str | None
    ) -> None:
        self._disk = disk
        self.offset = offset
        self._files = files
        self._paths = paths
        self._directory = directory  # None: no file is new

    def run(self) -> None:
        """Block until all of it is safe. An OSError means that it may not be, now or after another try."""
        for file in self._files:
            file.fsync()
        for path in self._paths:
            try:
                file = self._disk.open(path)
            except FileNotFoundError:
                continue  # deleted or renamed for deletion since, so nobody will ask for it
            try:
                file.fsync()
            finally:
                file.close()
        if self._directory is not None:
            try:
                self._disk.sync_directory(self._directory)
            except FileNotFoundError:
                return  # the whole log was renamed for deletion
