"""The check of a batch that nearly all small requests bring: uncompressed, no transaction, nothing to change.

It decides as `validate.py` would, but only to accept: what it does not expect, or would refuse, it leaves to
`validate`, which names the error. Like `kernel.py`, this file runs compiled or as plain Python. The rules of
the topic are read once, when they change, so that a check reads C fields only.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from fastcrc.crc32 import iscsi as crc32c

from ottla.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, LOG_OVERHEAD_BYTES, Codec, TimestampType

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.ottla.records.native import byte_count, first_byte

if not cython.compiled:
    from ottla.records.big_endian import int_at, long_at, short_at, unsigned_int_at
    from ottla.records.kernel import walk as walk_raw  # a compiled kernel has no `walk_raw` for Python

    byte_count = len

if TYPE_CHECKING:
    from ottla.records.validate import ProduceRules

NOT_PLAIN = -2
"""Instead of a timestamp or an offset: `validate` decides."""

PLAIN_BYTES_MAX = 16 << 10
"""A larger batch gains nothing: its bytes cost more than the calls around them."""

_NOT_PLAIN = NOT_PLAIN
_BYTES_MAX = PLAIN_BYTES_MAX
_HEADER_BYTES = HEADER_BYTES
_LOG_OVERHEAD_BYTES = LOG_OVERHEAD_BYTES
_ATTRIBUTES_POSITION = ATTRIBUTES_POSITION


class PlainCheck:
    """The check for one topic's rules."""

    def __init__(self, rules: ProduceRules) -> None:
        self._bytes_max = min(rules.max_message_bytes, _BYTES_MAX)
        if rules.timestamp_type != TimestampType.CREATE_TIME or rules.codec not in (None, Codec.NONE):
            self._bytes_max = 0
        self._needs_key = rules.compacted
        self._before_max_ms = rules.timestamp_before_max_ms
        self._after_max_ms = rules.timestamp_after_max_ms

    def max_timestamp(self, data: memoryview, start: int, end: int, now_ms: int) -> int:
        """The largest timestamp of the one batch from `start` to `end`, or NOT_PLAIN."""
        size = end - start
        if start < 0 or size < 0 or end > byte_count(data):
            raise ValueError(f"no bytes {start} to {end} in a buffer of {len(data)}")
        if size <= _HEADER_BYTES or size > self._bytes_max:
            return _NOT_PLAIN
        if cython.compiled:
            raw = cython.cast("const unsigned char *", first_byte(data)) + start
        else:
            raw = data[start:end]
        count = int_at(raw, 57)
        if (
            raw[16] != 2  # the format
            or int_at(raw, 8) + _LOG_OVERHEAD_BYTES != size
            or long_at(raw, 0) != 0  # the base offset
            or short_at(raw, 21) != 0  # the attributes
            or count <= 0
            or int_at(raw, 23) + 1 != count  # the last offset delta
            or (long_at(raw, 43) >= 0 and (short_at(raw, 51) < 0 or int_at(raw, 53) < 0))  # the producer
        ):
            return _NOT_PLAIN
        if crc32c(data[start + _ATTRIBUTES_POSITION : end]) != unsigned_int_at(raw, 17):
            return _NOT_PLAIN
        status, _index, _position, largest, _delta, problems = walk_raw(
            raw,
            _HEADER_BYTES,
            size,
            count,
            long_at(raw, 27),
            now_ms,
            self._before_max_ms,
            self._after_max_ms,
            True,
            self._needs_key,
            0,
            True,
        )
        if status or problems is not None or largest != long_at(raw, 35):
            return _NOT_PLAIN
        return largest
