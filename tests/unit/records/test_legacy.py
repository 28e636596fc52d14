"""Message sets of the old formats, built by other clients and by hand."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.samples import mutations

from ottla.records.batch import Codec
from ottla.records.compression import compress
from ottla.records.record import Record, read_records
from ottla.wire.errors import CorruptMessage, KafkaError, MessageTooLarge

PAIRS = [(b"k", b"v"), (None, b"v"), (b"k", None), (b"", b""), (b"key" * 50, b"value" * 500)]


def message(
    magic: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp: int = 1000,
) -> bytes:
    content = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for field in (key, value):
        content += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


def message_set(magic: int, offsets: range) -> bytes:
    return b"".join(
        message(magic, offset, *PAIRS[index % len(PAIRS)], timestamp=1000 + index)
        for index, offset in enumerate(offsets)
    )


def expected(magic: int, offsets: range, timestamp: int | None = None) -> list[Record]:
    return [
        Record(
            offset,
            -1 if magic == 0 else (1000 + index if timestamp is None else timestamp),
            *PAIRS[index % 5],
        )
        for index, offset in enumerate(offsets)
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_are_read(magic: int) -> None:
    assert list(read_records(message_set(magic, range(20, 27)))) == expected(magic, range(20, 27))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_offsets_in_a_v0_wrapper_are_absolute(codec: Codec) -> None:
    packed = compress(codec, message_set(0, range(20, 27)))
    wrapper = message(0, 26, None, packed, attributes=codec)
    assert list(read_records(wrapper)) == expected(0, range(20, 27))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_offsets_in_a_v1_wrapper_are_relative_to_its_last(codec: Codec) -> None:
    packed = compress(codec, message_set(1, range(7)))
    assert list(read_records(message(1, 26, None, packed, attributes=codec))) == expected(1, range(20, 27))
    # A client may leave the wrapper's offset at 0.
    assert list(read_records(message(1, 0, None, packed, attributes=codec))) == expected(1, range(7))


def test_log_append_time_of_a_wrapper_applies_to_all_inside() -> None:
    packed = compress(Codec.GZIP, message_set(1, range(3)))
    wrapper = message(1, 2, None, packed, attributes=Codec.GZIP | 0x08, timestamp=9999)
    assert list(read_records(wrapper)) == expected(1, range(3), timestamp=9999)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_messages_of_aiokafka_are_read(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for index in range(7):
        builder.append(index, timestamp=1000 + index, key=PAIRS[index % 5][0], value=PAIRS[index % 5][1])
    assert list(read_records(bytes(builder.build()))) == expected(magic, range(7))


def corrupt_sets() -> dict[str, bytes]:
    inner = message_set(1, range(2))
    packed = gzip.compress(inner)
    nested = gzip.compress(message(1, 0, None, packed, attributes=1))
    bad_crc = bytearray(inner)
    bad_crc[-1] ^= 1
    return {
        "no value": message(1, 5, None, None, attributes=1),
        "nothing inside": message(1, 5, None, gzip.compress(b""), attributes=1),
        "zstd": message(1, 5, None, compress(Codec.ZSTD, inner), attributes=4),
        "another format inside": message(0, 5, None, packed, attributes=1),
        "a wrapper inside": message(1, 5, None, nested, attributes=1),
        "a wrong crc inside": message(1, 5, None, gzip.compress(bad_crc), attributes=1),
        "an offset before those inside": message(
            1, 5, None, gzip.compress(message_set(1, range(10))), attributes=1
        ),
        "not compressed": message(1, 5, None, b"plain", attributes=1),
        "a wrong crc": message(1, 5, b"k", b"v")[:-1] + b"w",
        "a key too long": _with_right_crc(message(1, 5, b"k", b"v"), 26, 100),
        "a value too short": _with_right_crc(message(1, 5, b"k", b"vv"), 31, 1),
        "a length too short": struct.pack(">qiIbb", 5, 14, 0, 1, 0) + bytes(20),
    }


def _with_right_crc(entry: bytes, position: int, number: int) -> bytes:
    content = entry[16:position] + struct.pack(">i", number) + entry[position + 4 :]
    return entry[:12] + struct.pack(">I", zlib.crc32(content)) + content


@pytest.mark.parametrize("name", corrupt_sets())
def test_invalid_messages_are_corrupt(name: str) -> None:
    with pytest.raises(CorruptMessage):
        list(read_records(corrupt_sets()[name]))


def test_a_bomb_is_refused() -> None:
    bomb = message(1, 0, None, gzip.compress(message(1, 0, None, bytes(3_000_000))), attributes=1)
    with pytest.raises(MessageTooLarge):
        list(read_records(bomb, decompressed_bytes_max=1_000_000))


@settings(max_examples=200)
@given(magic=st.integers(0, 1), codec=st.integers(0, 3), data=st.data())
def test_damaged_bytes_give_records_or_a_typed_error(magic: int, codec: int, data: st.DataObject) -> None:
    content = message_set(magic, range(4))
    if codec:
        content = message(magic, 3, None, compress(codec, content), attributes=codec)
    broken = mutations(data, content)
    try:
        found = list(read_records(broken, verify=False, decompressed_bytes_max=1 << 20))
    except KafkaError:
        return
    assert all(isinstance(record, Record) for record in found)
