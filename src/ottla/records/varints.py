"""The integers of record batches: zigzag varints of 32 and 64 bits, and sums that wrap as in Java.

Every kernel that reads or writes records uses only these functions, so that compaction and clients can read
whatever a leader accepts. `setup.py` turns them into inline C functions (`varints.pxd`): the type names below
are those of C, and a local variable gets its type at its first assignment. Plain Python imports them
unchanged. Rule: a varint is never trusted. A reader checks `end` before it reads a byte, and its caller
compares the value with the remaining bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte
    Out: TypeAlias = Any  # a pointer to bytes that are written
    Size: TypeAlias = int
    Long: TypeAlias = int
    Word: TypeAlias = int

_MASK_32: Long = 0xFFFF_FFFF
_LOWER_BITS: Long = 0x7FFF_FFFF_FFFF_FFFF
_UPPER_BIT: Long = -_LOWER_BITS - 1


def wrap(value: Long) -> Long:
    """`value` as a signed 64-bit number: a no-op in C, a truncation in Python."""
    return ((value >> 63) & 1) * _UPPER_BIT + (value & _LOWER_BITS)


def varint(data: Bytes, position: Size, end: Size) -> Long:
    """The 32-bit zigzag varint at `position`, as 8 * number + length; 0 if it exceeds `end` or 5 bytes.

    A C function returns a single value, so it combines number and length: `>> 3` and `& 7` separate them.
    """
    left: Size = end - position
    if left <= 0:
        return 0
    raw: Long = data[position]
    if raw < 0x80:
        return ((raw >> 1) ^ -(raw & 1)) * 8 + 1
    if left == 1:
        return 0
    byte: Long = data[position + 1]
    raw = (raw & 0x7F) | ((byte & 0x7F) << 7)
    length: int = 2
    if left > 5:
        left = 5
    while byte >= 0x80:
        if length == left:
            return 0
        byte = data[position + length]
        raw |= (byte & 0x7F) << (7 * length)
        length += 1
    raw &= _MASK_32
    return ((raw >> 1) ^ -(raw & 1)) * 8 + length


def varlong_end(data: Bytes, position: Size, end: Size) -> Size:
    """The end of the varint at `position`, or -1 if it is longer than 10 bytes or exceeds `end`."""
    if end - position > 10:
        end = position + 10
    while position < end:
        if data[position] < 0x80:
            return position + 1
        position += 1
    return -1


def varlong(data: Bytes, position: Size, stop: Size) -> Long:
    """The 64-bit zigzag number in the bytes from `position` to `stop`, where `stop` comes from
    `varlong_end`."""
    raw: Word = 0
    shift: int = 0
    while position < stop:
        byte: Word = data[position]
        raw |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    low: Long = raw & 1
    return ((raw >> 1) & _LOWER_BITS) ^ -low


def headers_end(data: Bytes, position: Size, stop: Size, count: Long) -> Size:
    """The end of `count` record headers that start at `position`, or -1 if they do not fit before `stop`."""
    while count > 0:
        count -= 1
        packed: Long = varint(data, position, stop)
        length: Long = packed >> 3
        position += packed & 7
        if packed == 0 or length < 0 or length > stop - position:
            return -1
        position += length
        packed = varint(data, position, stop)
        length = packed >> 3
        position += packed & 7
        if packed == 0 or length > stop - position:
            return -1
        if length > 0:
            position += length
    return position


def varint_size(value: Long) -> int:
    """The length in bytes of the zigzag varint of a 64-bit number."""
    raw: Long = value if value >= 0 else -(value + 1)
    if raw < 0x40:
        return 1
    size: int = 2
    raw >>= 13
    while raw:
        size += 1
        raw >>= 7
    return size


def put_varint(out: Out, at: Size, value: Long) -> Size:
    """Write a zigzag varint at `at` and return its end. Its low bit is the sign, so it is split off before
    the shift can overflow."""
    sign: int = 0
    if value < 0:
        value = -(value + 1)
        sign = 1
    byte: int = ((value & 0x3F) << 1) | sign
    value >>= 6
    while value:
        out[at] = byte | 0x80
        at += 1
        byte = value & 0x7F
        value >>= 7
    out[at] = byte
    return at + 1
