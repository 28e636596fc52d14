"""Room on the disk that only the metadata log may use.

A node whose disk is full must still be able to write who leads, and that topics are deleted to make room. So
it keeps a file of zeros beside the metadata log. When a write of the log meets a full disk, the file is made
shorter by a block and the write is tried again at once, before anyone else can take the block. Once there is
room, the file is filled again.
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
"""What a start may need: a log that was not closed cleanly gets new indexes."""
_ROOM_FACTOR = 4
"""The file is filled while this many times its size is free: a disk that is nearly full is left alone."""


class Reserve:
    """The file, and how much is left of it."""

    def __init__(self, disk: Disk, directory: str, size_bytes: int) -> None:
        """`size_bytes` 0: there is no reserve, and a file of an earlier start is removed."""
        self._disk = disk
        self._directory = directory
        self._wanted_bytes = size_bytes // BLOCK_BYTES * BLOCK_BYTES
        self._file: File | None = None
        self.left_bytes = 0

    @property
    def is_whole(self) -> bool:
        return self.left_bytes >= self._wanted_bytes

    def open(self) -> None:
        """Find the file of an earlier start, and fill it. Blocks; a disk that has no room is no error."""
        path = f"{self._directory}/{NAME}"
        if not self._wanted_bytes:
            if self._disk.exists(path):
                self._disk.remove(path)
            return
        try:
            self._file = self._disk.open(path, create=True)
            self.left_bytes = min(self._file.size(), self._wanted_bytes) // BLOCK_BYTES * BLOCK_BYTES
            self._file.truncate(self.left_bytes)
        except OSError as error:
            logger.warning("There is no reserve for the metadata log: %s", error)
            return
        self.fill()
        while self._disk.space(self._directory)[1] < _START_BYTES and self.give():
            pass

    def fill(self) -> None:
        """Make the file as long as it should be, if the disk has room. Blocks."""
        if self._file is None or self.is_whole:
            return
        try:
            _, usable_bytes = self._disk.space(self._directory)
            if usable_bytes < _ROOM_FACTOR * self._wanted_bytes:
                return
            while not self.is_whole:
                count = min(_CHUNK_BYTES, self._wanted_bytes - self.left_bytes)
                self._file.pwrite([bytes(count)], self.left_bytes)
                self.left_bytes += count
        except OSError as error:
            logger.warning("The reserve for the metadata log could not be filled: %s", error)

    def give(self) -> bool:
        """Give one block back to the disk; False if none is left."""
        if self._file is None or not self.left_bytes:
            return False
        if self.is_whole:
            logger.error(
                "The disk of %s is full: the metadata log lives on its reserve of %d bytes. Free some room.",
                self._directory,
                self._wanted_bytes,
            )
        self.left_bytes -= BLOCK_BYTES
        try:
            self._file.truncate(self.left_bytes)
        except OSError as error:
            logger.warning("The reserve for the metadata log cannot be used: %s", error)
            self.left_bytes = 0
            return False
        return True

    def provide(self, write: Callable[[], _T]) -> _T:
        """Carry out a write that leaves nothing behind if it fails, with blocks of the reserve if need be."""
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in DISK_FULL or not self.give():
                    raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
