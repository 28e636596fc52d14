"""Decodes fetched bytes into records for a consumer, batch by batch, and only as many as requested.

Like `kernel.py`, this file runs compiled (C types in `reader.pxd`) or as plain Python, with identical
results. It skips what a consumer must not see: control records, records before the requested offset and, for
read_committed, those of aborted transactions. `next_offset` moves past all of them.

Rules: a varint is never trusted: its value is compared with the remaining bytes before anything is read or
skipped (the compiled form has no other bounds checks, and no negative list indexes). Records before an
invalid one are returned first; after that each call raises the same CorruptMessage. `next_offset` never
decreases.
"""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ottla.records.batch import (
    BASE_OFFSET_MAX,
    CONTROL_BIT,
    HEADER_BYTES,
    LEGACY_LENGTH_MIN,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    OFFSET_LENGTH,
    TRANSACTIONAL_BIT,
    TimestampType,
    check_crc,
    read_header,
)
from ottla.records.compression import DECOMPRESSED_BYTES_MAX
from ottla.records.consumer_record import ConsumerRecord
from ottla.records.control import ControlType, control_type
from ottla.records.kernel import HEADERS_AT_ONCE, HEADERS_IN_COLUMNS, HEADERS_MAX
from ottla.records.legacy import read_entry
from ottla.records.record import read_batch, read_content
from ottla.wire.errors import CorruptMessage, KafkaError

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.cpython.ref import Py_INCREF
    from cython.cimports.cpython.tuple import PyTuple_SET_ITEM
    from cython.cimports.ottla.records.native import is_collectable, new_untracked_tuple, track

if not cython.compiled:
    from ottla.records.varints import headers_end, varint, varlong, varlong_end, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from ottla.records.batch import BatchHeader
    from ottla.records.columns import Binaries, Columns

    Buffer: TypeAlias = bytes | bytearray | memoryview
    Bytes: TypeAlias = Any  # in C, a pointer to the first byte
    Numbers: TypeAlias = Any  # in C, a pointer to the first 64-bit number
    Deserializer: TypeAlias = Callable[[str, bytes, tuple[tuple[str, bytes | None], ...]], Any]

# Where `_scan` stores the fields of a record.
_TIMESTAMP_DELTA = 0
_OFFSET_DELTA = 1
_KEY_START = 2
_KEY_END = 3
_VALUE_START = 4
_VALUE_END = 5
_HEADER_COUNT = 6
_HEADERS_START = 7
_NOTES = 8

_HEADER_BYTES = HEADER_BYTES
_HEADERS_MAX = HEADERS_MAX
_TOO_MANY_HEADERS = f"a record has more than {HEADERS_MAX} headers"
_HEADERS_AT_ONCE = HEADERS_AT_ONCE
_HEADERS_IN_COLUMNS = HEADERS_IN_COLUMNS
_RECORD_FIELDS = 9
_NO_HEADERS = ()
_RECORD = ConsumerRecord
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


class UnreadableRecord(ValueError):
    """A deserializer failed on the key or the value of a record; seek past its offset to skip it."""

    def __init__(self, topic: str, partition: int, offset: int, part: str, cause: Exception) -> None:
        place = f"offset {offset} of {topic}-{partition}"
        super().__init__(f"Cannot deserialize the {part} of the record at {place}: {cause}")
        self.topic = topic
        self.partition = partition
        self.offset = offset


def records_of(
    topic: str,
    partition: int,
    buffer: Buffer,
    *,
    from_offset: int,
    aborted: Sequence[tuple[int, int]] = (),
    read_committed: bool = False,
    check_crcs: bool = True,
    max_records: int | None = None,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> RecordReader:
    """A reader of the batches in `buffer`, whose last batch may be incomplete.

    `aborted` has (producer id, first offset) of aborted transactions, from the fetch response. A deserializer
    is called with the topic, the bytes and the record's headers; None stays None without a call.
    """
    reader = RecordReader(topic, partition, buffer, from_offset)
    reader.check_crcs = check_crcs
    reader.decompressed_bytes_max = decompressed_bytes_max
    reader.key_deserializer = key_deserializer
    reader.value_deserializer = value_deserializer
    if read_committed:
        # In reverse order: the next transaction is the last element.
        reader.aborted = sorted(((first, producer) for producer, first in aborted), reverse=True)
        reader.aborted_now = set()
    if max_records is not None:
        reader.allowance = max_records
    return reader


class RecordReader:
    """Use `records_of`."""

    def __init__(self, topic: str, partition: int, buffer: Buffer, from_offset: int) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = from_offset
        self.exhausted = False
        self.last_leader_epoch: int | None = None
        self.check_crcs = True
        self.decompressed_bytes_max = DECOMPRESSED_BYTES_MAX
        self.key_deserializer: Deserializer | None = None
        self.value_deserializer: Deserializer | None = None
        self.aborted: list[tuple[int, int]] | None = None
        self.aborted_now: set[int] | None = None
        self.allowance = -1
        self.ended_early = False
        self._headers_left = 0
        self._buffer = memoryview(buffer)
        self._at = 0
        self._failure: Exception | None = None
        self._notes = array("q", bytes(8 * _NOTES))
        # The current batch: its bytes, the number of records left in it, and their common fields.
        self._content: Any = b"\x00"
        self._position = 0
        self._end = 0
        self._left = 0
        self._base_offset = 0
        self._base_timestamp = 0
        self._append_timestamp = -1
        self._offset_after = from_offset
        self._timestamp_type = _TIMESTAMP_TYPES[0]
        self._leader_epoch: int | None = None
        # The timestamp of the last record, also as an object: neighbours often have the same.
        self._timestamp = 0
        self._timestamp_object: Any = 0
        self._legacy: list[tuple[int, int, bytes | None, bytes | None]] | None = None

    def take(self, count: int) -> list[ConsumerRecord[Any, Any]]:
        """Up to `count` of the next records; an empty list at the end.

        A few bytes can hold millions of empty headers. A call creates at most `HEADERS_AT_ONCE` of them, or
        those of one record; `ended_early` says that it returned fewer records for that reason.
        """
        out: list[ConsumerRecord[Any, Any]] = []
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # otherwise the traceback grows each time
        if self.allowance >= 0:
            count = min(count, self.allowance)
        self.ended_early = False
        self._headers_left = _HEADERS_AT_ONCE
        try:
            while len(out) < count and not self.ended_early:
                if self._legacy is not None:
                    self._take_legacy(out, count)
                elif self._left > 0:
                    self._take(out, count)
                elif not self._next_batch():
                    break
        except (KafkaError, UnreadableRecord) as failure:
            self._failure = failure
            if not out:
                raise
        self._settle(len(out))
        return out

    def fill(self, columns: Columns, count: int, topic_index: int = 0) -> int:
        """Add up to `count` of the next records to `columns`, without deserializing; return their number.

        `topic_index` represents the topic in its column.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # otherwise the traceback grows each time
        if self.allowance >= 0:
            count = min(count, self.allowance)
        before = columns.rows
        try:
            while columns.rows - before < count:
                if self._legacy is not None:
                    self._fill_legacy(columns, before + count, topic_index)
                elif self._left > 0:
                    if not self._fill(columns, before + count, topic_index):
                        break
                elif not self._next_batch():
                    break
        except KafkaError as failure:
            self._failure = failure
            if columns.rows == before:
                raise
        self._settle(columns.rows - before)
        return columns.rows - before

    def _settle(self, taken: int) -> None:
        """Leave a batch once all its records are taken, and record whether more follows."""
        if self.allowance >= 0:
            self.allowance -= taken
            if self.allowance == 0:
                self.exhausted = True
                return
        if self._failure is None and self._left == 0 and self._legacy is None:
            self.next_offset = max(self.next_offset, self._offset_after)
            if len(self._buffer) - self._at <= MAGIC_POSITION:
                self.exhausted = True

    def _next_batch(self) -> bool:
        """Open the next batch with visible records; False at the end of the buffer."""
        self.next_offset = max(self.next_offset, self._offset_after)
        buffer = self._buffer
        while True:
            at = self._at
            room = len(buffer) - at
            if room <= MAGIC_POSITION:
                break
            _, length = OFFSET_LENGTH.unpack_from(buffer, at)
            if length < LEGACY_LENGTH_MIN:
                raise self._corrupt(f"batch length {length} is invalid")
            if length > room - LOG_OVERHEAD_BYTES:
                break
            try:
                header = read_header(buffer, at)
                if self.check_crcs:
                    check_crc(buffer, at, header)
                if header.last_offset_delta < 0 or not 0 <= header.base_offset <= BASE_OFFSET_MAX:
                    raise CorruptMessage(f"base offset {header.base_offset} is invalid")
                opened = self._open(at, header)
            except KafkaError as cause:
                raise self._corrupt(str(cause)) from cause
            self._at = at + length + LOG_OVERHEAD_BYTES
            self._offset_after = header.base_offset + header.last_offset_delta + 1
            if opened:
                return True
            self.next_offset = max(self.next_offset, self._offset_after)
        self.exhausted = True
        return False

    def _open(self, at: int, header: BatchHeader) -> bool:
        """Make the batch the current one, unless the consumer must not see any of it."""
        if header.magic < 2:
            if header.base_offset < self.next_offset:
                return False
            entries = read_entry(self._buffer, at, header, self.decompressed_bytes_max)
            if not all(0 <= entry[0] <= BASE_OFFSET_MAX for entry in entries):
                raise CorruptMessage("it contains a message with an invalid offset")
            self._legacy = entries[::-1]
            self._share(header)
            return True
        if self.aborted is not None and header.producer_id >= 0 and self._is_aborted(at, header):
            return False
        if (
            header.attributes & CONTROL_BIT
            or header.base_offset + header.last_offset_delta < self.next_offset
        ):
            return False
        if header.record_count < 0:
            raise CorruptMessage(f"record count {header.record_count} is invalid")
        content = read_content(self._buffer, at, header, decompressed_bytes_max=self.decompressed_bytes_max)
        if header.record_count == 0:
            return False
        if len(content) == 0:
            raise CorruptMessage("its records are missing")
        self._share(header)
        self._content = content
        self._position = 0
        self._end = len(content)
        self._left = header.record_count
        return True

    def _share(self, header: BatchHeader) -> None:
        stamped = header.timestamp_type == TimestampType.LOG_APPEND_TIME
        self._timestamp_type = _TIMESTAMP_TYPES[stamped]
        self._append_timestamp = header.max_timestamp if stamped else -1
        self._base_offset = header.base_offset
        self._base_timestamp = header.base_timestamp
        epoch = header.partition_leader_epoch
        self._leader_epoch = epoch if epoch >= 0 else None

    def _is_aborted(self, at: int, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction. An abort marker ends its producer's
        transaction."""
        assert self.aborted is not None
        assert self.aborted_now is not None
        last_offset = header.base_offset + header.last_offset_delta
        while self.aborted and self.aborted[len(self.aborted) - 1][0] <= last_offset:
            self.aborted_now.add(self.aborted.pop()[1])
        if header.attributes & CONTROL_BIT:
            marker = read_batch(self._buffer, at, header, verify=False)
            if marker and control_type(marker[0].key) == ControlType.ABORT:
                self.aborted_now.discard(header.producer_id)
            return False
        return bool(header.attributes & TRANSACTIONAL_BIT) and header.producer_id in self.aborted_now

    def _corrupt(self, why: str) -> CorruptMessage:
        return CorruptMessage(
            f"The bytes of {self.topic}-{self.partition} at offset {self.next_offset} are corrupt: {why}"
        )

    def _take(self, out: list[ConsumerRecord[Any, Any]], count: int) -> None:
        """Take records of the current batch until `out` has `count` of them or the batch ends."""
        content = self._content
        if cython.compiled:
            raw = cython.address(content[0])
            notes = cython.address(self._notes[0])
        else:
            raw = content if isinstance(content, bytes) else bytes(content)
            self._content = raw
            notes = self._notes
        end = self._end
        taken = len(out)
        while self._left > 0 and taken < count:
            after = _scan(raw, self._position, end, notes)
            if after < 0:
                raise self._corrupt("a record exceeds the bounds of its batch")
            if notes[_HEADER_COUNT] > _HEADERS_MAX:
                raise self._corrupt(_TOO_MANY_HEADERS)
            offset = self._base_offset + notes[_OFFSET_DELTA]
            if offset >= self.next_offset:
                if notes[_HEADER_COUNT] > self._headers_left and taken > 0:
                    self.ended_early = True
                    break
                self._headers_left -= notes[_HEADER_COUNT]
                self._add(out, raw, notes, offset)
                taken += 1
                self.next_offset = offset + 1
            self._position = after
            self._left -= 1
        self.last_leader_epoch = self._leader_epoch
        if self._left == 0 and self._position != end:
            raise self._corrupt(f"{end - self._position} bytes are left after the last record of a batch")

    def _fill(self, columns: Columns, count: int, topic_index: int) -> bool:
        """Like `_take`, but into columns; False if they have no room for the next record."""
        content = self._content
        if cython.compiled:
            raw = cython.address(content[0])
            notes = cython.address(self._notes[0])
        else:
            raw = content if isinstance(content, bytes) else bytes(content)
            self._content = raw
            notes = self._notes
        end = self._end
        stamped = 0 if self._append_timestamp == -1 else 1
        partition = self.partition
        room = True
        while self._left > 0 and columns.rows < count:
            after = _scan(raw, self._position, end, notes)
            if after < 0:
                raise self._corrupt("a record exceeds the bounds of its batch")
            if notes[_HEADER_COUNT] > _HEADERS_MAX:
                raise self._corrupt(_TOO_MANY_HEADERS)
            offset = self._base_offset + notes[_OFFSET_DELTA]
            if offset >= self.next_offset:
                room = columns.has_room(after - self._position) and (
                    columns.header_names.count < _HEADERS_IN_COLUMNS
                )
                if not room:
                    break
                timestamp = self._append_timestamp
                if not stamped:
                    timestamp = wrap(self._base_timestamp + notes[_TIMESTAMP_DELTA])
                columns.keys.add(raw, notes[_KEY_START], notes[_KEY_END])
                columns.values.add(raw, notes[_VALUE_START], notes[_VALUE_END])
                if notes[_HEADER_COUNT] > 0:
                    _fill_headers(columns, raw, notes[_HEADERS_START], end, notes[_HEADER_COUNT])
                columns.add(offset, timestamp, stamped, partition, topic_index)
                self.next_offset = offset + 1
            self._position = after
            self._left -= 1
        self.last_leader_epoch = self._leader_epoch
        if self._left == 0 and self._position != end:
            raise self._corrupt(f"{end - self._position} bytes are left after the last record of a batch")
        return room

    def _fill_legacy(self, columns: Columns, count: int, topic_index: int) -> None:
        """Add messages of the old formats to columns."""
        waiting = self._legacy
        assert waiting is not None
        stamped = self._timestamp_type == _TIMESTAMP_TYPES[1]
        while waiting and columns.rows < count:
            offset, timestamp, key, value = waiting.pop()
            if offset >= self.next_offset:
                _fill_bytes(columns.keys, key)
                _fill_bytes(columns.values, value)
                columns.add(offset, timestamp, stamped, self.partition, topic_index)
                self.next_offset = offset + 1
        self.last_leader_epoch = None
        if not waiting:
            self._legacy = None

    def _add(self, out: list[ConsumerRecord[Any, Any]], raw: Bytes, notes: Numbers, offset: int) -> None:
        timestamp = self._append_timestamp
        if timestamp == -1:
            timestamp = wrap(self._base_timestamp + notes[_TIMESTAMP_DELTA])
        key: Any = None
        if notes[_KEY_START] >= 0:
            key = raw[notes[_KEY_START] : notes[_KEY_END]]
        value: Any = None
        if notes[_VALUE_START] >= 0:
            value = raw[notes[_VALUE_START] : notes[_VALUE_END]]
        headers: Any = _NO_HEADERS
        if notes[_HEADER_COUNT] > 0:
            headers = _read_headers(raw, notes[_HEADERS_START], self._end, notes[_HEADER_COUNT])
        if key is not None and self.key_deserializer is not None:
            key = self._deserialize(self.key_deserializer, "key", key, headers, offset)
        if value is not None and self.value_deserializer is not None:
            value = self._deserialize(self.value_deserializer, "value", value, headers, offset)
        if cython.compiled:
            # The same as `ConsumerRecord(...)`, without the call. Bytes are never part of a reference cycle,
            # so the garbage collector need not visit such a record: visits would cost more than all of this.
            if timestamp != self._timestamp:
                self._timestamp_object = timestamp
                self._timestamp = timestamp
            offset_object: Any = offset  # now: between here and the last field nothing may fail
            record = new_untracked_tuple(cython.cast("PyTypeObject *", _RECORD), _RECORD_FIELDS)
            _set(record, 0, self.topic)
            _set(record, 1, self.partition)
            _set(record, 2, offset_object)
            _set(record, 3, self._timestamp_object)
            _set(record, 4, self._timestamp_type)
            _set(record, 5, key)
            _set(record, 6, value)
            _set(record, 7, headers)
            _set(record, 8, self._leader_epoch)
            if is_collectable(key) or is_collectable(value):
                track(record)
            out.append(record)
        else:
            fields = (
                self.topic,
                self.partition,
                offset,
                timestamp,
                self._timestamp_type,
                key,
                value,
                headers,
                self._leader_epoch,
            )
            out.append(tuple.__new__(_RECORD, fields))

    def _deserialize(
        self, deserializer: Deserializer, part: str, data: bytes, headers: Any, offset: int
    ) -> Any:
        try:
            return deserializer(self.topic, data, headers)
        except Exception as cause:
            raise UnreadableRecord(self.topic, self.partition, offset, part, cause) from cause

    def _take_legacy(self, out: list[ConsumerRecord[Any, Any]], count: int) -> None:
        """Take messages of the old formats, which are decoded already, the next one last."""
        waiting = self._legacy
        assert waiting is not None
        while waiting and len(out) < count:
            offset, timestamp, key, value = waiting[len(waiting) - 1]
            if offset >= self.next_offset:
                out.append(self._legacy_record(offset, timestamp, key, value))
                self.next_offset = offset + 1
            waiting.pop()
        self.last_leader_epoch = None
        if not waiting:
            self._legacy = None

    def _legacy_record(self, offset: int, timestamp: int, key: Any, value: Any) -> ConsumerRecord[Any, Any]:
        if key is not None and self.key_deserializer is not None:
            key = self._deserialize(self.key_deserializer, "key", key, _NO_HEADERS, offset)
        if value is not None and self.value_deserializer is not None:
            value = self._deserialize(self.value_deserializer, "value", value, _NO_HEADERS, offset)
        kind = self._timestamp_type
        return ConsumerRecord(self.topic, self.partition, offset, timestamp, kind, key, value, (), None)


def _set(record: Any, index: int, field: Any) -> None:
    """Put `field` into a new tuple, which takes over a reference to it."""
    if cython.compiled:
        Py_INCREF(field)
        PyTuple_SET_ITEM(record, index, field)


def _fill_bytes(column: Binaries, data: bytes | None) -> None:
    if data is None:
        column.add(b"", -1, -1)
    elif cython.compiled:
        column.add(cython.cast("const unsigned char *", data), 0, len(data))
    else:
        column.add(data, 0, len(data))


def _fill_headers(columns: Columns, raw: Bytes, position: int, stop: int, count: int) -> None:
    """Decode the headers from `position` on; `headers_end` has checked their bounds."""
    while count > 0:
        count -= 1
        packed = varint(raw, position, stop)
        start = position + (packed & 7)
        position = start + (packed >> 3)
        columns.header_names.add(raw, start, position)
        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if length >= 0:
            columns.header_values.add(raw, position, position + length)
            position += length
        else:
            columns.header_values.add(raw, -1, -1)


def _scan(raw: Bytes, position: int, end: int, notes: Numbers) -> int:
    """Store the fields of the record at `position` in `notes`; return its end, or -1 if it is invalid."""
    packed = varint(raw, position, end)
    length = packed >> 3
    position += packed & 7
    if packed == 0 or length < 0 or length > end - position:
        return -1
    stop = position + length
    # One byte of unused attributes.
    position += 1
    after = varlong_end(raw, position, stop)
    if after < 0:
        return -1
    notes[_TIMESTAMP_DELTA] = varlong(raw, position, after)
    packed = varint(raw, after, stop)
    position = after + (packed & 7)
    if packed == 0:
        return -1
    notes[_OFFSET_DELTA] = packed >> 3

    packed = varint(raw, position, stop)
    length = packed >> 3
    position += packed & 7
    if packed == 0 or length > stop - position:
        return -1
    notes[_KEY_START] = -1
    if length >= 0:
        notes[_KEY_START] = position
        position += length
        notes[_KEY_END] = position
    packed = varint(raw, position, stop)
    length = packed >> 3
    position += packed & 7
    if packed == 0 or length > stop - position:
        return -1
    notes[_VALUE_START] = -1
    if length >= 0:
        notes[_VALUE_START] = position
        position += length
        notes[_VALUE_END] = position

    packed = varint(raw, position, stop)
    length = packed >> 3
    position += packed & 7
    if packed == 0 or length < 0 or length > stop - position:
        return -1
    notes[_HEADER_COUNT] = length
    notes[_HEADERS_START] = position
    if length > 0:
        position = headers_end(raw, position, stop, length)
    return stop if position == stop else -1


def _read_headers(raw: Bytes, position: int, stop: int, count: int) -> tuple[Any, ...]:
    """Decode the headers from `position` on; `headers_end` has checked their bounds."""
    result: list[tuple[str, bytes | None]] = []
    while count > 0:
        count -= 1
        packed = varint(raw, position, stop)
        start = position + (packed & 7)
        position = start + (packed >> 3)
        encoded: bytes = raw[start:position]
        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        value: Any = None
        if length >= 0:
            value = raw[position : position + length]
            position += length
        result.append((encoded.decode("utf-8", "replace"), value))
    return tuple(result)
