"""Mutates frames: flips bytes, overwrites lengths, truncates, inserts pieces of other frames."""

from __future__ import annotations

import random
from struct import pack, pack_into, unpack_from
from typing import TypeVar

_T = TypeVar("_T")

_INTS = (-1, 2**31 - 1, 0, 1, -2, -(2**31), 2**31 - 2, 0x7FFF, 1_000_000)
_NASTY = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
)
_COUNTS = (1, 1, 1, 2, 2, 4)
_HEADER_BYTES = 12  # size, key, version, correlation id: rarely mutated, or frames fail early


class Mutation:
    """Mutates frames. Pieces are taken from `other` frames."""

    def __init__(self, draw: random.Random) -> None:
        self._random = draw.random

    def _pick(self, pool: tuple[_T, ...]) -> _T:
        return pool[int(self._random() * len(pool))]

    def mutated(self, frame: bytes, other: bytes) -> bytes:
        """A mutated frame, with a correct size in 98 of 100 cases."""
        rng = self._random
        data = bytearray(frame)
        first = 4 if rng() < 0.05 else _HEADER_BYTES
        for _ in range(self._pick(_COUNTS)):
            self._change(data, first, other)
        if rng() < 0.98:
            pack_into(">i", data, 0, len(data) - 4) if len(data) >= 4 else data.extend(bytes(4))
        elif len(data) >= 4:
            size = unpack_from(">i", data)[0]
            pack_into(">i", data, 0, self._pick((-1, 0, 2**31 - 1, size - 1, size + 1, -(2**31), size // 2)))
        return bytes(data)

    def _change(self, data: bytearray, first: int, other: bytes) -> None:
        rng = self._random
        at = first + int(rng() * max(len(data) - first, 1))
        action = int(rng() * 9)
        if at >= len(data):
            data += self._pick(_NASTY)
        elif action == 0:
            data[at] ^= 1 << int(rng() * 8)
        elif action == 1:
            piece = self._pick(_NASTY)
            data[at : at + len(piece)] = piece
        elif action == 2:
            data[at:at] = self._pick(_NASTY)
        elif action == 3:
            del data[at : at + 1 + int(rng() * 8)]
        elif action == 4:
            del data[at:]
        elif action == 5:
            data[at : at + 4] = pack(">i", self._pick(_INTS))
        elif action == 6:  # a length of one byte, or the last byte of one: off by one
            data[at] = (data[at] + (1 if rng() < 0.5 else -1)) & 0xFF
        elif action == 7:
            start = int(rng() * len(other))
            data[at:] = other[start:]
        else:
            data[at:at] = data[at : at + 1 + int(rng() * 60)]
