"""Records as columns: `RecordReader.fill` collects them for an Arrow record batch, with no object per record.

Like `kernel.py`, this file runs compiled (C types in `columns.pxd`) or as plain Python. Every column is a
growing buffer in Arrow's layout: 32-bit end offsets of binary columns, validity bits. Rule: the reader checks
the bounds that it passes to `add`, and calls `has_room` first, because an end offset has 32 bits.
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

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_Resize
    from cython.cimports.libc.string import memcpy

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte
    Store: TypeAlias = Any  # a bytearray, or the array that plain Python appends to

_BYTES_MAX = 0x7FFF_FFFF
_ROOM_FIRST = 4096


class Binaries:
    """A binary column: the end offset of each cell, the validity bits, and the bytes of all cells."""

    def __init__(self) -> None:
        self.count = 0
        self.nulls = 0
        self.used = 0
        self.valid: Store = bytearray()
        self.ends: Store = bytearray(4) if cython.compiled else array("i", [0])
        self.data: Store = bytearray()

    def has_room(self, size: int) -> bool:
        return size <= _BYTES_MAX - self.used

    def add(self, raw: Bytes, start: int, end: int) -> None:
        """Add the bytes from `start` to `end`, or null if `start` is negative."""
        count = self.count
        if cython.compiled:
            if len(self.ends) < 4 * (count + 2):
                _grow(self.ends, 4 * (count + 2))
            if len(self.valid) <= count >> 3:
                _grow(self.valid, (count >> 3) + 1)
            bits = cython.cast("unsigned char *", self.valid)
            if not count & 7:
                bits[count >> 3] = 0
            if start >= 0:
                size = end - start
                if len(self.data) - self.used < size:
                    _grow(self.data, self.used + size)
                memcpy(cython.cast("unsigned char *", self.data) + self.used, raw + start, size)
                self.used += size
                bits[count >> 3] |= 1 << (count & 7)
            else:
                self.nulls += 1
            cython.cast("int *", cython.cast("unsigned char *", self.ends))[count + 1] = self.used
        else:
            if not count & 7:
                self.valid.append(0)
            if start >= 0:
                self.data += raw[start:end]
                self.used += end - start
                self.valid[count >> 3] |= 1 << (count & 7)
            else:
                self.nulls += 1
            self.ends.append(self.used)
        self.count = count + 1


class Columns:
    """The columns of the records collected so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.keys = Binaries()
        self.values = Binaries()
        self.header_names = Binaries()
        self.header_values = Binaries()
        self.offsets: Store = bytearray() if cython.compiled else array("q")
        self.timestamps: Store = bytearray() if cython.compiled else array("q")
        self.timestamp_types: Store = bytearray() if cython.compiled else array("i")
        self.partitions: Store = bytearray() if cython.compiled else array("i")
        self.topics: Store = bytearray() if cython.compiled else array("i")
        self.header_ends: Store = bytearray(4) if cython.compiled else array("i", [0])

    def reserve(self, rows: int, value_bytes: int) -> None:
        """Allocate memory for this many rows and bytes of values. Columns that grow to it instead are copied
        several times on the way.
        """
        if cython.compiled:
            if len(self.values.data) < value_bytes:
                PyByteArray_Resize(self.values.data, value_bytes)
            for store in (self.offsets, self.timestamps):
                if len(store) < 8 * rows:
                    PyByteArray_Resize(store, 8 * rows)
            for store in (self.timestamp_types, self.partitions, self.topics):
                if len(store) < 4 * rows:
                    PyByteArray_Resize(store, 4 * rows)
            for store in (self.keys.ends, self.values.ends, self.header_ends):
                if len(store) < 4 * (rows + 1):
                    PyByteArray_Resize(store, 4 * (rows + 1))

    def has_room(self, size: int) -> bool:
        """Whether a record of `size` bytes can be added: no column may exceed 2 GiB."""
        return (
            self.keys.has_room(size)
            and self.values.has_room(size)
            and self.header_names.has_room(size)
            and self.header_values.has_room(size)
        )

    def add(self, offset: int, timestamp: int, timestamp_type: int, partition: int, topic: int) -> None:
        """Add the fixed-size fields of a record. Its headers were added before."""
        row = self.rows
        if cython.compiled:
            if len(self.offsets) < 8 * (row + 1):
                _grow(self.offsets, 8 * (row + 1))
                _grow(self.timestamps, 8 * (row + 1))
            if len(self.topics) < 4 * (row + 1):
                _grow(self.timestamp_types, 4 * (row + 1))
                _grow(self.partitions, 4 * (row + 1))
                _grow(self.topics, 4 * (row + 1))
            if len(self.header_ends) < 4 * (row + 2):
                _grow(self.header_ends, 4 * (row + 2))
            cython.cast("long long *", cython.cast("unsigned char *", self.offsets))[row] = offset
            cython.cast("long long *", cython.cast("unsigned char *", self.timestamps))[row] = timestamp
            cython.cast("int *", cython.cast("unsigned char *", self.timestamp_types))[row] = timestamp_type
            cython.cast("int *", cython.cast("unsigned char *", self.partitions))[row] = partition
            cython.cast("int *", cython.cast("unsigned char *", self.topics))[row] = topic
            cython.cast("int *", cython.cast("unsigned char *", self.header_ends))[row + 1] = (
                self.header_names.count
            )
        else:
            self.offsets.append(offset)
            self.timestamps.append(timestamp)
            self.timestamp_types.append(timestamp_type)
            self.partitions.append(partition)
            self.topics.append(topic)
            self.header_ends.append(self.header_names.count)
        self.rows = row + 1


def _grow(store: Any, size: int) -> None:
    """Grow a bytearray to at least `size`, plus half."""
    if cython.compiled:
        PyByteArray_Resize(store, max(size + (size >> 1), _ROOM_FIRST))
