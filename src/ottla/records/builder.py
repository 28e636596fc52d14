"""An open batch of a producer: it collects records one by one and builds the bytes to send.

Like `kernel.py`, this file runs compiled (C types in `builder.pxd`) or as plain Python, with identical
output: the bytes that Kafka's Java client writes for the same records. Records are collected uncompressed
after space for a header, and compressed together when the batch is built. The size of an open compressed
batch is only an estimate, from the compression ratio of the topic's earlier batches.

Rules: a batch changes only through the methods that append, and never after it is closed, except for the
producer's fields in its header. Between the check of `_is_closed` and the last byte of a record, nothing may
run Python code or allocate an object that the garbage collector tracks (its finalizers are Python code): they
could close or grow the batch, and `_raw` would point into freed memory. So `append` converts and packs first,
and `append_packed`, which takes prepared bytes, is a single step when compiled.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ottla.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_crc,
    read_header,
    write_header,
)
from ottla.records.compression import compress
from ottla.wire.errors import MessageTooLarge

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False, nogil=nullcontext())

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_GET_SIZE, PyByteArray_Resize
    from cython.cimports.cpython.ref import Py_REFCNT
    from cython.cimports.libc.string import memcpy

if not cython.compiled:
    from ottla.records.varints import put_varint, varint_size, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    from ottla.records.rows import Rows

    Buffer: TypeAlias = bytes | bytearray | memoryview
    Headers: TypeAlias = Iterable[tuple[str, Buffer | None]]
    Out: TypeAlias = Any  # in C, a pointer to the first byte

RATIO_INITIAL = 1.0
_RATIO_MARGIN = 1.05
_RATIO_BETTER_STEP = 0.005
_RATIO_WORSE_STEP = 0.05

_HEADER_BYTES = HEADER_BYTES
_RECORD_OVERHEAD_MAX = 21
"""Kafka's allowance for the fields of a record before its key: five varints at their longest and a byte."""
_SIZE_MAX = 0x7FFF_FFFF
# Results of `_append`; a larger number is the space that it needs.
_TAKEN = 0
_FULL = 1
_TOO_LARGE = 2
_REFUSED = 3
_ROOM_NEEDED = 4
_ROOM_FIRST = 1024
_ROOM_SECOND = 16384
"""A batch that outgrows this gets its full size at once, so that its records are copied only once more."""
_KEPT_BYTES_MAX = 8 << 20
_kept: list[bytearray] = []
"""Memory of batches that are done, for the next ones: the first use of fresh memory takes longer than copying
a batch into it. Java's producer keeps the whole of `buffer.memory`."""
_kept_bytes = 0
_VARINTS: list[bytes] = []
"""Zigzag varints of -1, 0, 1 and so on, for the plain form."""


def next_ratio(estimated: float, observed: float) -> float:
    """Update a topic's estimated compression ratio after a batch: it rises fast and falls slowly."""
    if observed > estimated:
        return max(estimated + _RATIO_WORSE_STEP, observed)
    if observed < estimated:
        return max(estimated - _RATIO_BETTER_STEP, observed)
    return estimated


class BatchBuilder:
    """A batch of one partition, open until `build`."""

    def __init__(
        self, *, codec: int = 0, level: int | None = None, batch_size: int, ratio: float = RATIO_INITIAL
    ) -> None:
        self.codec = codec
        self.level = level
        self.batch_size = batch_size
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.ratio = ratio if codec else 1.0
        self._limit = batch_size
        self._size = _HEADER_BYTES
        self._data = bytearray(_ROOM_FIRST if cython.compiled else _HEADER_BYTES)
        if cython.compiled:
            self._raw = cython.cast("unsigned char *", self._data)
            self._room = _ROOM_FIRST
        self._sealed: bytearray | None = None
        self._is_closed = False

    @property
    def bytes_estimate(self) -> int:
        """The estimated size of the batch if it were built now."""
        if self._sealed is not None:
            return len(self._sealed)
        return self._estimate()

    @property
    def plain_bytes(self) -> int:
        """The size of the batch before compression."""
        return self._size

    @property
    def is_full(self) -> bool:
        """Whether the batch has reached its size limit: it can be sent, though a tiny record might fit."""
        return self._sealed is not None or (self.count > 0 and self._estimate() >= self.batch_size)

    def _estimate(self) -> int:
        if not self.codec:
            return self._size
        estimated = (self._size - _HEADER_BYTES) * self.ratio * _RATIO_MARGIN
        if cython.compiled:
            return _HEADER_BYTES + cython.cast("Py_ssize_t", estimated)  # type: ignore[no-any-return]
        return _HEADER_BYTES + int(estimated)

    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, headers: Headers | None = None
    ) -> bool:
        """Add a record; False if it no longer fits into this batch.

        The first record always fits. Kafka rejects timestamps before 1970 except -1, which means none.
        """
        if timestamp < -1:
            raise ValueError(f"the timestamp {timestamp} is before 1970: use -1 for none")
        key_bytes = key if key is None or isinstance(key, bytes) else bytes(memoryview(key))
        value_bytes = value if value is None or isinstance(value, bytes) else bytes(memoryview(value))
        header_bytes = None
        header_count = 0
        if headers is not None:
            header_count, header_bytes = pack_headers(headers)
        return self.append_packed(timestamp, key_bytes, value_bytes, header_count, header_bytes) >= 0

    def append_packed(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        header_count: int,
        header_bytes: bytearray | None,
    ) -> int:
        """Add a record with headers from `pack_headers`; return its index, or -1 if it no longer fits.

        Compiled, this runs no Python code and allocates nothing that is tracked: see the rules above.
        """
        if self._is_closed:
            return -1
        header_size = 0 if header_bytes is None else len(header_bytes)
        if cython.compiled:
            key_raw = cython.cast("const unsigned char *", b"" if key is None else key)
            value_raw = cython.cast("const unsigned char *", b"" if value is None else value)
            header_raw = cython.cast("const unsigned char *", b"")
            if header_bytes is not None:
                header_raw = cython.cast("const unsigned char *", header_bytes)
        else:
            key_raw, value_raw, header_raw = key, value, header_bytes
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        status = self._append(
            timestamp, key_raw, key_size, value_raw, value_size, header_count, header_raw, header_size
        )
        if status > _ROOM_NEEDED:
            self._grow(status)
            status = self._append(
                timestamp, key_raw, key_size, value_raw, value_size, header_count, header_raw, header_size
            )
        if status == _TOO_LARGE:
            raise MessageTooLarge("A record of 2 GiB or more does not fit into a batch.")
        return self.count - 1 if status == _TAKEN else -1

    def append_rows(self, rows: Rows, position: int, end: int) -> int:
        """Add rows of Arrow columns from `position` to `end`, in order; return the position of the first that
        does not fit.

        The first row always fits. Rows without headers are added without the interpreter lock.
        """
        if self._is_closed:
            return position
        status = _TAKEN
        while position < end and status == _TAKEN:
            if rows.headers is not None:
                status = self._append_row(rows, position)
                if status == _TAKEN:
                    position += 1
                continue
            before = position
            with cython.nogil:
                position = self._append_plain_rows(rows, position, end)
            if position < end:
                status = self._append_row(rows, position)
                if status == _TAKEN:
                    position += 1
                elif position > before and status == _TOO_LARGE:
                    break
        if status == _TOO_LARGE:
            raise MessageTooLarge("A record of 2 GiB or more does not fit into a batch.")
        return position

    def _append_plain_rows(self, rows: Rows, position: int, end: int) -> int:
        """Add rows as long as they need no headers and no growth; return the position after them."""
        while position < end and self._put_row(rows, position, 0, rows.nothing, 0) == _TAKEN:
            position += 1
        return position

    def _append_row(self, rows: Rows, position: int) -> int:
        """Add one row, with headers or growth if needed."""
        row = rows.order[position] if rows.is_arranged else position
        if rows.has_timestamps and rows.timestamps[row] < -1:
            raise ValueError(f"the timestamp {rows.timestamps[row]} is before 1970: use null for none")
        header_count = 0
        header_bytes = None
        if rows.headers is not None:
            listed = rows.headers.pack(row)
            if listed is not None:
                header_count, header_bytes = pack_headers(listed)
        header_size = 0 if header_bytes is None else len(header_bytes)
        if cython.compiled:
            header_raw = rows.nothing
            if header_bytes is not None:
                header_raw = cython.cast("const unsigned char *", header_bytes)
        else:
            header_raw = header_bytes
        status = self._put_row(rows, position, header_count, header_raw, header_size)
        if status > _ROOM_NEEDED:
            self._grow(status)
            status = self._put_row(rows, position, header_count, header_raw, header_size)
        return status

    def _put_row(
        self, rows: Rows, position: int, header_count: int, header_raw: Out, header_size: int
    ) -> int:
        row = rows.order[position] if rows.is_arranged else position
        timestamp = rows.timestamps[row] if rows.has_timestamps else -1
        if timestamp < 0:
            if timestamp < -1:
                return _REFUSED
            timestamp = rows.now_ms
        key_size = -1
        value_size = -1
        key_raw = value_raw = rows.nothing
        if rows.keys is not None:
            key_size = rows.keys.size(row)
            if key_size > 0:
                key_raw = rows.keys.at(row, key_size)
        if rows.values is not None:
            value_size = rows.values.size(row)
            if value_size > 0:
                value_raw = rows.values.at(row, value_size)
        return self._append(
            timestamp, key_raw, key_size, value_raw, value_size, header_count, header_raw, header_size
        )

    def _append(
        self,
        timestamp: int,
        key: Out,
        key_size: int,
        value: Out,
        value_size: int,
        header_count: int,
        header_raw: Out,
        header_size: int,
    ) -> int:
        """Return _TAKEN, _FULL, _TOO_LARGE, or the number of bytes that `_grow` must first make room for."""
        # Kafka's `sizeOf`: key, value and headers with their lengths.
        content = varint_size(key_size) + varint_size(value_size) + varint_size(header_count) + header_size
        if key_size > 0:
            content += key_size
        if value_size > 0:
            content += value_size
        if self.count == 0:
            self.base_timestamp = timestamp
            self._limit = self.batch_size
            if self._limit < _HEADER_BYTES + _RECORD_OVERHEAD_MAX + content:
                self._limit = _HEADER_BYTES + _RECORD_OVERHEAD_MAX + content
        delta = wrap(timestamp - self.base_timestamp)
        body = 1 + varint_size(delta) + varint_size(self.count) + content
        size = varint_size(body) + body
        if self.count > 0 and self._estimate() + size > self._limit:
            return _FULL
        if self._size + size > _SIZE_MAX:
            return _FULL if self.count > 0 else _TOO_LARGE
        if cython.compiled:
            if self._size + size > self._room:
                return self._size + size
            out = self._raw
            at = put_varint(out, self._size, body)
            out[at] = 0
            at = put_varint(out, at + 1, delta)
            at = put_varint(out, at, self.count)
            at = put_varint(out, at, key_size)
            if key_size > 0:
                memcpy(out + at, key, key_size)
                at += key_size
            at = put_varint(out, at, value_size)
            if value_size > 0:
                memcpy(out + at, value, value_size)
                at += value_size
            at = put_varint(out, at, header_count)
            if header_size > 0:
                memcpy(out + at, header_raw, header_size)
        else:
            parts = (
                _varint_bytes(body),
                b"\x00",
                _varint_bytes(delta),
                _varint_bytes(self.count),
                _varint_bytes(key_size),
                key or b"",
                _varint_bytes(value_size),
                value or b"",
                _varint_bytes(header_count),
                header_raw or b"",
            )
            self._data += b"".join(parts)
        self._size += size
        self.count += 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        return _TAKEN

    def _grow(self, size: int) -> None:
        """Make room for `size` bytes and the following records."""
        if cython.compiled:
            room = max(size, min(self._limit, _ROOM_SECOND if size <= _ROOM_SECOND else self._limit))
            kept = _take_kept(room)
            if kept is not None:
                memcpy(cython.cast("unsigned char *", kept), self._raw, self._size)
                self._data = kept
                self._raw = cython.cast("unsigned char *", kept)
                self._room = room
                return
            PyByteArray_Resize(self._data, room)
            # Only now: if the line above raises for lack of memory, the batch must be unchanged.
            self._raw = cython.cast("unsigned char *", self._data)
            self._room = room

    def limit_to(self, size: int) -> None:
        """Lower `batch_size`: the batch takes no more records once it is that large."""
        if size < self.batch_size:
            self.batch_size = size
            if self._limit > size:
                self._limit = size

    def close(self) -> None:
        """Seal the records, compressed if required; `append` fails from here on."""
        if self._sealed is not None:
            return
        if self.count == 0:
            raise ValueError("a batch needs at least one record")
        self._is_closed = True
        del self._data[self._size :]
        if not self.codec:
            self._sealed = self._data
            return
        sealed = bytearray(_HEADER_BYTES)
        with memoryview(self._data) as plain, plain[_HEADER_BYTES:] as content:
            sealed += compress(self.codec, content, self.level)
        self.ratio = float(len(sealed) - _HEADER_BYTES) / float(self._size - _HEADER_BYTES)
        self._sealed = sealed
        self._drop_data()

    def adopt(self, data: Buffer) -> None:
        """Become a batch that was built elsewhere; `build` writes other producer fields into a copy of it."""
        if self.count or self._sealed is not None:
            raise ValueError("only an empty builder accepts a whole batch")
        header = read_header(data, 0)
        if header.magic != 2 or header.length_bytes != len(data) or header.record_count < 1:
            raise ValueError("this is not one whole batch of records of magic 2")
        check_crc(data, 0, header)
        self.codec = header.codec
        self.count = header.record_count
        self.base_timestamp = header.base_timestamp
        self.max_timestamp = header.max_timestamp
        self._is_closed = True
        self._sealed = bytearray(data)
        self._size = len(data)
        self._data = bytearray()

    def release(self) -> None:
        """Release the bytes: the batch will not be built again."""
        self._is_closed = True
        self._sealed = bytearray()
        self._drop_data()

    def _drop_data(self) -> None:
        """Drop the records, and keep their memory for another batch if nothing else refers to it."""
        data = self._data
        self._data = bytearray()
        if cython.compiled:
            _keep(data, self._room)
            self._room = 0

    def build(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytearray:
        """The batch as it is sent. Afterwards `ratio` is its compression ratio, for `next_ratio`.

        Every call returns the same object; a later call only writes other producer fields into the header.
        """
        if producer_id >= 0 and (producer_epoch < 0 or base_sequence < 0):
            raise ValueError("a batch with a producer id needs its epoch and sequence")
        if transactional and producer_id < 0:
            raise ValueError("a transactional batch needs a producer id")
        self.close()
        sealed = self._sealed
        assert sealed is not None
        header = BatchHeader(
            base_offset=0,
            length=len(sealed) - LOG_OVERHEAD_BYTES,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=2,
            crc=0,
            attributes=self.codec | (TRANSACTIONAL_BIT if transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        )
        write_header(sealed, 0, header)
        return sealed


def _take_kept(room: int) -> bytearray | None:
    """Kept memory of this size. Like all of an append, this runs no Python code: see the rules above."""
    global _kept_bytes
    index = len(_kept)
    while index > 0:
        index -= 1
        if PyByteArray_GET_SIZE(_kept[index]) == room:
            _kept_bytes -= room
            return _kept.pop(index)
    return None


def _keep(data: bytearray, room: int) -> None:
    """Keep the memory of a batch, unless a request that was not written yet, say, still has a view of it."""
    global _kept_bytes
    if room <= _ROOM_SECOND or Py_REFCNT(data) > 1 or len(data) * 2 < room:
        return
    if room > _KEPT_BYTES_MAX:
        return
    while _kept_bytes + room > _KEPT_BYTES_MAX:  # the oldest: sizes of single large records may never return
        _kept_bytes -= PyByteArray_GET_SIZE(_kept[0])
        del _kept[0]
    PyByteArray_Resize(data, room)
    _kept_bytes += room
    _kept.append(data)


def pack_headers(headers: Headers) -> tuple[int, bytearray]:
    """The number of headers and their bytes, for `append_packed`."""
    out = bytearray()
    count = 0
    for name, value in headers:
        encoded = name.encode()
        out += _varint_bytes(len(encoded))
        out += encoded
        if value is None:
            out += _varint_bytes(-1)
        else:
            data = value if isinstance(value, bytes) else bytes(memoryview(value))
            out += _varint_bytes(len(data))
            out += data
        count += 1
    return count, out


def _varint_bytes(value: int) -> bytes:
    """The zigzag varint of `value`."""
    if -1 <= value < len(_VARINTS) - 1:
        return _VARINTS[value + 1]
    return _new_varint(value)


def _new_varint(value: int) -> bytes:
    room = bytearray(10)
    if cython.compiled:
        out = cython.cast("unsigned char *", room)
    else:
        out = room
    end = put_varint(out, 0, value)
    return bytes(room[:end])


_VARINTS.extend([_new_varint(number) for number in range(-1, 8192)])
