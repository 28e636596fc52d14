"""The sparse indexes of a segment: `.index` (offset -> position) and `.timeindex` (timestamp -> offset).

Entries have a fixed size and ascend, so a look-up is a binary search. The newest entries are kept in memory
and written to the file in blocks and when the segment is closed: after an unclean stop the index of the
active segment is rebuilt in any case. Older entries are read through a mapping. Files are never mapped for
writing, so a full disk is an error and not a signal.

An index only gives a position to start from. Callers check it against the log.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import ClassVar

from ottla.ports import Buffer, Disk, MappedFile

logger = logging.getLogger("ottla.log.index")

RELATIVE_OFFSET_MAX = 0x7FFF_FFFF
_BLOCK_BYTES = 4080  # about 4 KiB, and a whole number of entries of either size
_KEPT_BYTES = 2040


class SparseIndex:
    """Entries of a fixed size in a file, the newest of them in memory. Subclasses define what an entry
    holds."""

    __slots__ = (
        "_disk",
        "_map",
        "_tail",
        "_tail_start",
        "_written",
        "base_offset",
        "full_bytes",
        "is_ragged",
        "path",
        "size_bytes",
    )

    ENTRY_BYTES: ClassVar[int]

    def __init__(self, disk: Disk, path: str, base_offset: int, bytes_max: int, size_bytes: int = 0) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self.full_bytes = bytes_max // self.ENTRY_BYTES * self.ENTRY_BYTES
        self.is_ragged = size_bytes % self.ENTRY_BYTES != 0
        """Whether the file ended within an entry when it was opened."""
        self.size_bytes = size_bytes - size_bytes % self.ENTRY_BYTES
        self._written = self.size_bytes  # what the file holds
        self._tail = bytearray()  # entries from byte _tail_start on
        self._tail_start = self.size_bytes
        self._map: MappedFile | None = None  # may end before _tail_start: it is remapped when that matters

    @property
    def count(self) -> int:
        return self.size_bytes // self.ENTRY_BYTES

    def _add(self, entry: bytes) -> None:
        self._tail += entry
        self.size_bytes += self.ENTRY_BYTES
        if len(self._tail) >= _BLOCK_BYTES + _KEPT_BYTES:
            self._spill()

    def _spill(self) -> None:
        """Move the older entries from memory to the file."""
        try:
            self._write_tail()
        except OSError as error:
            # The index is complete in memory and the next entry retries the write, so the append succeeds.
            logger.warning("cannot write index %s yet: %s", self.path, error)
            return
        del self._tail[:_BLOCK_BYTES]
        self._tail_start += _BLOCK_BYTES

    def _write_tail(self) -> None:
        if self._written == self.size_bytes:
            return
        file = self._disk.open(self.path, create=True)
        try:
            file.pwrite([bytes(self._tail[self._written - self._tail_start :])], self._written)
        finally:
            file.close()
        self._written = self.size_bytes

    def write_out(self, *, create: bool = True) -> None:
        """Write all entries to the file, and nothing else. `create`: also an empty file."""
        self._write_tail()
        if not self._disk.exists(self.path):
            if create:
                self._disk.open(self.path, create=True).close()
            return
        file = self._disk.open(self.path)
        try:
            if file.size() != self.size_bytes:
                file.truncate(self.size_bytes)
        finally:
            file.close()

    def truncate_entries(self, count: int) -> None:
        """Keep the first `count` entries."""
        size = count * self.ENTRY_BYTES
        if size >= self.size_bytes:
            return
        if size < self._tail_start:
            self._unmap()
        if self._written > size:
            file = self._disk.open(self.path, create=True)  # if that fails, the index is as it was
            try:
                file.truncate(size)
            finally:
                file.close()
            self._written = size
        self.size_bytes = size
        if size >= self._tail_start:
            del self._tail[size - self._tail_start :]
        else:
            self._tail = bytearray()
            self._tail_start = size

    def release(self) -> None:
        """Release memory and mapping; the next look-up loads them again."""
        if self._written == self.size_bytes:
            self._tail = bytearray()
            self._tail_start = self.size_bytes
        self._unmap()

    def close(self) -> None:
        self._unmap()

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None

    def _load(self) -> None:
        """Make the entries before the tail readable: a small index is read, a large one mapped."""
        start = self._tail_start
        if start <= _BLOCK_BYTES:
            older = self._disk.read(self.path)[:start] if start else b""
            older += bytes(start - len(older))  # a truncated file reads as zeros, which no check accepts
            self._tail = bytearray(older) + self._tail
            self._tail_start = 0
            return
        self._unmap()
        self._map = self._disk.map(self.path, start)

    def _bytes_at(self, position: int) -> tuple[Buffer, int]:
        """A buffer that holds the entry at byte `position` of the index, and where."""
        if position >= self._tail_start:
            return self._tail, position - self._tail_start
        if self._map is None or len(self._map.view) < self._tail_start:
            self._load()
            return self._bytes_at(position)
        return self._map.view, position

    def _search(self, key: Struct, target: int) -> int:
        """The number of the last entry whose key is at most `target`, -1 if there is none."""
        size = self.ENTRY_BYTES
        count = self.size_bytes // size
        if not count:
            return -1
        buffer: Buffer = self._tail
        first = self._tail_start // size
        if not buffer or key.unpack_from(buffer)[0] > target:
            # Not among the newest entries: search those before them.
            if first == 0:
                return -1
            buffer, _ = self._bytes_at(0)
            if self._tail_start:
                count = first
            first = 0
        unpack = key.unpack_from
        low, high = -1, count - first - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if unpack(buffer, middle * size)[0] > target:
                high = middle - 1
            else:
                low = middle
        return low + first if low >= 0 else -1


_OFFSET_ENTRY = Struct(">ii")
_RELATIVE = Struct(">i")


class OffsetIndex(SparseIndex):
    """`.index`: the last offset of a batch, relative to the segment, and the position of that batch."""

    __slots__ = ()
    ENTRY_BYTES = 8

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= self.full_bytes

    def append(self, offset: int, position: int) -> None:
        self._add(_OFFSET_ENTRY.pack(offset - self.base_offset, position))

    def entry(self, number: int) -> tuple[int, int]:
        """(offset, position) of an entry."""
        buffer, at = self._bytes_at(number * 8)
        relative, position = _OFFSET_ENTRY.unpack_from(buffer, at)
        return self.base_offset + relative, position

    def last(self) -> tuple[int, int]:
        """The last entry, or the start of the segment."""
        return self.entry(self.count - 1) if self.size_bytes else (self.base_offset, 0)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry at or before `offset`, or the start of the segment."""
        number = self._search(_RELATIVE, offset - self.base_offset)
        return self.entry(number) if number >= 0 else (self.base_offset, 0)

    def offset_at_or_after_position(self, position: int) -> int | None:
        """The offset of the first entry whose batch begins at or after `position`."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) >> 1
            if self.entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return self.entry(low)[0] if low < self.count else None

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        self.truncate_entries(self._search(_RELATIVE, offset - self.base_offset - 1) + 1)

    def problem(self, log_bytes: int) -> str | None:
        """Why this index cannot belong to a log of `log_bytes` bytes, or None. Looks at its ends only."""
        if not self.size_bytes:
            return None
        (first, first_position), (last, last_position) = self.entry(0), self.last()
        if first < self.base_offset or last < first or (self.count > 1 and last == first):
            return f"its offsets {first} to {last} do not fit the segment of offset {self.base_offset}"
        if first_position < 0 or last_position < first_position or last_position >= max(log_bytes, 1):
            return f"it points to byte {last_position} of a log of {log_bytes} bytes"
        return None


_TIME_ENTRY = Struct(">qi")
_TIMESTAMP = Struct(">q")


class TimeIndex(SparseIndex):
    """`.timeindex`: the largest timestamp so far, and the last offset of the batch that has it."""

    __slots__ = ("_last",)
    ENTRY_BYTES = 12

    def __init__(self, disk: Disk, path: str, base_offset: int, bytes_max: int, size_bytes: int = 0) -> None:
        super().__init__(disk, path, base_offset, bytes_max, size_bytes)
        self.full_bytes -= self.ENTRY_BYTES  # one place is kept for the roll
        self._last: tuple[int, int] | None = None if self.size_bytes else (-1, base_offset)

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= self.full_bytes

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is new."""
        if timestamp > self.last()[0]:
            self._add(_TIME_ENTRY.pack(timestamp, offset - self.base_offset))
            self._last = timestamp, offset

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp, offset) of an entry."""
        buffer, at = self._bytes_at(number * 12)
        timestamp, relative = _TIME_ENTRY.unpack_from(buffer, at)
        return timestamp, self.base_offset + relative

    def last(self) -> tuple[int, int]:
        """The last entry, or (-1, the segment's offset)."""
        if self._last is None:
            self._last = self.entry(self.count - 1) if self.size_bytes else (-1, self.base_offset)
        return self._last

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or before `timestamp`, or (-1, the segment's offset)."""
        number = self._search(_TIMESTAMP, timestamp)
        return self.entry(number) if number >= 0 else (-1, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries of offsets below `offset`."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) >> 1
            if self.entry(middle)[1] < offset:
                low = middle + 1
            else:
                high = middle
        self.truncate_entries(low)

    def truncate_entries(self, count: int) -> None:
        super().truncate_entries(count)
        self._last = None

    def problem(self) -> str | None:
        """Why this index cannot be right, or None. Looks at its ends only."""
        if not self.size_bytes:
            return None
        first, last = self.entry(0), self.last()
        if last[0] < first[0] or first[0] < 0 or (self.count > 1 and last[0] == first[0]):
            return f"its timestamps run backwards from {first[0]} to {last[0]}"
        if last[1] < first[1] or first[1] < self.base_offset:
            return f"its offsets {first[1]} to {last[1]} do not fit the segment of offset {self.base_offset}"
        return None
