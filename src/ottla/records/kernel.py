"""The per-record loops: everything that must read each record of a batch.

This file runs in two forms. If a C compiler is present at install time, Cython compiles it with the C types
in `kernel.pxd`; otherwise Python runs it. Both must return the same result for every input.

Rules: a varint is never trusted: its value is compared with the remaining bytes before anything is read or
skipped (the compiled form has no other bounds checks). Integers behave as in Java: a 32-bit varint loses its
upper bits, a timestamp wraps at 64 bits. There is no state.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize

if not cython.compiled:
    from ottla.records.varints import headers_end, varint, varint_size, varlong, varlong_end, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    Buffer: TypeAlias = bytes | bytearray | memoryview
    Bytes: TypeAlias = Buffer  # in C, a pointer to the first byte
    Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
    DecodedRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
    EncodedRecord: TypeAlias = tuple[
        int, int, Buffer | None, Buffer | None, Sequence[tuple[str | bytes, Buffer | None]]
    ]
    Pair: TypeAlias = tuple[bytes, bytes | None]
    Span: TypeAlias = tuple[int, int, int, int, int, int, int, int]
    Problem: TypeAlias = tuple[int, int, int]
    Walk: TypeAlias = tuple[int, int, int, int, int, list[Problem] | None]

# The status of `walk`. In all but the last two, `index` is the invalid record.
OK = 0
CUT_OFF = 1
BAD_SIZE = 2
BAD_VARINT = 3
BAD_HEADERS = 4
SIZE_DIFFERS = 5
BAD_OFFSET_DELTA = 6
BYTES_LEFT = 7
TOO_MANY_HEADERS = 8

# Problems of single records in a valid batch.
NO_KEY = 1
TIMESTAMP_OUTSIDE = 2

PROBLEMS_MAX = 10_000
"""The maximum number of reported records; a batch with more problems is refused all the same."""

HEADERS_MAX = 10_000
"""The most headers of one record. An empty header takes two bytes, and eighty in a consumer's memory."""

HEADERS_AT_ONCE = 100_000
"""The most headers that a reader creates in one call, beyond those of one record."""

HEADERS_IN_COLUMNS = 1_000_000
"""The most headers of one Arrow record batch, beyond those of one record."""

_PROBLEMS_MAX = PROBLEMS_MAX
_HEADERS_MAX = HEADERS_MAX
_HEADER_BYTES = 61


def room(size: int) -> bytearray:
    """Uninitialized memory, for callers that write all of it before they read it."""
    if size < 0:
        raise ValueError(f"no room has {size} bytes")
    if cython.compiled:
        return PyByteArray_FromStringAndSize(cython.NULL, size)  # type: ignore[no-any-return]
    return bytearray(size)


def _check_range(length: int, position: int, end: int) -> None:
    if position < 0 or end < position or end > length:
        raise ValueError(f"no bytes {position} to {end} in a buffer of {length}")


def walk(
    data: Buffer,
    position: int,
    end: int,
    count: int,
    base_timestamp: int,
    now_ms: int,
    before_max_ms: int,
    after_max_ms: int,
    check_time: bool,
    need_key: bool,
    first: int = 0,
    is_last: bool = True,
) -> Walk:
    """Check all `count` records of a batch, which must fill `data` from `position` to `end`.

    A batch can be checked in several calls: then `position` is the start of record `first`, `count` the
    record before which this call stops, and `is_last` says whether the batch ends there.

    Return (status, index, where, max timestamp or -1, offset delta of the first record that has it or -1,
    problems or None). A status other than OK ends the walk at once. `problems` are single records that break
    a rule of the topic: (index, NO_KEY or TIMESTAMP_OUTSIDE, timestamp).
    """
    _check_range(len(data), position, end)
    if cython.compiled:
        raw = cython.address(data[0])
    else:
        raw = data
    return walk_raw(
        raw,
        position,
        end,
        count,
        base_timestamp,
        now_ms,
        before_max_ms,
        after_max_ms,
        check_time,
        need_key,
        first,
        is_last,
    )


def walk_raw(
    raw: Bytes,
    position: int,
    end: int,
    count: int,
    base_timestamp: int,
    now_ms: int,
    before_max_ms: int,
    after_max_ms: int,
    check_time: bool,
    need_key: bool,
    first: int,
    is_last: bool,
) -> Walk:
    """`walk`, for a caller that has checked `position` and `end`. A C function when compiled."""
    max_timestamp = -1
    delta_of_max = -1
    problems: list[Problem] | None = None
    status = OK
    index = first
    while index < count:
        packed = varint(raw, position, end)
        length = packed >> 3
        start = position + (packed & 7)
        if packed == 0:
            status = CUT_OFF
            break
        if length < 0 or length > end - start:
            status = BAD_SIZE
            break
        stop = start + length

        # One byte of unused attributes, then timestamp and offset as deltas to the base.
        position = start + 1
        after = varlong_end(raw, position, stop)
        if after < 0:
            status = BAD_VARINT
            break
        timestamp = wrap(base_timestamp + varlong(raw, position, after))
        packed = varint(raw, after, stop)
        position = after + (packed & 7)
        if packed == 0:
            status = BAD_VARINT
            break
        if packed >> 3 != index:
            status = BAD_OFFSET_DELTA
            break

        packed = varint(raw, position, stop)
        key_length = packed >> 3
        position += packed & 7
        if packed == 0 or key_length > stop - position:
            status = BAD_SIZE
            break
        if key_length > 0:
            position += key_length
        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length > stop - position:
            status = BAD_SIZE
            break
        if length > 0:
            position += length

        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length < 0 or length > stop - position:
            status = BAD_HEADERS
            break
        if length > 0:
            if length > _HEADERS_MAX:
                status = TOO_MANY_HEADERS
                break
            position = headers_end(raw, position, stop, length)
            if position < 0:
                status = BAD_HEADERS
                break
        if position != stop:
            status = SIZE_DIFFERS
            break

        if timestamp > max_timestamp:
            max_timestamp = timestamp
            delta_of_max = index
        problem = 0
        if need_key and key_length < 0:
            problem = NO_KEY
        elif check_time and timestamp != -1:
            age = wrap(now_ms - timestamp)
            if age > before_max_ms or wrap(-age) > after_max_ms:
                problem = TIMESTAMP_OUTSIDE
        if problem:
            if problems is None:
                problems = []
            if len(problems) < _PROBLEMS_MAX:
                problems.append((index, problem, timestamp))
        index += 1
    if status == OK and is_last and position != end:
        status = BYTES_LEFT
    return status, index, position, max_timestamp, delta_of_max, problems


def first_since(
    data: Buffer,
    position: int,
    end: int,
    count: int,
    base_timestamp: int,
    timestamp: int,
    offset_delta: int,
) -> tuple[int, int, int]:
    """Find the first of `count` records from `position` on whose timestamp is at least `timestamp` and whose
    offset delta is at least `offset_delta`.

    Return (where the search stopped, its offset delta or -1, its timestamp). ValueError if the records are
    invalid.
    """
    _check_range(len(data), position, end)
    if cython.compiled:
        raw = cython.address(data[0])
    else:
        raw = data
    while count > 0:
        count -= 1
        packed = varint(raw, position, end)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length < 0 or length > end - position:
            raise ValueError("a record does not fit into its batch")
        stop = position + length
        after = varlong_end(raw, position + 1, stop)
        if after < 0:
            raise ValueError("a record has a bad timestamp")
        found = wrap(base_timestamp + varlong(raw, position + 1, after))
        packed = varint(raw, after, stop)
        if packed == 0:
            raise ValueError("a record has a bad offset")
        position = stop
        if found >= timestamp and packed >> 3 >= offset_delta:
            return position, packed >> 3, found
    return position, -1, -1


def spans(data: Buffer, position: int, end: int, count: int) -> list[Span]:
    """The positions of the records of a batch and of their keys, for compaction. ValueError if they are
    invalid.

    Each is (offset delta, timestamp delta, key start or -1, key end or -1, value start or -1, value end,
    start, end). The header count is at the value's end, even if the value is null.
    """
    _check_range(len(data), position, end)
    if cython.compiled:
        raw = cython.address(data[0])
    else:
        raw = data
    result: list[Span] = []
    index = 0
    while index < count:
        first = position
        packed = varint(raw, position, end)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length < 0 or length > end - position:
            raise ValueError(f"record {index} does not fit into its batch")
        stop = position + length
        position += 1
        after = varlong_end(raw, position, stop)
        if after < 0:
            raise ValueError(f"record {index} has a bad timestamp")
        timestamp_delta = varlong(raw, position, after)
        packed = varint(raw, after, stop)
        position = after + (packed & 7)
        if packed == 0:
            raise ValueError(f"record {index} has a bad offset")
        offset_delta = packed >> 3

        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length > stop - position:
            raise ValueError(f"the key of record {index} does not fit into it")
        key_start = key_end = -1
        if length >= 0:
            key_start = position
            position += length
            key_end = position
        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length > stop - position:
            raise ValueError(f"the value of record {index} does not fit into it")
        value_start = -1
        if length >= 0:
            value_start = position
            position += length
        value_end = position

        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length < 0 or length > stop - position:
            raise ValueError(f"record {index} has an impossible number of headers")
        if headers_end(raw, position, stop, length) != stop:
            raise ValueError(f"the headers of record {index} do not fill it")
        result.append(
            (offset_delta, timestamp_delta, key_start, key_end, value_start, value_end, first, stop),
        )
        position = stop
        index += 1
    if position != end:
        raise ValueError(f"{end - position} bytes are left after {count} records")
    return result


def decode(
    data: bytes, position: int, end: int, count: int, base_offset: int, base_timestamp: int
) -> list[DecodedRecord]:
    """The records of a batch as (offset, timestamp, key, value, headers). ValueError if they are invalid."""
    result: list[DecodedRecord] = []
    for span in spans(data, position, end, count):
        offset_delta, timestamp_delta, key_start, key_end, value_start, value_end, _first, stop = span
        result.append(
            (
                base_offset + offset_delta,
                wrap(base_timestamp + timestamp_delta),
                None if key_start < 0 else data[key_start:key_end],
                None if value_start < 0 else data[value_start:value_end],
                () if stop - value_end == 1 else _decode_headers(data, value_end, stop),
            )
        )
    return result


def plain_pairs(
    data: bytes, position: int, end: int, start_offset: int, most: int, checksum: Callable[[bytes], int]
) -> tuple[list[Pair], int, int]:
    """The records of the batches from `position` on as (key, value), as long as they are plain and valid.

    Plain means version 2, not compressed, neither transactional nor control. Batches that end before
    `start_offset` are skipped; no batch is started once there are `most` pairs. `checksum` is CRC-32C. Return
    (pairs, where it stopped, the offset after the last batch or -1). It never raises: if it stops at a batch,
    `read_batch` must decide about that batch.
    """
    _check_range(len(data), position, end)
    if cython.compiled:
        raw = cython.cast("const unsigned char *", data)
    else:
        raw = data
    result: list[Pair] = []
    next_offset = -1
    while end - position >= _HEADER_BYTES and len(result) < most:
        stop = position + 12 + _number(raw, position + 8, 4)
        if (
            raw[position + 16] != 2
            or raw[position + 22] & 0x37
            or (raw[position] | raw[position + 8] | raw[position + 23] | raw[position + 57]) & 0x80
            or stop > end
            or stop - position < _HEADER_BYTES
            or checksum(data[position + 21 : stop]) != _number(raw, position + 17, 4)
        ):
            break
        next_of_batch = _number(raw, position, 8) + _number(raw, position + 23, 4) + 1
        if next_of_batch > start_offset:
            taken = len(result)
            count = _number(raw, position + 57, 4)
            if not _append_pairs(data, position + _HEADER_BYTES, stop, count, result):
                del result[taken:]
                break
        next_offset = next_of_batch
        position = stop
    return result, position, next_offset


def _append_pairs(data: bytes, position: int, end: int, count: int, result: list[Pair]) -> bool:
    """Add the records of a batch; False, with some of them added, if a record is invalid or has no key."""
    if cython.compiled:
        raw = cython.cast("const unsigned char *", data)
    else:
        raw = data
    while count > 0:
        count -= 1
        packed = varint(raw, position, end)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length < 0 or length > end - position:
            return False
        stop = position + length
        position = varlong_end(raw, position + 1, stop)
        if position < 0:
            return False
        packed = varint(raw, position, stop)
        position += packed & 7
        if packed == 0:
            return False
        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length < 0 or length > stop - position:
            return False
        key = data[position : position + length]
        position += length
        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length > stop - position:
            return False
        value = None
        if length >= 0:
            value = data[position : position + length]
            position += length
        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length < 0 or length > stop - position:
            return False
        if headers_end(raw, position, stop, length) != stop:
            return False
        result.append((key, value))
        position = stop
    return position == end


def _number(data: Bytes, position: int, count: int) -> int:
    """The unsigned big-endian number in `count` bytes; of eight bytes the highest bit must be 0."""
    result = 0
    while count > 0:
        result = (result << 8) | data[position]
        position += 1
        count -= 1
    return result


def _decode_headers(data: bytes, position: int, stop: int) -> Headers:
    """Decode the headers, starting at their count; `headers_end` has checked their bounds."""
    if cython.compiled:
        raw = cython.cast("const unsigned char *", data)
    else:
        raw = data
    result: list[tuple[str, bytes | None]] = []
    packed = varint(raw, position, stop)
    count = packed >> 3
    position += packed & 7
    while count > 0:
        count -= 1
        packed = varint(raw, position, stop)
        start = position + (packed & 7)
        position = start + (packed >> 3)
        name = data[start:position].decode("utf-8", "replace")
        packed = varint(raw, position, stop)
        length = packed >> 3
        position += packed & 7
        value: bytes | None = None
        if length >= 0:
            value = data[position : position + length]
            position += length
        result.append((name, value))
    return tuple(result)


def _append_varint(out: bytearray, value: int) -> None:
    """Write a zigzag varint. Its low bit is the sign, so it is split off before the shift can overflow."""
    negative = value < 0
    if negative:
        value = -(value + 1)
    byte = ((value & 0x3F) << 1) | (1 if negative else 0)
    value >>= 6
    while value:
        out.append(byte | 0x80)
        byte = value & 0x7F
        value >>= 7
    out.append(byte)


def encode(entries: Iterable[EncodedRecord]) -> bytearray:
    """The bytes of records given as (offset delta, timestamp delta, key, value, headers)."""
    out = bytearray()
    for offset_delta, timestamp_delta, key, value, headers in entries:
        if not cython.compiled and wrap(timestamp_delta) != timestamp_delta:
            raise OverflowError(f"the timestamp delta {timestamp_delta} has more than 64 bits")
        size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
        length = -1 if key is None else len(key)
        size += varint_size(length) + (length if length > 0 else 0)
        length = -1 if value is None else len(value)
        size += varint_size(length) + (length if length > 0 else 0)
        count = len(headers)
        size += varint_size(count)
        pairs: list[tuple[bytes, Buffer | None]] = []
        if count:
            for name, header_value in headers:
                encoded = name.encode() if isinstance(name, str) else name
                length = len(encoded)
                size += varint_size(length) + length
                length = -1 if header_value is None else len(header_value)
                size += varint_size(length) + (length if length > 0 else 0)
                pairs.append((encoded, header_value))
        _append_varint(out, size)
        out.append(0)
        _append_varint(out, timestamp_delta)
        _append_varint(out, offset_delta)
        _append_bytes(out, key)
        _append_bytes(out, value)
        _append_varint(out, count)
        for encoded, header_value in pairs:
            _append_bytes(out, encoded)
            _append_bytes(out, header_value)
    return out


def _append_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out.append(1)
    else:
        _append_varint(out, len(value))
        out += value


def retain(data: Buffer, kept: Iterable[Span], timestamp_shift: int) -> bytearray:
    """The records in `kept`, with `timestamp_shift` added to their timestamp deltas.

    The shift compensates a new base timestamp, as when a batch gets a delete horizon.
    """
    if cython.compiled:
        raw = cython.address(data[0])
    else:
        raw = data
    view = memoryview(data)
    out = bytearray()
    for span in kept:
        timestamp_delta, first, stop = span[1], span[6], span[7]
        _check_range(len(data), first, stop)
        if timestamp_shift == 0:
            out += view[first:stop]
            continue
        start = first + (varint(raw, first, stop) & 7)
        after = varlong_end(raw, start + 1, stop)
        if start == first or after < 0:
            raise ValueError("a span does not point to a record")
        shifted = wrap(timestamp_delta + timestamp_shift)
        _append_varint(out, 1 + varint_size(shifted) + stop - after)
        out += view[start : start + 1]
        _append_varint(out, shifted)
        out += view[after:stop]
    return out
