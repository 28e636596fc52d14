"""A part of a segment file: `Log.locate` finds it, a connection sends it."""

from __future__ import annotations

from ottla.ports import File


class FileSlice:
    """Bytes of a file. The file may be parked in the meantime; once its segment is deleted, reading fails.

    A connection sends the bytes unchanged when the response is due, and removes from the slice what it sent.
    """

    __slots__ = ("file", "length", "position", "segment_base_offset")

    def __init__(self, file: File, position: int, length: int, segment_base_offset: int = -1) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.segment_base_offset = segment_base_offset

    def __len__(self) -> int:
        return self.length

    def read(self, count: int = -1) -> bytes:
        """Read the next `count` bytes, or all, and remove them from the slice."""
        if count < 0 or count > self.length:
            count = self.length
        data = self.file.pread(count, self.position)
        if len(data) != count:
            raise self._too_short(count - len(data))
        self.skip(count)
        return data

    def skip(self, count: int) -> None:
        """Remove the next `count` bytes, which have been sent. Sending none is an error: the file is too
        short."""
        if not count:
            raise self._too_short(self.length)
        self.position += count
        self.length -= count

    def _too_short(self, missing: int) -> OSError:
        return OSError(f"{self.file.path} is {missing} bytes shorter than the records in it")
