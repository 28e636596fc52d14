"""The partition of a key: murmur2, as in Kafka's clients, so that all clients choose the same partition.

`setup.py` turns these functions into inline C functions for the compiled modules, like those of
`varints.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte
    Size: TypeAlias = int
    Word: TypeAlias = int

_SEED: Word = 0x9747B28C
_FACTOR: Word = 0x5BD1E995
_MASK: Word = 0xFFFF_FFFF


def murmur2(data: Bytes, start: Size, size: Size) -> Word:
    """The hash of `size` bytes from `start` on, an unsigned 32-bit number."""
    value: Word = _SEED ^ size
    at: Size = start
    stop: Size = start + size
    while at + 4 <= stop:
        word: Word = data[at] | (data[at + 1] << 8) | (data[at + 2] << 16) | (data[at + 3] << 24)
        word = (word * _FACTOR) & _MASK
        word ^= word >> 24
        value = ((value * _FACTOR) & _MASK) ^ ((word * _FACTOR) & _MASK)
        at += 4
    if at < stop:
        word = data[at]
        if at + 1 < stop:
            word |= data[at + 1] << 8
        if at + 2 < stop:
            word |= data[at + 2] << 16
        value = ((value ^ word) * _FACTOR) & _MASK
    value = ((value ^ (value >> 13)) * _FACTOR) & _MASK
    return value ^ (value >> 15)


def key_partition(data: Bytes, start: Size, size: Size, partition_count: Size) -> Size:
    """The partition, out of `partition_count`, of the key in `size` bytes from `start` on."""
    return (murmur2(data, start, size) & 0x7FFF_FFFF) % partition_count
