"""Space on the disk that only the metadata log may use.

A node whose disk is full must still be able to write elections, and records that delete topics to free space.
So it keeps a file of zeros next to the metadata log. If a write of the log fails because the disk is full,
the file is truncated by a block and the write is retried at once, before anyone else can take the block. Once
the disk has space, the file is filled again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from ottla.ports import DISK_FULL, Disk, File

logger = logging.getLogger("ottla.raft.disk_reserve")

_T = TypeVar("_T")

NAME = "metadata-reserve"
BLOCK_BYTES = 4096
_CHUNK_BYTES = 64 * 1024
_START_BYTES = 128 * 1024
"""A start may need so much: a log that was not closed cleanly gets new indexes."""
_ROOM_FACTOR = 4
"""The file is filled only if this many times its size is free, so that it does not fill up the disk."""


class Reserve:
    """The file of zeros."""

    def __init__(self, disk: Disk, directory: str, size_bytes: int) -> None:
        """With a `size_bytes` of 0 there is no reserve, and `open` removes the file of an earlier start."""
        self._disk = disk
        self._directory = directory
        self._size_bytes = size_bytes // BLOCK_BYTES * BLOCK_BYTES
        self._file: File | None = None
        self.remaining_bytes = 0

    @property
    def is_whole(self) -> bool:
        return self.remaining_bytes >= self._size_bytes

    def open(self) -> None:
        """Open or create the file, and fill it. Blocks. A full disk is no error."""
        path = f"{self._directory}/{NAME}"
        if not self._size_bytes:
            if self._disk.exists(path):
                self._disk.remove(path)
            return
        try:
            self._file = self._disk.open(path, create=True)
            self.remaining_bytes = min(self._file.size(), self._size_bytes) // BLOCK_BYTES * BLOCK_BYTES
            self._file.truncate(self.remaining_bytes)
        except OSError as error:
            logger.warning("Cannot create the disk reserve of the metadata log: %s", error)
            return
        self.fill()
        while self._disk.space(self._directory)[1] < _START_BYTES and self.release_block():
            pass

    def fill(self) -> None:
        """Extend the file to its full size if the disk has space. Blocks."""
        if self._file is None or self.is_whole:
            return
        try:
            _, usable_bytes = self._disk.space(self._directory)
            if usable_bytes < _ROOM_FACTOR * self._size_bytes:
                return
            while not self.is_whole:
                count = min(_CHUNK_BYTES, self._size_bytes - self.remaining_bytes)
                self._file.pwrite([bytes(count)], self.remaining_bytes)
                self.remaining_bytes += count
        except OSError as error:
            logger.warning("Cannot fill the disk reserve of the metadata log: %s", error)

    def release_block(self) -> bool:
        """Truncate the file by one block; False if it is empty."""
        if self._file is None or not self.remaining_bytes:
            return False
        if self.is_whole:
            logger.error(
                "The disk of %s is full: the metadata log now uses its reserve of %d bytes. Free some space.",
                self._directory,
                self._size_bytes,
            )
        self.remaining_bytes -= BLOCK_BYTES
        try:
            self._file.truncate(self.remaining_bytes)
        except OSError as error:
            logger.warning("Cannot use the disk reserve of the metadata log: %s", error)
            self.remaining_bytes = 0
            return False
        return True

    def attempt(self, write: Callable[[], _T]) -> _T:
        """Call `write`, which changes nothing if it fails. On a full disk, release a block and retry."""
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in DISK_FULL or not self.release_block():
                    raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
