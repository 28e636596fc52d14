"""Rows of Arrow columns for record batches: assigns partitions, and locates the bytes of cells.

Like `kernel.py`, this file runs compiled (C types in `rows.pxd`) or as plain Python, and
`BatchBuilder.append_rows` reads keys and values directly from the columns' buffers. Rule: buffers come from
valid Arrow arrays, so their offsets are trusted; row numbers and partitions are checked.
"""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if not cython.compiled:
    from ottla.records.key_hash import key_partition

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Buffer: TypeAlias = bytes | bytearray | memoryview
    Bytes: TypeAlias = Any  # in C, a pointer to the first byte

_NOTHING = b""


class Cells:
    """One binary column: 64-bit offsets, the bytes, and the validity bits (or None)."""

    def __init__(self, first: int, valid: Buffer | None, offsets: Buffer, data: Buffer) -> None:
        self.first = first
        self.has_nulls = valid is not None
        self.valid: Any = memoryview(b"\x00" if valid is None else valid).cast("B")
        self.offsets: Any = memoryview(offsets).cast("B").cast("q")
        self.data: Any = memoryview(data).cast("B") if len(data) else memoryview(b"\x00")

    def is_null(self, row: int) -> bool:
        at = self.first + row
        return self.has_nulls and not (self.valid[at >> 3] >> (at & 7)) & 1

    def start(self, row: int) -> int:
        return self.offsets[self.first + row]  # type: ignore[no-any-return]

    def at(self, row: int, size: int) -> Bytes:
        """The bytes of a cell of `size` bytes."""
        if cython.compiled:
            return cython.address(self.data[self.start(row)])
        return bytes(self.data[self.start(row) : self.start(row) + size])

    def size(self, row: int) -> int:
        """The size of the cell, or -1 if it is null."""
        if self.is_null(row):
            return -1
        return self.offsets[self.first + row + 1] - self.offsets[self.first + row]  # type: ignore[no-any-return]


class Lists:
    """The headers of rows: the range of flat name and value cells for each row."""

    def __init__(
        self, first: int, valid: Buffer | None, offsets: Buffer, names: Cells, values: Cells
    ) -> None:
        self.first = first
        self.has_nulls = valid is not None
        self.valid: Any = memoryview(b"\x00" if valid is None else valid).cast("B")
        self.offsets: Any = memoryview(offsets).cast("B").cast("q")
        self.names = names
        self.values = values

    def pack(self, row: int) -> list[tuple[str, bytes | None]] | None:
        """The headers of a row as values; None if it has none."""
        at = self.first + row
        if self.has_nulls and not (self.valid[at >> 3] >> (at & 7)) & 1:
            return None
        found = []
        for index in range(self.offsets[at], self.offsets[at + 1]):
            name = self._cell(self.names, index)
            if name is None:
                raise ValueError(f"a header of row {row} has no name")
            found.append((name.decode(), self._cell(self.values, index)))
        return found or None

    def _cell(self, cells: Cells, index: int) -> bytes | None:
        size = cells.size(index)
        start = cells.start(index)
        return None if size < 0 else bytes(cells.data[start : start + size])


class Rows:
    """The rows of one Arrow record batch to send."""

    def __init__(
        self,
        count: int,
        keys: Cells | None,
        values: Cells | None,
        headers: Lists | None,
        timestamps: Buffer | None,
        partitions: Buffer | None,
        now_ms: int,
    ) -> None:
        self.count = count
        self.keys = keys
        self.values = values
        self.headers = headers
        self.nothing: Bytes = cython.cast("const unsigned char *", _NOTHING) if cython.compiled else _NOTHING
        self.has_timestamps = timestamps is not None
        self.timestamps: Any = memoryview(bytes(8) if timestamps is None else timestamps).cast("B").cast("q")
        self.has_partitions = partitions is not None
        self.partitions: Any = memoryview(bytes(4) if partitions is None else partitions).cast("B").cast("i")
        self.now_ms = now_ms
        self.is_arranged = False
        self.order: Any = array("q", [0])

    def arrange(self, partition_count: int, *, ignore_keys: bool = False) -> list[int]:
        """Sort the rows by partition; return the start of each partition, and the end as the last number.

        A row goes to its own partition, if that is not -1, or else to the partition of its key. Rows with
        neither come first: the first number in the list is 0, their start, and the second is the start of
        partition 0. If all rows are like that, they keep their order and `is_arranged` stays false.
        """
        if not self.has_partitions and (self.keys is None or ignore_keys):
            return [0] + [self.count] * (partition_count + 1)
        self.is_arranged = True
        self.order = array("q", bytes(8 * max(self.count, 1)))
        starts: Any = array("q", bytes(8 * (partition_count + 3)))
        chosen: Any = array("i", bytes(4 * max(self.count, 1)))
        wrong = self._choose(partition_count, ignore_keys, starts, chosen)
        if wrong >= 0:
            partition = self.partitions[wrong]
            raise ValueError(
                f"row {wrong} has partition {partition}, but the topic has {partition_count} partitions"
            )
        self._sort(partition_count, starts, chosen)
        return list(starts[: partition_count + 2])

    def _choose(self, partition_count: int, ignore_keys: bool, starts: Any, chosen: Any) -> int:
        """Store the partition of each row in `chosen` and count the rows per partition; return an invalid
        row, or -1."""
        keys = self.keys
        row = 0
        while row < self.count:
            place = 0
            partition = -1
            if self.has_partitions:
                partition = self.partitions[row]
                if partition < -1 or partition >= partition_count:
                    return row
            if partition >= 0:
                place = partition + 1
            elif keys is not None and not ignore_keys:
                size = keys.size(row)
                if size >= 0:
                    if cython.compiled:
                        raw = cython.address(keys.data[0])
                    else:
                        raw = keys.data
                    place = key_partition(raw, keys.start(row), size, partition_count) + 1
            chosen[row] = place
            starts[place + 1] += 1
            row += 1
        return -1

    def _sort(self, partition_count: int, starts: Any, chosen: Any) -> None:
        """Turn counts into positions, and put each row into the next position of its partition."""
        place = 1
        while place < partition_count + 2:
            starts[place] += starts[place - 1]
            place += 1
        next_places: Any = array("q", bytes(8 * (partition_count + 2)))
        place = 0
        while place < partition_count + 1:
            next_places[place] = starts[place]
            place += 1
        row = 0
        while row < self.count:
            place = chosen[row]
            self.order[next_places[place]] = row
            next_places[place] += 1
            row += 1
