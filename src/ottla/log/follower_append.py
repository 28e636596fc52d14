"""The append of a follower that nearly all small responses bring, in one step: plain batches at the end.

It does what `Log.append_as_follower` and `Segment.append_batches` do, and reads and writes their attributes
for them. Compiled, it costs a fraction of those calls; this file also runs as plain Python. Two rules keep it
right. It handles only success: for batches of a transaction, of another epoch or with a gap, and where the
segment must roll, it returns NOT_PLAIN with nothing changed, and the caller uses `Log.append_as_follower`.
And a write that fails leaves the log as it was.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from fastcrc.crc32 import iscsi as crc32c

from ottla.log.config import FLUSH_MESSAGES_NEVER
from ottla.log.index import RELATIVE_OFFSET_MAX
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    BASE_OFFSET_MAX,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from ottla.records.plain_batch import NOT_PLAIN

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.ottla.records.native import byte_count, first_byte

if not cython.compiled:
    from ottla.records.big_endian import int_at, long_at, short_at, unsigned_int_at

    byte_count = len

if TYPE_CHECKING:
    from ottla.log.log import Log

_NOT_PLAIN = NOT_PLAIN
_FLUSH_NEVER = FLUSH_MESSAGES_NEVER
_RELATIVE_OFFSET_MAX = RELATIVE_OFFSET_MAX
_BASE_OFFSET_MAX = BASE_OFFSET_MAX
_HEADER_BYTES = HEADER_BYTES
_LOG_OVERHEAD_BYTES = LOG_OVERHEAD_BYTES
_MAGIC_POSITION = MAGIC_POSITION
_ATTRIBUTES_POSITION = ATTRIBUTES_POSITION
_NOT_PLAIN_BITS = TRANSACTIONAL_BIT | CONTROL_BIT


def append_from_leader(log: Log, data: memoryview, start: int, end: int, leader_epoch: int) -> int:
    """Append the complete batches from `start` to `end`: the log's end after them, or NOT_PLAIN."""
    if start < 0 or end < start or end > byte_count(data):
        raise ValueError(f"no bytes {start} to {end} in a buffer of {len(data)}")
    epoch = log.epochs.latest_epoch
    if (
        log.failure is not None
        or log.is_closed
        or log.truncations_pending
        or log.flush_messages != _FLUSH_NEVER
        or epoch < 0
        or epoch > leader_epoch
    ):
        return _NOT_PLAIN
    first_offset = log.log_end_offset
    max_timestamp = -1
    has_producers = False
    at = start
    next_offset = first_offset
    if cython.compiled:
        raw = first_byte(data)
    else:
        raw = data
    while end - at > _MAGIC_POSITION:
        size = int_at(raw, at + 8) + _LOG_OVERHEAD_BYTES
        if raw[at + _MAGIC_POSITION] != 2 or size <= _HEADER_BYTES:
            return _NOT_PLAIN
        if size > end - at:
            break  # its rest comes with the next response
        delta = int_at(raw, at + 23)
        if (
            long_at(raw, at) != next_offset
            or next_offset > _BASE_OFFSET_MAX
            or int_at(raw, at + 12) != epoch
            or short_at(raw, at + 21) & _NOT_PLAIN_BITS
            or delta < 0
            or crc32c(data[at + _ATTRIBUTES_POSITION : at + size]) != unsigned_int_at(raw, at + 17)
        ):
            return _NOT_PLAIN
        max_timestamp = max(max_timestamp, long_at(raw, at + 35))
        if long_at(raw, at + 43) >= 0:
            has_producers = True
        next_offset += delta + 1
        at += size
    if at == start:
        return _NOT_PLAIN
    size = at - start
    last_offset = next_offset - 1

    segments = log.segments._items
    segment = segments[len(segments) - 1]
    offset_index = segment.offset_index
    time_index = segment.time_index
    known = segment._max_timestamp
    first_timestamp = segment._first_timestamp
    position = segment.size_bytes
    if (
        known is None
        or first_timestamp is None
        or first_timestamp < 0
        or position == 0
        or position > log._segment_bytes - size
        or last_offset - segment.base_offset > _RELATIVE_OFFSET_MAX
        or max_timestamp - first_timestamp > log._roll_ms - segment.jitter_ms
        or offset_index.size_bytes >= offset_index.full_bytes
        or time_index.size_bytes >= time_index.full_bytes
    ):
        return _NOT_PLAIN

    file = segment._file
    if file is None:
        file = segment.file
    try:
        file.pwrite((data[start:at],), position)
    except OSError:
        log.undo_write(segment)
        raise
    segment.size_bytes = position + size
    log.log_end_offset = next_offset

    producers = log.producers
    end = at
    at = start
    while at < end:
        size = int_at(raw, at + 8) + _LOG_OVERHEAD_BYTES
        last_offset = long_at(raw, at) + int_at(raw, at + 23)
        max_timestamp = long_at(raw, at + 35)
        if segment._bytes_since_entry > segment._interval_bytes or max_timestamp > known:
            segment._note_batch(position, size, last_offset, max_timestamp)
            known = max(known, max_timestamp)
        else:
            segment._bytes_since_entry += size
        if has_producers and long_at(raw, at + 43) >= 0:
            header = tuple.__new__(BatchHeader, HEADER.unpack_from(data, at))
            producers.apply(header, long_at(raw, at), max_timestamp)
        position += size
        at += size
    producers.end_offset = next_offset
    return next_offset
