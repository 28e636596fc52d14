"""The append that nearly all small requests want, in one step: a plain batch at the end of a segment.

It does what `Log.append` and `Segment.append` do, and reads and writes their attributes for them. Compiled,
it costs a fraction of those calls; this file also runs as plain Python. Two rules keep it right. It only
knows success: where the log would refuse, roll, or note a leader epoch first, it returns NOT_PLAIN with
nothing changed, and the caller uses `Log.append`. And a write that fails leaves log and batch as they were.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from ottla.log.index import RELATIVE_OFFSET_MAX
from ottla.records.batch import HEADER, LEADER_EPOCH_POSITION, BatchHeader
from ottla.records.plain_batch import NOT_PLAIN
from ottla.records.validate import Origin

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.ottla.records.native import first_byte

if not cython.compiled:
    from ottla.records.big_endian import int_at, long_at, put_int, put_long, short_at

if TYPE_CHECKING:
    from ottla.log.log import Log

_NOT_PLAIN = NOT_PLAIN
_RELATIVE_OFFSET_MAX = RELATIVE_OFFSET_MAX
_EPOCH_POSITION = LEADER_EPOCH_POSITION
_CLIENT = Origin.CLIENT
_SEQUENCE_MAX = 2**31 - 1


def append_to_log(log: Log, data: memoryview, start: int, end: int, leader_epoch: int, now_ms: int) -> int:
    """Append the client's batch from `start` to `end`: its offset, or NOT_PLAIN."""
    if (
        log.failure is not None
        or log.is_closed
        or log.truncations_pending
        or log.epochs.latest_epoch != leader_epoch
    ):
        return _NOT_PLAIN
    check = log.plain_check
    max_timestamp = check.max_timestamp(data, start, end, now_ms)
    if max_timestamp == _NOT_PLAIN:
        return _NOT_PLAIN
    if cython.compiled:
        raw = first_byte(data) + start
    else:
        raw = data[start:end]
    size = end - start
    first_offset = log.log_end_offset
    last_offset = first_offset + int_at(raw, 23)

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

    producers = log.producers
    producer_id = long_at(raw, 43)
    entry = header = None
    last_sequence = _SEQUENCE_MAX
    if producer_id >= 0:
        last_sequence = int_at(raw, 53) + last_offset - first_offset
        if last_sequence < _SEQUENCE_MAX:
            entry = producers.next_of(producer_id, short_at(raw, 51), int_at(raw, 53))
        if entry is None:
            header = tuple.__new__(BatchHeader, HEADER.unpack_from(data, start))
            if producers.check(header, first_offset, _CLIENT) is not None:
                return _NOT_PLAIN  # a retry

    file = segment._file
    if file is None:
        file = segment.file
    buffers = (data[start:end],)
    epoch_before = int_at(raw, _EPOCH_POSITION)
    put_long(raw, 0, first_offset)
    put_int(raw, _EPOCH_POSITION, leader_epoch)
    try:
        file.pwrite(buffers, position)
    except OSError:
        put_long(raw, 0, 0)
        put_int(raw, _EPOCH_POSITION, epoch_before)
        log.undo_write(segment)
        raise
    segment.size_bytes = position + size
    if segment._bytes_since_entry > segment._interval_bytes or max_timestamp > known:
        segment._note_batch(position, size, last_offset, max_timestamp)
    else:
        segment._bytes_since_entry += size
    end_offset = last_offset + 1
    log.log_end_offset = end_offset
    if entry is not None:
        entry.remember(last_sequence, last_offset, last_offset - first_offset, max_timestamp)
    elif header is not None:
        producers.apply(header, first_offset, max_timestamp)
    producers.end_offset = end_offset
    return first_offset
