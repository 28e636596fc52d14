"""The fixed-size integers of frames and batches: signed, most significant byte first.

`setup.py` turns these functions into inline C functions for the compiled modules, like those of
`varints.py`. They check no bounds: the caller does.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte
    Out: TypeAlias = Any  # a pointer to bytes that are written
    Size: TypeAlias = int
    Long: TypeAlias = int

_SIGN_16: Long = 0x8000
_SIGN_32: Long = 0x8000_0000
_WORD: Long = 0x1_0000_0000


def short_at(data: Bytes, position: Size) -> Long:
    """The 16-bit number at `position`."""
    value: Long = (data[position] << 8) | data[position + 1]
    return (value ^ _SIGN_16) - _SIGN_16


def unsigned_int_at(data: Bytes, position: Size) -> Long:
    """The 32-bit number at `position`, without a sign."""
    value: Long = data[position]
    value = (value << 8) | data[position + 1]
    value = (value << 8) | data[position + 2]
    last: Long = data[position + 3]
    return (value << 8) | last


def int_at(data: Bytes, position: Size) -> Long:
    """The 32-bit number at `position`."""
    return (unsigned_int_at(data, position) ^ _SIGN_32) - _SIGN_32


def long_at(data: Bytes, position: Size) -> Long:
    """The 64-bit number at `position`."""
    return int_at(data, position) * _WORD + unsigned_int_at(data, position + 4)


def put_int(out: Out, at: Size, value: Long) -> Size:
    """Write a 32-bit number at `at` and return its end."""
    out[at] = (value >> 24) & 0xFF
    out[at + 1] = (value >> 16) & 0xFF
    out[at + 2] = (value >> 8) & 0xFF
    out[at + 3] = value & 0xFF
    return at + 4


def put_long(out: Out, at: Size, value: Long) -> Size:
    """Write a 64-bit number at `at` and return its end."""
    return put_int(out, put_int(out, at, value >> 32), value)


if not TYPE_CHECKING:
    # In plain Python, `struct` is several times as fast as these functions.

    def _reader(layout):
        unpack = Struct(layout).unpack_from
        return lambda data, position: unpack(data, position)[0]

    def _writer(layout):
        pack, size = Struct(layout).pack_into, Struct(layout).size

        def write(out, at, value):
            pack(out, at, value)
            return at + size

        return write

    short_at, int_at, unsigned_int_at, long_at = map(_reader, (">h", ">i", ">I", ">q"))
    put_int, put_long = map(_writer, (">i", ">q"))
