"""Batch headers: reading, iterating, checksums, sequences."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.samples import batch_of, with_header

from ottla.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    TimestampType,
    check_crc,
    crc_matches,
    decrement_sequence,
    increment_sequence,
    iterate_headers,
    read_header,
    set_base_offset,
    set_leader_epoch,
    whole_batches_end,
)
from ottla.records.record import Record, build_batch
from ottla.wire.errors import CorruptMessage


def legacy_message(magic: int, offset: int, timestamp: int = 5, attributes: int = 0) -> bytes:
    content = struct.pack(">bb", magic, attributes)
    content += struct.pack(">q", timestamp) if magic else b""
    content += struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


def test_a_header_is_read_field_by_field() -> None:
    batch = build_batch(
        [Record(0, 100, b"k", b"v"), Record(0, 90, b"k", b"v")],
        base_offset=50,
        leader_epoch=3,
        producer_id=1 << 40,
        producer_epoch=7,
        base_sequence=2**31 - 1,
        transactional=True,
    )
    header = read_header(b"xx" + batch, 2)
    assert header.length_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (50, 51, 52)
    assert (header.partition_leader_epoch, header.magic, header.record_count) == (3, 2, 2)
    assert (header.base_timestamp, header.max_timestamp) == (100, 100)
    assert (header.producer_id, header.producer_epoch) == (1 << 40, 7)
    assert (header.base_sequence, header.last_sequence) == (2**31 - 1, 0)
    assert header.is_transactional
    assert not header.is_control
    assert not header.is_compressed
    assert header.has_producer_id


@pytest.mark.parametrize("codec", Codec)
def test_attribute_bits_are_decoded(codec: Codec) -> None:
    records = [Record(0, 100, b"k", b"v")]
    plain = read_header(build_batch(records, codec=codec))
    assert (plain.codec, plain.timestamp_type, plain.delete_horizon_ms) == (
        codec,
        TimestampType.CREATE_TIME,
        None,
    )
    assert plain.is_compressed == (codec != Codec.NONE)
    full = read_header(
        build_batch(
            records, codec=codec, log_append_time=7, delete_horizon_ms=55, control=True, transactional=True
        )
    )
    assert (full.codec, full.timestamp_type, full.delete_horizon_ms) == (
        codec,
        TimestampType.LOG_APPEND_TIME,
        55,
    )
    assert full.is_control
    assert full.is_transactional
    assert full.max_timestamp == 7


def test_codecs_are_found_by_configuration_name() -> None:
    assert [Codec.from_name(name) for name in ("none", "uncompressed", "gzip", "snappy", "lz4", "zstd")] == [
        Codec.NONE,
        *Codec,
    ]
    with pytest.raises(ValueError, match="use none, gzip"):
        Codec.from_name("producer")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_read_into_the_same_header(magic: int) -> None:
    message = legacy_message(magic, offset=9, timestamp=77, attributes=0x08)
    header = read_header(message)
    assert header.length_bytes == len(message)
    assert (header.magic, header.base_offset, header.last_offset, header.record_count) == (magic, 9, 9, -1)
    assert header.max_timestamp == (77 if magic else -1)
    assert header.timestamp_type == (TimestampType.LOG_APPEND_TIME if magic else TimestampType.CREATE_TIME)
    assert not header.has_producer_id
    assert crc_matches(message, 0, header)
    assert not crc_matches(message[:-1] + b"w", 0, header)


@pytest.mark.parametrize("length", [0, 1, 16, 17, 30, 60])
def test_too_few_bytes_are_corrupt(length: int) -> None:
    with pytest.raises(CorruptMessage):
        read_header(batch_of()[:length])


def test_an_impossible_header_is_corrupt() -> None:
    for changes in ({"magic": 3}, {"magic": -1}, {"length": HEADER_BYTES - 13}, {"length": -1}):
        broken = bytearray(batch_of())
        broken[8:12] = struct.pack(">i", changes.get("length", len(broken) - 12))
        broken[16:17] = struct.pack(">b", changes.get("magic", 2))
        with pytest.raises(CorruptMessage):
            read_header(broken)
        with pytest.raises(CorruptMessage):
            list(iterate_headers(broken))


def test_iteration_stops_before_an_incomplete_batch() -> None:
    first, second = batch_of(2), batch_of(5)
    both = first + legacy_message(1, 3) + second
    lengths = [len(first), len(legacy_message(1, 3)), len(second)]
    for end in range(len(both) + 1):
        whole = [sum(lengths[: count + 1]) for count in range(3) if sum(lengths[: count + 1]) <= end]
        found = [position + header.length_bytes for position, header in iterate_headers(both, 0, end)]
        assert found == whole
        assert [position + header.length_bytes for position, header in iterate_headers(both[:end])] == whole
        assert whole_batches_end(both, 0, end) == (whole[-1] if whole else 0)


def test_the_crc_detects_changed_bytes_that_it_covers() -> None:
    batch = batch_of()
    header = read_header(batch)
    check_crc(batch, 0, header)
    for position in range(21, len(batch)):
        broken = bytearray(batch)
        broken[position] ^= 0x10
        assert not crc_matches(broken, 0, header)
    set_base_offset(batch, 0, 1 << 50)
    set_leader_epoch(batch, 0, 77)
    moved = read_header(batch)
    assert (moved.base_offset, moved.partition_leader_epoch) == (1 << 50, 77)
    check_crc(batch, 0, moved)


def test_a_damaged_or_truncated_batch_fails_the_crc() -> None:
    batch = batch_of()
    header = read_header(batch)
    with pytest.raises(CorruptMessage, match="truncated"):
        check_crc(batch[:-1], 0, header)
    with pytest.raises(CorruptMessage, match="stored crc"):
        check_crc(batch, 0, header._replace(crc=1))


def test_the_crc_is_castagnoli() -> None:
    # The check value of CRC-32C, in place of the bytes that the checksum covers.
    batch = bytearray(12 + 9) + b"123456789"
    header = BatchHeader(0, len(batch) - 12, 0, 2, 0xE3069283, 0, 0, 0, 0, 0, 0, 0, 0)
    assert crc_matches(batch, 0, header)


@given(sequence=st.integers(0, 2**31 - 1), by=st.integers(0, 2**31 - 1))
def test_sequence_numbers_wrap(sequence: int, by: int) -> None:
    assert increment_sequence(sequence, by) == (sequence + by) % 2**31
    assert decrement_sequence(increment_sequence(sequence, by), by) == sequence


def test_a_batch_without_a_sequence_has_no_last_one() -> None:
    assert read_header(with_header(batch_of(), base_sequence=-1)).last_sequence == -1
