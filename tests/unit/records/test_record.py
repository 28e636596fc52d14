"""Batches decoded and built, compared with the record builders of other clients."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records
from tests.unit.records.samples import (
    NOW,
    RECORDS,
    batch_of,
    mutations,
    simple_records,
    with_body,
    with_header,
)

from ottla.records.batch import Codec, iterate_headers, read_header
from ottla.records.record import Record, assemble, build_batch, read_batch, read_content, read_records
from ottla.wire.errors import CorruptMessage, KafkaError, MessageTooLarge

pytestmark = pytest.mark.usefixtures("kernel")
FIXTURES_STAY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(suppress_health_check=FIXTURES_STAY)
@given(records=RECORDS, codec=st.sampled_from(list(Codec)), base=st.integers(0, 2**62))
def test_built_batches_are_read(records: list[Record], codec: Codec, base: int) -> None:
    batch = build_batch(records, codec=codec, base_offset=base)
    expected = [record._replace(offset=base + index) for index, record in enumerate(records)]
    assert list(read_records(batch)) == expected
    assert list(read_records(memoryview(batch))) == expected


@settings(suppress_health_check=FIXTURES_STAY)
@given(records=RECORDS)
@pytest.mark.parametrize("peer", [aiokafka_records, kafka_python_records], ids=["aiokafka", "kafka-python"])
def test_other_clients_build_the_same_bytes_and_read_ours(peer: Any, records: list[Record]) -> None:
    # Without a timestamp of -1, which one of them uses for "no record yet".
    records = [record._replace(timestamp=max(0, record.timestamp)) for record in records]
    builder = peer.DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    batch = build_batch(records)
    # The broker sets the leader epoch, before the magic: one client leaves -1 there, one 0.
    theirs = bytes(builder.build())
    assert (theirs[:12], theirs[16:]) == (bytes(batch[:12]), bytes(batch[16:]))
    read = [
        Record(0, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in peer.DefaultRecordBatch(bytes(batch))
    ]
    assert read == records


def test_offsets_can_have_gaps() -> None:
    records = [Record(offset, NOW, b"k", b"v") for offset in (10, 15, 2_000_000)]
    batch = build_batch(records, base_offset=8, keep_offsets=True)
    assert read_batch(batch) == records
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (8, 2_000_000, 3)


def test_log_append_time_applies_to_every_record() -> None:
    batch = build_batch(simple_records(3), log_append_time=NOW + 99)
    assert [record.timestamp for record in read_batch(batch)] == [NOW + 99] * 3


def test_a_delete_horizon_does_not_change_the_timestamps() -> None:
    batch = build_batch(simple_records(3), delete_horizon_ms=NOW + 5_000)
    assert read_header(batch).delete_horizon_ms == NOW + 5_000
    assert [record.timestamp for record in read_batch(batch)] == [NOW, NOW + 1, NOW + 2]


def test_several_batches_are_read_up_to_a_truncated_one() -> None:
    batches = batch_of(2) + build_batch(simple_records(2), base_offset=2, codec=Codec.LZ4)
    assert [record.offset for record in read_records(batches + batch_of(1)[:70])] == [0, 1, 2, 3]
    second = [position for position, _ in iterate_headers(batches)][1]
    assert [record.offset for record in read_records(batches, second)] == [2, 3]
    assert [record.offset for record in read_records(batches, 0, second)] == [0, 1]


@pytest.mark.parametrize("codec", [0, Codec.GZIP])
def test_an_empty_batch_has_no_records(codec: int) -> None:
    header = read_header(batch_of())._replace(record_count=0, last_offset_delta=41, attributes=codec)
    empty = assemble(header, b"")
    assert len(empty) == 61
    assert read_batch(empty) == []
    assert read_header(empty).last_offset == 41


def test_no_records_make_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_a_wrong_crc_raises_unless_verification_is_off() -> None:
    batch = bytearray(batch_of(1))
    batch[-2] ^= 1
    with pytest.raises(CorruptMessage):
        read_batch(batch)
    assert len(read_batch(batch, verify=False)) == 1


def test_invalid_batches_are_corrupt() -> None:
    batch = batch_of(2)
    cases = [
        with_header(batch, record_count=3),
        with_header(batch, record_count=1),
        with_header(batch, record_count=-1),
        with_header(batch, attributes=7),
        with_header(batch, attributes=Codec.ZSTD),
        with_body(batch, batch[61:-1] + b"\x02"),
    ]
    for broken in cases:
        with pytest.raises(CorruptMessage):
            read_batch(broken)
    with pytest.raises(CorruptMessage, match="truncated"):
        read_content(batch[:-1], 0, read_header(batch))


def test_a_bomb_is_refused_when_it_is_read() -> None:
    bomb = build_batch([Record(0, NOW, b"k", bytes(5_000_000))], codec=Codec.GZIP)
    with pytest.raises(MessageTooLarge):
        read_batch(bomb, decompressed_bytes_max=1_000_000)


@settings(max_examples=200, suppress_health_check=FIXTURES_STAY)
@given(records=RECORDS, codec=st.sampled_from(list(Codec)), data=st.data())
def test_damaged_bytes_give_records_or_a_typed_error(
    kernel: ModuleType, records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    broken = mutations(data, bytes(build_batch(records, codec=codec)))
    try:
        for record in read_records(broken, verify=False, decompressed_bytes_max=1 << 20):
            assert isinstance(record, Record)
    except KafkaError:
        assert kernel is not None
