"""Where the bytes of an answer lie: what `Log.locate` finds and a connection sends."""

from __future__ import annotations

from ottla.ports import File


class FileSlice:
    """Bytes of a file, which may be parked meanwhile, and cannot be read once the segment is gone.

    A connection sends them as they are, when their turn comes; what has been sent is off the slice.
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
        """Take the next `count` bytes off the slice, or all of them."""
        if count < 0 or count > self.length:
            count = self.length
        data = self.file.pread(count, self.position)
        if len(data) != count:
            raise self._too_short(count - len(data))
        self.skip(count)
        return data

    def skip(self, count: int) -> None:
        """Leave out the next `count` bytes, which have been sent; there are always some."""
        if not count:
            raise self._too_short(self.length)
        self.position += count
        self.length -= count

    def _too_short(self, missing: int) -> OSError:
        return OSError(f"{self.file.path} ends {missing} bytes before the records it should hold")
