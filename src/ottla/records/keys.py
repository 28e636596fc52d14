"""The per-record loops of compaction: the last offset of every key, and the records that a batch keeps.

Like `kernel.py`, this file runs compiled (C types in `keys.pxd`) or as plain Python, with identical results.
The compiled loops release the interpreter lock, so that cleaning does not block the event loop.

Keys are stored as keyed 128-bit digests, never in full: the table bounds the memory whatever the keys are,
and nobody can construct a collision without the secret. A table is an `array("Q")` with three words per slot
(digest, digest, offset + 1; 0 there means free) and one extra slot at its end, where a digest is put before
it is looked up. No varint is trusted before it is compared with the remaining bytes: the compiled form has no
other bounds checks.
"""

from __future__ import annotations

from array import array
from contextlib import nullcontext
from hashlib import blake2b
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False, nogil=nullcontext())

if not cython.compiled:
    from ottla.records.varints import put_varint, varint, varint_size, varlong, varlong_end, wrap

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Buffer: TypeAlias = bytes | bytearray | memoryview
    Bytes: TypeAlias = Any  # a C pointer to the first byte, or the buffer itself
    Words: TypeAlias = Any  # a C pointer to the first 64-bit word, or the array itself

SLOT_BYTES = 24
SECRET_BYTES = 16
_SLOT_WORDS = 3

# Where `_scan` stores the fields of a record, and where the loops store their sums afterwards.
_OFFSET_DELTA = 0
_TIMESTAMP_DELTA = 1
_KEY_START = 2
_KEY_END = 3
_VALUE_LENGTH = 4
_BODY_START = 5
_AFTER_TIMESTAMP = 6
_SUM_0 = 7
_SUM_1 = 8
_SUM_2 = 9
_SUM_3 = 10
_NOTES = 11

# Named constants, since Cython treats literals of this size as Python objects.
_SIP_0 = 0x736F6D6570736575
_SIP_1 = 0x646F72616E646F6D
_SIP_2 = 0x6C7967656E657261
_SIP_3 = 0x7465646279746573
_GROWTH_MAX = 13
"""The most bytes by which a record grows with a new timestamp delta: 9 for the delta, 4 for the size."""


def new_table(slots: int) -> array[int]:
    """A table with room for `slots` keys. Keep some free, since a lookup probes slot after slot."""
    return array("Q", [0]) * (_SLOT_WORDS * (slots + 1))


def map_keys(
    data: Buffer,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    start_offset: int,
    table: array[int],
    secret: bytes,
    used: int,
    used_max: int,
) -> tuple[int, int, int]:
    """Add the keys of the `count` records in `data` whose offset is at least `start_offset`.

    Return (number of records added, slots used now, offset of the first record that did not fit into the
    table or -1 if all did). ValueError if the records are invalid.
    """
    _check_range(len(data), position, end)
    _check_table(len(table), len(secret))
    notes = array("q", bytes(8 * _NOTES))
    if cython.compiled:
        raw = cython.address(data[0])
        words = cython.address(table[0])
        hidden = cython.address(secret[0])
        numbers = cython.address(notes[0])
    else:
        raw, words, hidden, numbers = data, table, secret, notes
    last = len(table) - _SLOT_WORDS
    with cython.nogil:
        index = _map(
            raw, position, end, count, base_offset, start_offset, words, last, hidden, used, used_max, numbers
        )
    if index < 0:
        raise ValueError(f"record {-1 - index} of the batch at offset {base_offset} is corrupt")
    return index, notes[_SUM_0], notes[_SUM_1]


def _map(
    raw: Bytes,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    start_offset: int,
    words: Words,
    last: int,
    secret: Bytes,
    used: int,
    used_max: int,
    notes: Words,
) -> int:
    index = 0
    notes[_SUM_1] = -1
    while index < count:
        position = _scan(raw, position, end, notes)
        if position < 0:
            return -1 - index
        offset = base_offset + notes[_OFFSET_DELTA]
        if notes[_KEY_START] >= 0 and offset >= start_offset:
            _digest(raw, notes[_KEY_START], notes[_KEY_END], secret, words, last)
            at = _find(words, last)
            if words[at + 2] == 0:
                if used >= used_max:
                    notes[_SUM_1] = offset
                    break
                used += 1
                words[at] = words[last]
                words[at + 1] = words[last + 1]
            words[at + 2] = offset + 1
        index += 1
    if index == count and position != end:
        return -1 - index
    notes[_SUM_0] = used
    return index


def mark_kept(
    data: Buffer,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    latest_offset: int,
    table: array[int],
    secret: bytes,
    keep_tombstones: bool,
    marks: bytearray,
    base_timestamp: int,
) -> tuple[int, int, int, int, int]:
    """Set `marks` to 1 for each of the `count` records that is kept and to 0 for each that is dropped.

    A record is kept if its offset is after `latest_offset`, the last one in the table, or if no later record
    has its key. A tombstone, which has no value, also needs `keep_tombstones`. A record without a key is
    dropped. Return (records kept, tombstones among them, records without a key, timestamp of the first kept
    record, greatest timestamp of the kept records). ValueError if the records are invalid.
    """
    _check_range(len(data), position, end)
    _check_table(len(table), len(secret))
    if len(marks) < count:
        raise ValueError(f"{len(marks)} marks are too few for {count} records")
    if count <= 0:
        return 0, 0, 0, 0, 0
    notes = array("q", bytes(8 * _NOTES))
    if cython.compiled:
        raw = cython.address(data[0])
        words = cython.address(table[0])
        hidden = cython.address(secret[0])
        numbers = cython.address(notes[0])
        flags = cython.address(marks[0])
    else:
        raw, words, hidden, numbers, flags = data, table, secret, notes, marks
    last = len(table) - _SLOT_WORDS
    with cython.nogil:
        kept = _mark(
            raw,
            position,
            end,
            count,
            base_offset,
            latest_offset,
            words,
            last,
            hidden,
            keep_tombstones,
            flags,
            base_timestamp,
            numbers,
        )
    if kept < 0:
        raise ValueError(f"record {-1 - kept} of the batch at offset {base_offset} is corrupt")
    return kept, notes[_SUM_0], notes[_SUM_1], notes[_SUM_2], notes[_SUM_3]


def _mark(
    raw: Bytes,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    latest_offset: int,
    words: Words,
    last: int,
    secret: Bytes,
    keep_tombstones: bool,
    marks: Bytes,
    base_timestamp: int,
    notes: Words,
) -> int:
    kept = 0
    index = 0
    while index < count:
        position = _scan(raw, position, end, notes)
        if position < 0:
            return -1 - index
        offset = base_offset + notes[_OFFSET_DELTA]
        is_tombstone = notes[_VALUE_LENGTH] < 0
        stays = True
        if offset <= latest_offset:
            if notes[_KEY_START] < 0:
                stays = False
                notes[_SUM_1] += 1
            elif is_tombstone and not keep_tombstones:
                stays = False
            else:
                _digest(raw, notes[_KEY_START], notes[_KEY_END], secret, words, last)
                # A key that is not in the table has 0 there: no later record has it.
                stays = words[_find(words, last) + 2] <= offset + 1
        marks[index] = 1 if stays else 0
        if stays:
            timestamp = wrap(base_timestamp + notes[_TIMESTAMP_DELTA])
            if kept == 0:
                notes[_SUM_2] = timestamp
            if kept == 0 or timestamp > notes[_SUM_3]:
                notes[_SUM_3] = timestamp
            if is_tombstone:
                notes[_SUM_0] += 1
            kept += 1
        index += 1
    if position != end:
        return -1 - index
    return kept


def copy_kept(
    data: Buffer, position: int, end: int, count: int, marks: bytearray, timestamp_shift: int
) -> bytearray:
    """Copy the records that `marks` keeps, with `timestamp_shift` added to their timestamp deltas."""
    _check_range(len(data), position, end)
    if len(marks) < count:
        raise ValueError(f"{len(marks)} marks are too few for {count} records")
    room = end - position
    if timestamp_shift != 0:
        room += _GROWTH_MAX * count
    out = bytearray(room)
    if count <= 0 or room == 0:
        return bytearray()
    notes = array("q", bytes(8 * _NOTES))
    into = out
    if cython.compiled:
        raw = cython.address(data[0])
        flags = cython.address(marks[0])
        target = cython.address(into[0])
        numbers = cython.address(notes[0])
    else:
        raw, flags, target, numbers = data, marks, into, notes
    with cython.nogil:
        length = _copy(raw, position, end, count, flags, timestamp_shift, target, numbers)
    del into  # a bytearray with a live view cannot be resized
    if length < 0:
        raise ValueError("the records are not the marked ones")
    del out[length:]
    return out


def _copy(
    raw: Bytes,
    position: int,
    end: int,
    count: int,
    marks: Bytes,
    timestamp_shift: int,
    out: Bytes,
    notes: Words,
) -> int:
    at = 0
    index = 0
    while index < count:
        first = position
        position = _scan(raw, position, end, notes)
        if position < 0:
            return -1
        if marks[index]:
            if timestamp_shift != 0:
                shifted = wrap(notes[_TIMESTAMP_DELTA] + timestamp_shift)
                first = notes[_AFTER_TIMESTAMP]
                at = put_varint(out, at, 1 + varint_size(shifted) + position - first)
                out[at] = raw[notes[_BODY_START]]
                at = put_varint(out, at + 1, shifted)
            at = _put_bytes(out, at, raw, first, position)
        index += 1
    return at


def _scan(raw: Bytes, position: int, end: int, notes: Words) -> int:
    """The end of the record at `position`, with its fields in `notes`; -1 if it is invalid."""
    packed = varint(raw, position, end)
    length = packed >> 3
    position += packed & 7
    if packed == 0 or length < 0 or length > end - position:
        return -1
    stop = position + length
    notes[_BODY_START] = position
    position += 1
    after = varlong_end(raw, position, stop)
    if after < 0:
        return -1
    notes[_TIMESTAMP_DELTA] = varlong(raw, position, after)
    notes[_AFTER_TIMESTAMP] = after
    packed = varint(raw, after, stop)
    length = packed >> 3
    position = after + (packed & 7)
    if packed == 0 or length < 0:
        return -1
    notes[_OFFSET_DELTA] = length
    packed = varint(raw, position, stop)
    length = packed >> 3
    position += packed & 7
    if packed == 0 or length > stop - position:
        return -1
    notes[_KEY_START] = -1
    notes[_KEY_END] = -1
    if length >= 0:
        notes[_KEY_START] = position
        position += length
        notes[_KEY_END] = position
    packed = varint(raw, position, stop)
    length = packed >> 3
    position += packed & 7
    if packed == 0 or length > stop - position:
        return -1
    notes[_VALUE_LENGTH] = length
    return stop


def _put_bytes(out: Bytes, at: int, raw: Bytes, start: int, stop: int) -> int:
    if cython.compiled:
        while start < stop:
            out[at] = raw[start]
            at += 1
            start += 1
        return at
    else:
        out[at : at + stop - start] = raw[start:stop]
        return at + stop - start


def _find(words: Words, last: int) -> int:
    """The start of the slot with the digest at `last`, or else of the free slot for it."""
    first: int = words[last]
    second: int = words[last + 1]
    at = _SLOT_WORDS * (first % (last // _SLOT_WORDS))
    while words[at + 2] != 0 and (words[at] != first or words[at + 1] != second):
        at += _SLOT_WORDS
        if at == last:
            at = 0
    return at


def _digest(raw: Bytes, start: int, stop: int, secret: Bytes, words: Words, last: int) -> None:
    """Put the keyed 128-bit digest of the bytes from `start` to `stop` into the two words at `last`.

    Compiled: SipHash-2-4 with 128 bits of output. In plain Python that would take hundreds of operations per
    key, so BLAKE2b replaces it: a digest never leaves its table, and no result depends on the hash.
    """
    if not cython.compiled:
        digest = blake2b(raw[start:stop], digest_size=16, key=secret).digest()
        words[last] = int.from_bytes(digest[:8], "little")
        words[last + 1] = int.from_bytes(digest[8:], "little")
        return
    else:
        low_secret = _word(secret, 0, 8)
        high_secret = _word(secret, 8, 16)
        v0 = low_secret ^ _SIP_0
        v1 = high_secret ^ _SIP_1 ^ 0xEE
        v2 = low_secret ^ _SIP_2
        v3 = high_secret ^ _SIP_3
        length = stop - start
        blocks = length // 8
        step = 0
        while step <= blocks + 2:
            block = 0
            rounds = 4
            if step < blocks:
                block = _word(raw, start + 8 * step, start + 8 * step + 8)
                rounds = 2
            elif step == blocks:
                block = _word(raw, start + 8 * step, stop) | (cython.cast(cython.ulonglong, length) << 56)
                rounds = 2
            elif step == blocks + 1:
                v2 ^= 0xEE
            else:
                v1 ^= 0xDD
            v3 ^= block
            while rounds > 0:
                v0 += v1
                v1 = (v1 << 13) | (v1 >> 51)
                v1 ^= v0
                v0 = (v0 << 32) | (v0 >> 32)
                v2 += v3
                v3 = (v3 << 16) | (v3 >> 48)
                v3 ^= v2
                v0 += v3
                v3 = (v3 << 21) | (v3 >> 43)
                v3 ^= v0
                v2 += v1
                v1 = (v1 << 17) | (v1 >> 47)
                v1 ^= v2
                v2 = (v2 << 32) | (v2 >> 32)
                rounds -= 1
            v0 ^= block
            if step == blocks + 1:
                words[last] = v0 ^ v1 ^ v2 ^ v3
            step += 1
        words[last + 1] = v0 ^ v1 ^ v2 ^ v3


def _word(raw: Bytes, start: int, stop: int) -> int:
    """Up to eight bytes as a little-endian number."""
    value = 0
    while stop > start:
        stop -= 1
        value = (value << 8) | raw[stop]
    return value


def digest(data: bytes, secret: bytes) -> tuple[int, int]:
    """The two words that represent a key. For tests."""
    table = new_table(1)
    _check_table(len(table), len(secret))
    if cython.compiled:
        _digest(data, 0, len(data), secret, cython.address(table[0]), _SLOT_WORDS)
    else:
        _digest(data, 0, len(data), secret, table, _SLOT_WORDS)
    return table[_SLOT_WORDS], table[_SLOT_WORDS + 1]


def _check_range(length: int, position: int, end: int) -> None:
    if position < 0 or end < position or end > length:
        raise ValueError(f"no bytes {position} to {end} in a buffer of {length}")


def _check_table(words: int, secret_length: int) -> None:
    if words < 2 * _SLOT_WORDS or words % _SLOT_WORDS:
        raise ValueError(f"{words} words are not a table with at least one slot")
    if secret_length != SECRET_BYTES:
        raise ValueError(f"the secret has {secret_length} bytes and needs {SECRET_BYTES}")
