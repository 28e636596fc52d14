"""A producer's open batch: its bytes, its limit, and the allowed changes after it is built."""

from __future__ import annotations

import tracemalloc
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.unit.records.samples import NOW, RECORDS

from ottla.records import is_compiled
from ottla.records.batch import CRC_POSITION, Codec, check_crc, read_header
from ottla.records.record import Record, build_batch, read_batch, read_records

any_form = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def filled(builder: ModuleType, records: list[Record], codec: Codec = Codec.NONE) -> bytearray:
    batch = builder.BatchBuilder(codec=codec, level=None, batch_size=1 << 20)
    for record in records:
        assert batch.append(record.timestamp, record.key, record.value, record.headers)
    assert batch.count == len(records)
    built: bytearray = batch.build()
    return built


@any_form
@given(records=RECORDS)
def test_both_encoders_build_the_same_bytes(builder: ModuleType, records: list[Record]) -> None:
    assert filled(builder, records) == build_batch(records)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_survive_every_codec(builder: ModuleType, codec: Codec) -> None:
    records = [Record(index, NOW + index, b"k%d" % index, b"v" * index, ()) for index in range(200)]
    built = filled(builder, records, codec)
    assert list(read_records(built)) == records
    header = read_header(built)
    assert (header.codec, header.record_count, header.max_timestamp) == (codec, 200, NOW + 199)


@pytest.mark.parametrize("timestamps", [(2**63 - 1, -1, 0), (-1, 2**63 - 1), (5, 3, 9), (-1, -1)])
def test_any_timestamp_from_minus_one_on_is_accepted(
    builder: ModuleType, timestamps: tuple[int, ...]
) -> None:
    records = [Record(index, at, None, b"v", ()) for index, at in enumerate(timestamps)]
    built = filled(builder, records)
    assert list(read_records(built)) == records
    assert read_header(built).max_timestamp == max(timestamps)


def test_a_timestamp_before_1970_is_refused_without_side_effects(builder: ModuleType) -> None:
    batch = builder.BatchBuilder(batch_size=100)
    with pytest.raises(ValueError, match="before 1970"):
        batch.append(-2, b"k", b"v")
    assert batch.count == 0


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_accepted(builder: ModuleType, form: type) -> None:
    batch = builder.BatchBuilder(batch_size=1000)
    assert batch.append(NOW, form(b"key"), form(b"value"), [("name", form(b"x")), ("none", None)])
    (found,) = read_records(batch.build())
    assert found == Record(0, NOW, b"key", b"value", (("name", b"x"), ("none", None)))


@pytest.mark.parametrize("wrong", ["text", 5, [1], 2.5])
def test_a_non_buffer_is_a_type_error(builder: ModuleType, wrong: object) -> None:
    batch = builder.BatchBuilder(batch_size=1000)
    with pytest.raises(TypeError):
        batch.append(NOW, wrong, b"")
    with pytest.raises(TypeError):
        batch.append(NOW, b"", wrong)
    with pytest.raises(TypeError):
        batch.append(NOW, b"", b"", [("name", wrong)])
    assert batch.count == 0


def test_a_batch_has_a_size_limit_except_for_its_first_record(
    builder: ModuleType,
) -> None:
    batch = builder.BatchBuilder(batch_size=500)
    while batch.append(NOW, None, b"v" * 20):
        pass
    built = batch.build()
    assert 500 - 30 < len(built) <= 500
    assert batch.bytes_estimate == len(built)
    large = builder.BatchBuilder(batch_size=500)
    assert large.append(NOW, b"k", b"v" * 10_000)
    assert large.is_full
    assert not large.append(NOW, b"k", b"v" * 20)
    assert large.build() == build_batch([Record(0, NOW, b"k", b"v" * 10_000)])


def test_the_compression_ratio_raises_the_limit_on_plain_bytes(builder: ModuleType) -> None:
    def plain_bytes(ratio: float) -> int:
        batch = builder.BatchBuilder(codec=Codec.ZSTD, batch_size=10_000, ratio=ratio)
        while batch.append(NOW, None, b"v" * 100):
            pass
        size: int = batch.plain_bytes
        built = batch.build()
        assert batch.ratio == pytest.approx((len(built) - 61) / (size - 61))
        return size

    assert plain_bytes(1.0) <= 10_000
    assert plain_bytes(0.1) > 80_000


def test_the_ratio_rises_at_once_and_falls_in_steps(builder: ModuleType) -> None:
    assert builder.next_ratio(1.0, 0.2) == pytest.approx(0.995)
    assert builder.next_ratio(0.201, 0.2) == 0.2
    assert builder.next_ratio(0.2, 0.9) == 0.9
    assert builder.next_ratio(0.2, 0.21) == 0.25
    assert builder.next_ratio(0.5, 0.5) == 0.5


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_built_batch_accepts_only_a_new_producer_state(builder: ModuleType, codec: Codec) -> None:
    batch = builder.BatchBuilder(codec=codec, batch_size=1000)
    batch.append(NOW, b"k", b"v")
    first = bytes(batch.build(producer_id=7, producer_epoch=1, base_sequence=30))
    assert not batch.append(NOW, b"k", b"v")
    second = batch.build(producer_id=7, producer_epoch=2, base_sequence=0, transactional=True)
    check_crc(second, 0, read_header(second))
    header = read_header(second)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 0)
    assert header.is_transactional
    assert not read_header(first).is_transactional
    assert first[:CRC_POSITION] == second[:CRC_POSITION]
    assert list(read_records(first)) == list(read_records(second))


def test_an_invalid_batch_is_not_built(builder: ModuleType) -> None:
    batch = builder.BatchBuilder(batch_size=1000)
    with pytest.raises(ValueError, match="at least one"):
        batch.build()
    batch.append(NOW, b"k", b"v")
    with pytest.raises(ValueError, match="epoch and sequence"):
        batch.build(producer_id=4)
    with pytest.raises(ValueError, match="producer id"):
        batch.build(transactional=True)


def full_batch(builder: ModuleType, fill: bytes, codec: Codec = Codec.NONE) -> Any:
    made = builder.BatchBuilder(batch_size=100_000, codec=codec)
    while made.append(NOW, None, fill * 1000):
        pass
    made.close()
    return made


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_memory_of_a_batch_that_is_done_serves_the_next_ones(builder: ModuleType, codec: Codec) -> None:
    sent = []
    for fill in (b"a", b"b", b"c", b"d"):
        made = full_batch(builder, fill, codec)
        records = read_batch(made.build(), 0)
        assert {record.value for record in records} == {fill * 1000}
        sent.append((made.count, bytes(made.build())))
        made.release()
        made.release()
    assert len({count for count, _ in sent}) == 1
    assert len({data for _, data in sent}) == 4


def test_memory_that_is_still_being_sent_serves_no_other_batch(builder: ModuleType) -> None:
    made = full_batch(builder, b"a")
    view = memoryview(made.build())
    before = bytes(view)
    made.release()
    others = [full_batch(builder, b"b") for _ in range(3)]
    assert bytes(view) == before
    assert all(other.build() is not view.obj for other in others)


def test_memory_of_sizes_that_do_not_return_makes_room_for_later_ones(builder: ModuleType) -> None:
    if not is_compiled(builder):
        return  # the plain form keeps no memory
    for size in range(1_000_000, 1_000_012):
        made = builder.BatchBuilder(batch_size=1)
        made.append(NOW, None, bytes(size))
        made.release()
    full_batch(builder, b"a").release()
    tracemalloc.start()
    try:
        made = full_batch(builder, b"b")
        assert tracemalloc.get_traced_memory()[0] < 50_000 < len(made.build())
    finally:
        tracemalloc.stop()
