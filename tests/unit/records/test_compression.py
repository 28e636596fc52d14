"""The codecs: Kafka's framings, and hostile bytes."""

from __future__ import annotations

import contextlib
import gzip
import struct
import zlib
from collections.abc import Callable
from types import ModuleType

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.samples import mutations

from ottla.records.batch import Codec
from ottla.records.compression import (
    LZ4_FRAME_START,
    PIECE_BYTES_MIN,
    XERIAL_HEADER,
    compress,
    decompress,
)
from ottla.wire.errors import CorruptMessage, MessageTooLarge, UnsupportedCompressionType

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
CONTENTS = [b"", b"a", b"abc " * 30_000, bytes(range(256)) * 300, zlib.compress(b"noise" * 9) * 3000]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_compressed_data_survives_a_round_trip(codec: Codec, content: bytes) -> None:
    packed = compress(codec, content)
    for form in (bytes, bytearray, memoryview):
        assert decompress(codec, form(packed)) == content
        assert compress(codec, form(content)) == packed


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 12, 17)), (Codec.ZSTD, (-131072, -1, 1, 22))],
)
def test_every_level_that_a_topic_can_set_works(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, CONTENTS[2], level)) == CONTENTS[2]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("content", CONTENTS[1:], ids=len)
def test_the_output_limit_is_exact(codec: Codec, content: bytes) -> None:
    packed = compress(codec, content)
    assert decompress(codec, packed, len(content)) == content
    with pytest.raises(MessageTooLarge, match="decompress to more than"):
        decompress(codec, packed, len(content) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(50_000_000))
    with pytest.raises(MessageTooLarge):
        decompress(codec, bomb, 1_000_000)


def test_a_bomb_of_tiny_zstd_blocks_is_refused() -> None:
    frame = (
        bytes.fromhex("28b52ffd 00 58")
        + bytes.fromhex("02 00 10 00") * 100_000
        + bytes.fromhex("03 00 10 00")
    )
    with pytest.raises(MessageTooLarge):
        decompress(Codec.ZSTD, frame, 1_000_000)


@pytest.mark.parametrize("codec", PACKED)
def test_truncated_data_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, b"some content that is long enough to be cut " * 9)
    for length in range(len(packed)):
        # A snappy stream may end after any block, so a truncated one is a valid shorter one.
        if codec == Codec.SNAPPY and 0 <= length - len(XERIAL_HEADER) < 4:
            assert decompress(codec, packed[:length]) == b""
            continue
        with pytest.raises(CorruptMessage):
            decompress(codec, packed[:length])


@pytest.mark.parametrize("codec", PACKED)
@settings(max_examples=150)
@given(data=st.data())
def test_damaged_data_gives_a_typed_error_or_limited_output(codec: Codec, data: st.DataObject) -> None:
    content = data.draw(st.sampled_from([b"some content " * 20, bytes(100_000), b"x", b""]))
    broken = mutations(data, compress(codec, content))
    with contextlib.suppress(CorruptMessage, MessageTooLarge):
        assert len(decompress(codec, broken, 200_000)) <= 200_000


@pytest.mark.parametrize("codec", PACKED)
@given(noise=st.binary(max_size=100))
def test_random_data_gives_a_typed_error_or_limited_output(codec: Codec, noise: bytes) -> None:
    with contextlib.suppress(CorruptMessage, MessageTooLarge):
        assert len(decompress(codec, noise, 1000)) <= 1000


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_refused(number: int) -> None:
    with pytest.raises(UnsupportedCompressionType):
        decompress(number, b"")
    with pytest.raises(UnsupportedCompressionType):
        compress(number, b"")


def test_several_gzip_members_are_read_and_trailing_bytes_ignored() -> None:
    joined = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0\0"
    assert decompress(Codec.GZIP, joined) == b"one two"
    with pytest.raises(MessageTooLarge):
        decompress(Codec.GZIP, joined, 6)


def test_gzip_works_without_isal(without_isal: Callable[[], ModuleType]) -> None:
    plain = without_isal()
    content = b"some content " * 1000
    assert plain.decompress(Codec.GZIP, compress(Codec.GZIP, content)) == content
    assert decompress(Codec.GZIP, plain.compress(Codec.GZIP, content)) == content
    with pytest.raises(MessageTooLarge):
        plain.decompress(Codec.GZIP, compress(Codec.GZIP, content), 100)
    with pytest.raises(CorruptMessage):
        plain.decompress(Codec.GZIP, b"\x1f\x8bnot gzip at all")


def test_snappy_is_framed_in_blocks_of_32_kib() -> None:
    packed = compress(Codec.SNAPPY, bytes(70_000))
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    blocks = []
    position = 16
    while position < len(packed):
        (length,) = struct.unpack_from(">i", packed, position)
        blocks.append(len(cramjam.snappy.decompress_raw(packed[position + 4 : position + 4 + length])))
        position += 4 + length
    assert blocks == [32768, 32768, 4464]


def test_a_raw_snappy_block_is_accepted() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"raw " * 100))) == b"raw " * 100


def test_joined_snappy_streams_are_read() -> None:
    joined = compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, joined) == b"one two"


def test_a_snappy_block_that_claims_gigabytes_is_refused_before_memory_is_taken() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"\x00a"
    with pytest.raises(MessageTooLarge):
        decompress(Codec.SNAPPY, claim, 1 << 20)
    with pytest.raises(CorruptMessage):
        decompress(Codec.SNAPPY, b"\x80\x80\x04" + b"\x00a", 1 << 20)


def test_lz4_frames_start_as_kafkas_do_and_their_blocks_are_independent() -> None:
    packed = compress(Codec.LZ4, bytes(70_000))
    assert packed[:7].hex() == "04224d18604082"
    assert packed[-4:] == bytes(4)


def test_bytes_after_an_lz4_frame_are_ignored() -> None:
    assert decompress(Codec.LZ4, compress(Codec.LZ4, b"framed " * 9) + b"\x18\x00") == b"framed " * 9


def test_incompressible_lz4_blocks_are_stored() -> None:
    packed = compress(Codec.LZ4, b"short")
    assert packed[7:11] == struct.pack("<I", 5 | 1 << 31)
    assert packed[11:16] == b"short"


def test_lz4_with_dependent_blocks_is_refused_as_kafka_does() -> None:
    with pytest.raises(CorruptMessage, match="depend"):
        decompress(Codec.LZ4, bytes(cramjam.lz4.compress(b"linked " * 100)))


def test_lz4_in_a_v0_message_may_have_a_wrong_header_checksum() -> None:
    packed = bytearray(compress(Codec.LZ4, b"old clients " * 10))
    packed[6] ^= 0xFF
    with pytest.raises(CorruptMessage):
        decompress(Codec.LZ4, packed, magic=1)
    assert decompress(Codec.LZ4, packed, magic=0) == b"old clients " * 10


def test_lz4_with_a_content_size_is_read() -> None:
    body = compress(Codec.LZ4, b"sized " * 10)[7:]
    # Flags 0x68: version 1, independent blocks, content size. The checksum is wrong, as in v0.
    packed = b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", 60) + b"\x00" + body
    assert decompress(Codec.LZ4, packed, magic=0) == b"sized " * 10


def test_zstd_frames_without_a_content_size_and_several_of_them_are_read() -> None:
    streaming = cramjam.zstd.Compressor()
    streaming.compress(b"streamed " * 1000)
    frame = bytes(streaming.finish())
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"abc"
    assert (
        decompress(Codec.ZSTD, frame + skippable + compress(Codec.ZSTD, b"!")) == b"streamed " * 1000 + b"!"
    )


def _empty_members(count: int) -> bytes:
    return compress(Codec.GZIP, b"") * count


def _empty_snappy_blocks(count: int) -> bytes:
    return XERIAL_HEADER + b"\x00\x00\x00\x01\x00" * count


def _tiny_lz4_blocks(count: int) -> bytes:
    return LZ4_FRAME_START + b"\x01\x00\x00\x80x" * count + bytes(4)


def _empty_zstd_blocks(count: int) -> bytes:
    return b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3) * (count - 1) + b"\x01\x00\x00"


@pytest.mark.parametrize(
    ("codec", "made"),
    [
        (Codec.GZIP, _empty_members),
        (Codec.SNAPPY, _empty_snappy_blocks),
        (Codec.LZ4, _tiny_lz4_blocks),
        (Codec.ZSTD, _empty_zstd_blocks),
    ],
)
def test_empty_pieces_count_as_work(codec: Codec, made: Callable[[int], bytes]) -> None:
    size_max = 200 * PIECE_BYTES_MIN
    assert decompress(codec, made(190), size_max) in (b"", b"x" * 190)
    with pytest.raises(MessageTooLarge, match="blocks"):
        decompress(codec, made(210), size_max)
    assert len(decompress(codec, made(50), 100)) <= 50  # a few are always accepted


def test_gzip_members_of_any_size_are_joined() -> None:
    parts = [b"", b"x" * 100_000, b"one", bytes(range(256)) * 200, b""]
    packed = b"".join(compress(Codec.GZIP, part) for part in parts)
    assert decompress(Codec.GZIP, packed) == b"".join(parts)
    with pytest.raises(MessageTooLarge):
        decompress(Codec.GZIP, packed, 120_000)
    with pytest.raises(CorruptMessage, match="truncated"):
        decompress(Codec.GZIP, packed[:-5] + b"")
