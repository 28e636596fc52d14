"""The records that a consumer gets from fetched bytes, and errors for damaged bytes."""

from __future__ import annotations

import gc
import weakref
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.records.conftest import compiled_kernel, forms_of
from tests.unit.records.samples import NOW, RECORDS, mutations, simple_records, with_body, with_header

from ottla.records.batch import Codec, write_crc
from ottla.records.control import end_txn_marker
from ottla.records.kernel import HEADERS_AT_ONCE, HEADERS_MAX
from ottla.records.record import Record, build_batch
from ottla.wire.errors import CorruptMessage

any_form = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def batch(base_offset: int, count: int = 3, **options: Any) -> bytearray:
    return build_batch(simple_records(count), base_offset=base_offset, **options)


def marker(base_offset: int, *, commit: bool, producer_id: int) -> bytearray:
    return end_txn_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=NOW,
        base_offset=base_offset,
    )


def written(base_offset: int, producer_id: int, count: int = 3) -> bytearray:
    return batch(
        base_offset, count, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )


def open_reader(reader: ModuleType, data: bytes | bytearray, from_offset: int = 0, **options: Any) -> Any:
    return reader.records_of("topic", 4, memoryview(data), from_offset=from_offset, **options)


def offsets(found: Any, step: int = 1000) -> list[int]:
    result: list[int] = []
    while taken := found.take(step):
        result += [record.offset for record in taken]
    return result


@any_form
@given(records=RECORDS, codec=st.sampled_from(list(Codec)), step=st.integers(1, 5))
def test_records_have_all_their_fields(
    reader: ModuleType, records: list[Record], codec: Codec, step: int
) -> None:
    found = open_reader(reader, build_batch(records, codec=codec, base_offset=90, leader_epoch=6))
    seen = []
    while taken := found.take(step):
        assert len(taken) <= step
        assert found.next_offset == taken[-1].offset + 1
        seen += taken
    assert [tuple(record) for record in seen] == [
        ("topic", 4, 90 + index, record.timestamp, "CreateTime", record.key, record.value, record.headers, 6)
        for index, record in enumerate(records)
    ]
    assert found.exhausted
    assert found.last_leader_epoch == 6


def test_records_before_the_requested_offset_are_skipped(reader: ModuleType) -> None:
    data = batch(0) + batch(3, codec=Codec.GZIP) + batch(6)
    assert offsets(open_reader(reader, data, from_offset=4)) == [4, 5, 6, 7, 8]
    assert offsets(open_reader(reader, data, from_offset=4), step=1) == [4, 5, 6, 7, 8]
    assert offsets(open_reader(reader, data, from_offset=9)) == []


def test_a_truncated_batch_waits_for_the_next_fetch(reader: ModuleType) -> None:
    data = batch(0) + batch(3)
    for end in range(len(batch(0)), len(data)):
        found = open_reader(reader, data[:end])
        assert offsets(found) == [0, 1, 2]
        assert found.next_offset == 3
        assert found.exhausted


def test_the_offset_moves_past_a_compacted_batch(reader: ModuleType) -> None:
    kept = [
        record._replace(offset=offset) for record, offset in zip(simple_records(2), (10, 14), strict=True)
    ]
    data = with_header(build_batch(kept, base_offset=10, keep_offsets=True), last_offset_delta=20)
    found = open_reader(reader, data, from_offset=11)
    assert [record.offset for record in found.take(1)] == [14]
    assert found.next_offset == 31
    assert found.exhausted
    emptied = with_body(with_header(batch(40), record_count=0), b"")
    found = open_reader(reader, emptied, from_offset=40)
    assert found.take(9) == []
    assert found.next_offset == 43


def test_log_append_time_is_the_time_of_all_records_of_a_batch(reader: ModuleType) -> None:
    found = open_reader(reader, batch(0, log_append_time=NOW + 77)).take(9)
    assert {(record.timestamp, record.timestamp_type) for record in found} == {(NOW + 77, "LogAppendTime")}


def test_control_and_aborted_records_are_skipped(
    reader: ModuleType,
) -> None:
    data = written(0, 1) + written(3, 2) + batch(6) + marker(9, commit=False, producer_id=1)
    data += written(10, 1) + marker(13, commit=True, producer_id=2) + marker(14, commit=True, producer_id=1)
    found = open_reader(reader, data)
    assert offsets(found) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]
    assert found.next_offset == 15
    found = open_reader(reader, data, read_committed=True, aborted=[(1, 0)])
    assert offsets(found) == [3, 4, 5, 6, 7, 8, 10, 11, 12]
    assert found.next_offset == 15


def test_a_fetch_of_only_aborted_records_advances_the_offset(reader: ModuleType) -> None:
    data = written(5, 1) + marker(8, commit=False, producer_id=1)
    found = open_reader(reader, data, from_offset=5, read_committed=True, aborted=[(1, 5)])
    assert found.take(10) == []
    assert found.next_offset == 9
    assert found.exhausted


def test_no_more_than_max_records_are_given(reader: ModuleType) -> None:
    found = open_reader(reader, batch(0) + batch(3), max_records=4)
    assert offsets(found, step=3) == [0, 1, 2, 3]
    assert found.exhausted
    assert found.next_offset == 4


def test_old_formats_are_read(reader: ModuleType) -> None:
    data = bytes.fromhex("0000000000000007 00000010 00000000 00 00") + b"\xff\xff\xff\xff" + b"\0\0\0\2hi"
    found = open_reader(reader, data, from_offset=7, check_crcs=False)
    (record,) = found.take(5)
    assert (record.offset, record.timestamp, record.key, record.value) == (7, -1, None, b"hi")
    assert found.next_offset == 8
    assert offsets(open_reader(reader, data, from_offset=8, check_crcs=False)) == []


def test_a_wrong_checksum_raises_after_the_records_before_it(reader: ModuleType) -> None:
    data = batch(0) + batch(3)
    data[-1] ^= 1
    found = open_reader(reader, data)
    assert [record.offset for record in found.take(100)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(CorruptMessage, match="topic-4 at offset 3"):
            found.take(100)
    assert found.next_offset == 3


def test_checksums_are_optional(reader: ModuleType) -> None:
    data = batch(0)
    data[18] ^= 1
    assert offsets(open_reader(reader, data, check_crcs=False)) == [0, 1, 2]


def test_deserializers_get_bytes_and_headers_and_never_a_missing_value(reader: ModuleType) -> None:
    records = [Record(0, NOW, None, b"1", (("h", b"x"),)), Record(1, NOW, b"key", None, ())]
    calls: list[tuple[object, ...]] = []

    def deserialize(*arguments: Any) -> str:
        calls.append(arguments)
        return str(arguments[1].decode())

    found = open_reader(
        reader, build_batch(records), key_deserializer=deserialize, value_deserializer=deserialize
    ).take(9)
    assert [(record.key, record.value) for record in found] == [(None, "1"), ("key", None)]
    assert calls == [("topic", b"1", (("h", b"x"),)), ("topic", b"key", ())]


def test_the_collector_need_not_visit_records_of_bytes() -> None:
    compiled = compiled_kernel() and next(forms_of("reader"))
    data = build_batch([Record(0, NOW, b"key", b"value", (("h", b"x"),))])
    assert not gc.is_tracked(open_reader(compiled, data).take(1)[0])
    text = open_reader(compiled, data, value_deserializer=lambda _, value, __: value.decode())
    assert not gc.is_tracked(text.take(1)[0])


def test_a_cycle_through_a_deserialized_value_is_collected(reader: ModuleType) -> None:
    class Value:
        record: Any = None

    data = build_batch([Record(0, NOW, None, b"value", ())])
    record = open_reader(reader, data, value_deserializer=lambda *_: Value()).take(1)[0]
    record.value.record = record
    seen = weakref.ref(record.value)
    del record
    gc.collect()
    assert seen() is None


def test_an_undeserializable_record_stays_next(reader: ModuleType) -> None:
    records = [Record(0, NOW, None, value, ()) for value in (b"1", b"x", b"3")]
    found = open_reader(reader, build_batch(records), value_deserializer=lambda _, data, __: int(data))
    assert [record.value for record in found.take(9)] == [1]
    with pytest.raises(ValueError, match="value of the record at offset 1 of topic-4") as failure:
        found.take(9)
    assert (failure.value.offset, failure.value.topic, failure.value.partition) == (1, "topic", 4)  # type: ignore[attr-defined]
    assert found.next_offset == 1


@any_form
@given(data=st.data(), codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.SNAPPY]))
def test_any_bytes_are_read_or_corrupt(reader: ModuleType, data: st.DataObject, codec: Codec) -> None:
    original = (
        bytes(batch(0, 5, codec=codec)) + bytes(written(5, 1)) + bytes(marker(8, commit=False, producer_id=1))
    )
    broken = mutations(data, original)
    found = open_reader(reader, broken, check_crcs=False, read_committed=True, aborted=[(1, 5)])
    before = 0
    for _ in range(100):
        try:
            taken = found.take(2)
        except CorruptMessage:
            with pytest.raises(CorruptMessage, match="topic-4"):
                found.take(2)
            break
        assert found.next_offset >= before
        before = found.next_offset
        if not taken:
            break
    assert found.next_offset >= before


@any_form
@given(data=st.data())
def test_both_forms_agree_on_invalid_records(
    data: st.DataObject, both_kernels: tuple[ModuleType, ModuleType]
) -> None:
    from ottla.records import load_kernel, plain_kernel

    assert both_kernels
    broken = with_body(batch(0, 5), mutations(data, bytes(batch(0, 5))[61:]))
    write_crc(broken, 0, len(broken))
    results = []
    for form in (load_kernel("reader"), plain_kernel("reader")):
        found = open_reader(form, broken)
        result: list[object] = []
        try:
            while taken := found.take(2):
                result += taken
        except CorruptMessage as told:
            result.append(str(told))
        results.append(result)
    assert results[0] == results[1]


def test_a_repeated_failure_does_not_grow(reader: ModuleType) -> None:
    """Polls raise it until the client seeks; each would extend the traceback of the previous one."""
    broken = batch(0)
    broken[-1] ^= 1
    found = open_reader(reader, broken)
    for _ in range(50):
        with pytest.raises(CorruptMessage) as told:
            found.take(2)
    assert len(told.traceback) < 10


@pytest.mark.parametrize("base_offset", [2**63 - 1, 2**63 - 2**31, -1])
def test_an_impossible_offset_is_corrupt(reader: ModuleType, base_offset: int) -> None:
    found = open_reader(reader, batch(0) + batch(base_offset))
    assert [record.offset for record in found.take(3)] == [0, 1, 2]
    with pytest.raises(CorruptMessage, match=str(base_offset)):
        found.take(1)


def test_too_many_headers_are_refused_before_they_are_created(reader: ModuleType) -> None:
    fine = Record(0, 1, b"k", b"v", (("", None),) * HEADERS_MAX)
    hostile = Record(1, 1, b"k", b"v", (("", None),) * (HEADERS_MAX + 1))
    for records in ([fine], [fine, hostile]):
        made = reader.records_of("topic", 4, bytes(build_batch(records)), from_offset=0)
        assert [len(record.headers) for record in made.take(9)] == [HEADERS_MAX]
        if len(records) == 2:
            with pytest.raises(CorruptMessage, match="more than 10000 headers"):
                made.take(9)


def test_one_call_creates_a_limited_number_of_headers(reader: ModuleType) -> None:
    count = HEADERS_AT_ONCE // HEADERS_MAX
    records = [Record(index, 1, b"k", b"v", (("", None),) * HEADERS_MAX) for index in range(2 * count + 5)]
    made = reader.records_of("topic", 4, bytes(build_batch(records)), from_offset=0)
    taken = [[record.offset for record in made.take(1000)] for _ in range(3)]
    assert taken == [
        list(range(count)),
        list(range(count, 2 * count)),
        list(range(2 * count, 2 * count + 5)),
    ]
    assert not made.ended_early
    assert made.exhausted


def test_a_single_record_may_have_the_maximum_of_headers(reader: ModuleType) -> None:
    records = [Record(index, 1, b"k", b"v", (("h", b"v"),)) for index in range(3)]
    made = reader.records_of("topic", 4, bytes(build_batch(records)), from_offset=0)
    assert len(made.take(1000)) == 3
    assert not made.ended_early
