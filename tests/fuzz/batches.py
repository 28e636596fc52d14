"""Record batches for Produce: valid ones, forged ones, damaged ones with and without a correct CRC, and
bombs.

Most are built once and then changed in place, which is a hundred times cheaper.
"""

from __future__ import annotations

import random
from struct import pack, pack_into

from ottla.records.batch import HEADER_BYTES, Codec, write_crc
from ottla.records.compression import compress
from ottla.records.record import Record, build_batch

_NOW_MS = 1_767_225_600_000
_BOMB_BYTES = 4 * 1024 * 1024
_NASTY = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
)


class Batches:
    """Draws the bytes of a `records` field."""

    def __init__(self) -> None:
        self._right = [bytes(one) for one in _right_ones()]
        self._bombs = [
            _bomb(codec, _BOMB_BYTES) for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY)
        ]

    def draw(self, draw: random.Random, numbers: dict[str, list[int]]) -> bytes:
        rng = draw.random()
        one = bytearray(draw.choice(self._right))
        if rng < 0.45:
            return bytes(one)
        if rng < 0.62:
            self._forge(one, draw, numbers)
        elif rng < 0.90:
            self._damage(one, draw)
        elif rng < 0.93:
            return draw.choice(self._right) + draw.choice(self._right)
        elif rng < 0.931:
            return draw.choice(self._bombs)
        elif rng < 0.96:
            return bytes(one[: int(draw.random() * len(one))])
        else:
            return draw.randbytes(draw.choice((0, 1, 11, 12, 17, 60, 61, 62, 200)))
        return bytes(one)

    def _forge(self, one: bytearray, draw: random.Random, numbers: dict[str, list[int]]) -> None:
        """A valid batch of a producer, perhaps of another one."""
        if len(one) < HEADER_BYTES or one[16] != 2:
            return
        pack_into(">q", one, 43, _within(draw.choice(numbers["producer_id"]), 63))
        pack_into(">h", one, 51, _within(draw.choice(numbers["producer_epoch"]), 15))
        pack_into(">i", one, 53, draw.choice((-1, 0, 0, 1, 2, 5, 2**31 - 1)))
        if draw.random() < 0.3:
            one[22] |= 0x10  # transactional
        if draw.random() < 0.05:
            one[22] |= 0x20  # control
        write_crc(one, 0, len(one))

    def _damage(self, one: bytearray, draw: random.Random) -> None:
        """Change bytes of the header or of the records; half of them get a correct CRC again."""
        for _ in range(draw.choice((1, 1, 2, 3))):
            at = int(draw.random() * (HEADER_BYTES if draw.random() < 0.5 else len(one)))
            if draw.random() < 0.5:
                one[at % len(one)] ^= 1 << draw.randrange(8)
            else:
                piece = draw.choice(_NASTY)
                one[at : at + len(piece)] = piece
        if draw.random() < 0.6 and len(one) > HEADER_BYTES:
            if draw.random() < 0.5:
                pack_into(">i", one, 8, len(one) - 12)
            write_crc(one, 0, len(one))


def _within(value: int, bits: int) -> int:
    return min(max(value, -(1 << bits)), (1 << bits) - 1)


def _right_ones() -> list[bytearray]:
    plain = [Record(0, _NOW_MS, None, b"value"), Record(1, _NOW_MS + 1, b"key", b"v" * 40)]
    headed = [Record(0, _NOW_MS, b"k", None, (("h", b"x"), ("", None)))]
    many = [Record(one, _NOW_MS + one, b"%d" % one, b"x" * 10) for one in range(20)]
    made = [build_batch(plain), build_batch(headed), build_batch(many)]
    made += [build_batch(many, codec=codec) for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)]
    made.append(build_batch([Record(0, -1, None, b"")]))
    made.append(build_batch([Record(0, 2**62, None, b"far")]))
    made.append(build_batch(plain, producer_id=0, producer_epoch=0, base_sequence=0))
    old = bytearray(pack(">qiiBBq", 0, 0, 0, 1, 0, _NOW_MS) + pack(">i", -1) + pack(">i", 3) + b"old")
    pack_into(">i", old, 8, len(old) - 12)
    made.append(old)
    return made


def _bomb(codec: Codec, size: int) -> bytes:
    """A small batch whose records decompress to thousands of times its size."""
    batch = build_batch([Record(0, _NOW_MS, None, b"x")], codec=codec)[:HEADER_BYTES]
    batch += compress(codec, bytes(size))
    pack_into(">i", batch, 8, len(batch) - 12)
    write_crc(batch, 0, len(batch))
    return bytes(batch)
