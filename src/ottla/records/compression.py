"""The five codecs with the framings of Kafka's clients, and a limit on their output.

gzip and zstd are plain. Snappy has the block framing of the Java library "xerial"; a single raw block is
accepted, too. LZ4 is the frame format with independent blocks; v0 messages have a wrong header checksum.

Rule: compressed bytes are hostile. The size of the output is known or bounded before any of it is produced,
and never exceeds `size_max`; otherwise MessageTooLarge is raised. The work is bounded, too: every block,
frame or member counts as at least `PIECE_BYTES_MIN` bytes, however little it holds. Any other error is
CorruptMessage.
"""

from __future__ import annotations

import zlib
from struct import Struct, error
from typing import Protocol, cast

from cramjam import DecompressionError, lz4, snappy, zstd

from ottla.ports import Buffer
from ottla.records.batch import Codec
from ottla.records.kernel import room
from ottla.wire.errors import CorruptMessage, KafkaError, MessageTooLarge, UnsupportedCompressionType

DECOMPRESSED_BYTES_MAX = 128 << 20
"""The default limit on the decompressed records of one batch."""

PIECE_BYTES_MIN = 4096
"""The minimum that a block, frame or member counts: a batch can hold millions of empty ones."""

PIECES_FREE = 64
"""The number of pieces that do not count."""

XERIAL_HEADER = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
XERIAL_MAGIC = XERIAL_HEADER[:8]
XERIAL_BLOCK_BYTES = 32 << 10

LZ4_MAGIC = 0x184D2204
LZ4_BLOCK_BYTES = 64 << 10
# Version 1, independent blocks, no checksums; blocks of 64 KiB; the checksum of these two bytes.
LZ4_FRAME_START = b"\x04\x22\x4d\x18\x60\x40\x82"
LZ4_STORED_BIT = 0x8000_0000
LZ4_LEVEL_DEFAULT = 9

ZSTD_MAGIC = 0xFD2FB528
ZSTD_SKIPPABLE_MAGIC = 0x184D2A50
ZSTD_BLOCK_BYTES_MAX = 128 << 10
ZSTD_LEVEL_DEFAULT = 3

GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31
GZIP_LEVEL_FAST = 2
GZIP_BYTES_AT_ONCE = 4 << 20
GZIP_WINDOW_BYTES = 16 << 10
GZIP_STEP_BYTES = 256 << 10
"""Larger output is read in windows and written in steps: after each member and each step the library copies
the remaining input."""

_INT = Struct(">i")
_UINT_LE = Struct("<I")


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: Buffer, max_length: int = ..., /) -> bytes: ...


try:
    from isal import isal_zlib
except ImportError:

    def _inflater() -> _Inflater:
        return zlib.decompressobj(GZIP_WINDOW)

    def _deflate(data: Buffer) -> bytes:
        return zlib.compress(data, -1, GZIP_WINDOW)

    _INFLATE_ERROR: type[Exception] = zlib.error
else:

    def _inflater() -> _Inflater:
        inflater: _Inflater = isal_zlib.decompressobj(GZIP_WINDOW)
        return inflater

    def _deflate(data: Buffer) -> bytes:
        deflated: bytes = isal_zlib.compress(data, GZIP_LEVEL_FAST, GZIP_WINDOW)
        return deflated

    _INFLATE_ERROR = cast("type[Exception]", isal_zlib.error)


def decompress(
    codec: int, data: Buffer, size_max: int = DECOMPRESSED_BYTES_MAX, *, magic: int = 2
) -> bytes | bytearray:
    """Decompress `data` to at most `size_max` bytes. `magic` is the batch's format."""
    view = memoryview(data)
    if codec == Codec.NONE:
        _check_size(len(view), size_max)
        return bytes(view)
    try:
        if codec == Codec.GZIP:
            return _gunzip(view, size_max)
        if codec == Codec.SNAPPY:
            return _unsnappy(view, size_max)
        if codec == Codec.LZ4:
            return _unlz4(view, size_max, header_checksum_right=magic > 0)
        if codec == Codec.ZSTD:
            return _unzstd(view, size_max)
    except (DecompressionError, error, IndexError, _INFLATE_ERROR) as cause:
        problem: KafkaError = CorruptMessage(
            f"Cannot decompress the {Codec(codec).config_name} data: {cause}."
        )
    except (CorruptMessage, MessageTooLarge) as cause:
        problem = type(cause)(cause.message)
    else:
        raise UnsupportedCompressionType(f"Unknown codec {codec}; 0 to 4 exist.")
    raise problem  # raised here: the cause's traceback would keep the output alive


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` as Kafka's clients expect it. Without a level the codec's default applies."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return _deflate(data) if level is None or level < 0 else zlib.compress(data, level, GZIP_WINDOW)
    if codec == Codec.SNAPPY:
        return _snappy(memoryview(data))
    if codec == Codec.LZ4:
        return _lz4(memoryview(data), level)
    if codec == Codec.ZSTD:
        return bytes(zstd.compress(data, ZSTD_LEVEL_DEFAULT if level is None else level))
    raise UnsupportedCompressionType(f"Unknown codec {codec}; 0 to 4 exist.")


def _check_size(size: int, size_max: int) -> None:
    if size > size_max:
        raise _too_large(size_max)


def _check_pieces(cost: int, size_max: int) -> None:
    if cost > max(size_max, PIECES_FREE * PIECE_BYTES_MIN):
        raise MessageTooLarge(
            f"The records are compressed in more than {cost // PIECE_BYTES_MIN - 1} blocks, the maximum for "
            f"{size_max} bytes."
        )


def _too_large(size_max: int) -> MessageTooLarge:
    return MessageTooLarge(f"The records decompress to more than {size_max} bytes, the maximum.")


def _gunzip(data: memoryview, size_max: int) -> bytes | bytearray:
    """Decompress one or more gzip members; bytes after the last one are ignored, as in Java."""
    inflater = _inflater()
    first = inflater.decompress(data, min(size_max, GZIP_BYTES_AT_ONCE) + 1)
    _check_size(len(first), size_max)
    if inflater.eof:
        position = len(data) - len(inflater.unused_data)
        if data[position : position + 2] != GZIP_MAGIC:
            return first
    else:
        position = len(data) - len(inflater.unconsumed_tail)
    out = room(size_max)  # untouched memory costs nothing
    size = len(first)
    with memoryview(out) as view:
        view[:size] = first
        if not inflater.eof:
            position, size = _inflate(inflater, view, size, data, position)
        cost = PIECE_BYTES_MIN
        while data[position : position + 2] == GZIP_MAGIC:
            cost += PIECE_BYTES_MIN
            if cost > size_max:
                _check_pieces(cost, size_max)
            position, size = _inflate(_inflater(), view, size, data, position)
    del out[size:]
    return out


def _inflate(
    inflater: _Inflater, out: memoryview, size: int, data: memoryview, position: int
) -> tuple[int, int]:
    """Append the rest of a member to the first `size` bytes of `out`, in steps that let other threads run.
    Return the member's end and the new size."""
    rest: Buffer = b""
    while not inflater.eof:
        if not rest:
            rest = data[position : position + GZIP_WINDOW_BYTES]
            if not rest:
                raise CorruptMessage("The gzip data is truncated.")
            position += len(rest)
        part = inflater.decompress(rest, GZIP_STEP_BYTES)
        _check_size(size + len(part), len(out))
        out[size : size + len(part)] = part
        size += len(part)
        rest = inflater.unconsumed_tail
    return position - len(inflater.unused_data), size


def _snappy(data: memoryview) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts += (_INT.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: memoryview, size_max: int) -> bytearray:
    blocks = _xerial_blocks(data, size_max) if data[:8] == XERIAL_MAGIC else [data]
    sizes = []
    total = 0
    for block in blocks:
        size = snappy.decompress_raw_len(block)
        total += size
        _check_size(total, size_max)
        sizes.append(size)
    out = room(total)
    with memoryview(out) as view:
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            if size:
                snappy.decompress_raw_into(block, view[position : position + size])
            elif bytes(block) != b"\x00":
                raise CorruptMessage("A snappy block declares no bytes but contains some.")
            position += size
    return out


def _xerial_blocks(data: memoryview, size_max: int) -> list[memoryview]:
    """The blocks after the 16 bytes of the header, which may occur again where streams were joined.

    If fewer bytes remain than a block's length field, the stream ends, as for Java's reader.
    """
    blocks = []
    position = 0
    cost = 0
    while position + _INT.size <= len(data):
        cost += PIECE_BYTES_MIN
        if cost > size_max:
            _check_pieces(cost, size_max)
        if data[position : position + 8] == XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            if position > len(data):
                raise CorruptMessage("The snappy stream header is truncated.")
            continue
        (length,) = _INT.unpack_from(data, position)
        position += 4
        if length <= 0 or length > len(data) - position:
            raise CorruptMessage(f"A snappy block of {length} bytes does not fit into the data.")
        blocks.append(data[position : position + length])
        position += length
    return blocks


def _lz4(data: memoryview, level: int | None) -> bytes:
    parts = [LZ4_FRAME_START]
    for start in range(0, len(data), LZ4_BLOCK_BYTES):
        source = data[start : start + LZ4_BLOCK_BYTES]
        if level is None or level == LZ4_LEVEL_DEFAULT:
            block = bytes(lz4.compress_block(source, store_size=False))
        else:
            # The C library supports levels up to 12, Kafka's configuration up to 17.
            strength = min(level, 12)
            block = bytes(
                lz4.compress_block(source, mode="high_compression", compression=strength, store_size=False)
            )
        if len(block) < len(source):
            parts += (_UINT_LE.pack(len(block)), block)
        else:
            parts += (_UINT_LE.pack(len(source) | LZ4_STORED_BIT), bytes(source))
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)


def _unlz4(data: memoryview, size_max: int, *, header_checksum_right: bool) -> bytearray:
    (magic,) = _UINT_LE.unpack_from(data, 0)
    flags, block_descriptor = data[4], data[5]
    if magic != LZ4_MAGIC or flags >> 6 != 1 or flags & 0x03 or block_descriptor & 0x8F:
        raise CorruptMessage("The lz4 data does not start with a known frame.")
    if not flags & 0x20:
        raise CorruptMessage("The lz4 blocks depend on one another, which Kafka's consumers cannot read.")
    size_code = block_descriptor >> 4
    if size_code < 4:
        raise CorruptMessage(f"The lz4 block size code {size_code} is invalid: it must be 4 to 7.")
    position = 6 + (8 if flags & 0x08 else 0)
    if not header_checksum_right:
        fixed = bytearray(data)
        fixed[position] = _xxh32(bytes(data[4:position])) >> 8 & 0xFF
        data = memoryview(fixed)
    bound, end = _lz4_bound(data, position + 1, 1 << (2 * size_code + 8), 4 if flags & 0x10 else 0, size_max)
    end += 4 if flags & 0x04 else 0
    # Bytes after the end of the frame are ignored, as in Kafka's reader.
    return _decompress_into(lz4.decompress_into, data[:end], bound, size_max)


def _lz4_bound(
    data: memoryview, position: int, block_bytes_max: int, checksum_bytes: int, size_max: int
) -> tuple[int, int]:
    """The maximum size of the blocks, counted just beyond `size_max`, and the position where they end."""
    bound = cost = 0
    while bound <= size_max:
        cost += PIECE_BYTES_MIN
        if cost > size_max:
            _check_pieces(cost, size_max)
        (size,) = _UINT_LE.unpack_from(data, position)
        position += 4
        if size == 0:
            return bound, position
        stored = size & LZ4_STORED_BIT
        size &= ~LZ4_STORED_BIT
        if size > block_bytes_max or size > len(data) - position:
            raise CorruptMessage(f"An lz4 block of {size} bytes does not fit into the data.")
        bound += size if stored else block_bytes_max
        position += size + checksum_bytes
    return bound, len(data)


def _unzstd(data: memoryview, size_max: int) -> bytearray:
    return _decompress_into(zstd.decompress_into, data, _zstd_bound(data, size_max), size_max)


def _zstd_bound(data: memoryview, size_max: int) -> int:
    """The maximum size of the blocks of all frames, counted just beyond `size_max`."""
    bound = cost = 0
    position = 0
    while position < len(data) and bound <= size_max:
        cost += PIECE_BYTES_MIN
        if cost > size_max:
            _check_pieces(cost, size_max)
        (magic,) = _UINT_LE.unpack_from(data, position)
        if magic & 0xFFFF_FFF0 == ZSTD_SKIPPABLE_MAGIC:
            position += 8 + _UINT_LE.unpack_from(data, position + 4)[0]
            continue
        if magic != ZSTD_MAGIC:
            raise CorruptMessage("The zstd data does not start with a frame.")
        descriptor = data[position + 4]
        single_segment = descriptor >> 5 & 1
        content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
        position += 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
        last = False
        while not last and bound <= size_max:
            cost += PIECE_BYTES_MIN
            if cost > size_max:
                _check_pieces(cost, size_max)
            head = data[position] | data[position + 1] << 8 | data[position + 2] << 16
            last = bool(head & 1)
            kind, size = head >> 1 & 3, head >> 3
            if kind == 3 or size > ZSTD_BLOCK_BYTES_MAX:
                raise CorruptMessage("A zstd block has an invalid type or size.")
            bound += ZSTD_BLOCK_BYTES_MAX if kind == 2 else size
            position += 3 + (1 if kind == 1 else size)
        position += 4 if descriptor & 4 else 0
    return bound


class _DecompressInto(Protocol):
    def __call__(self, data: Buffer, output: Buffer, /) -> int: ...


def _decompress_into(function: _DecompressInto, data: memoryview, bound: int, size_max: int) -> bytearray:
    """Decompress into a buffer of `bound` bytes, or `size_max` if that is less.

    The buffer is not cleared first: clearing takes as long as decompressing, and blocks other threads.
    """
    # At least one byte: the library rejects an empty buffer even for empty content.
    out = room(max(1, min(bound, size_max)))
    try:
        size = function(data, out)
    except DecompressionError as cause:
        if bound > size_max:
            raise _too_large(size_max) from cause
        raise
    _check_size(size, size_max)
    del out[size:]
    return out


def _xxh32(data: bytes) -> int:
    """xxHash-32 with seed 0 of fewer than 16 bytes: enough for the header of an LZ4 frame."""
    assert len(data) < 16
    mask = 0xFFFF_FFFF
    value = (0x165667B1 + len(data)) & mask
    position = 0
    while position + 4 <= len(data):
        value = (value + _UINT_LE.unpack_from(data, position)[0] * 0xC2B2AE3D) & mask
        value = ((value << 17 | value >> 15) & mask) * 0x27D4EB2F & mask
        position += 4
    for byte in data[position:]:
        value = (value + byte * 0x165667B1) & mask
        value = ((value << 11 | value >> 21) & mask) * 0x9E3779B1 & mask
    value ^= value >> 15
    value = value * 0x85EBCA77 & mask
    value ^= value >> 13
    value = value * 0xC2B2AE3D & mask
    return value ^ value >> 16
