"""Batches that a leader accepts or refuses, and the fields it writes. Interop tests compare with Kafka."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.records.samples import (
    NOW,
    RECORDS,
    batch_of,
    mutations,
    simple_records,
    with_body,
    with_header,
)

from ottla.records.batch import Codec, TimestampType, check_crc, read_header
from ottla.records.control import end_txn_marker
from ottla.records.record import Record, build_batch, read_batch
from ottla.records.validate import Origin, ProduceRules, ValidBatch, assign, check_request, validate
from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)

RULES = ProduceRules(topic_partition="orders-3")
pytestmark = pytest.mark.usefixtures("kernel")
FIXTURES_STAY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def check(
    batch: bytes | bytearray, rules: ProduceRules = RULES, now: int = NOW, origin: Origin = Origin.CLIENT
) -> ValidBatch:
    return validate(memoryview(bytearray(batch)), rules, now, origin)


# --- the request's rules ------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [None, b"", b"short", bytes(batch_of())[:40]])
def test_a_request_needs_a_complete_batch(records: bytes | None) -> None:
    with pytest.raises(InvalidRecord, match="at least one record batch"):
        check_request(records, 9)


def test_a_request_has_one_batch_and_a_truncated_second_one_is_ignored() -> None:
    batch = batch_of()
    check_request(batch, 9)
    check_request(batch + batch[:40], 9)
    with pytest.raises(InvalidRecord, match="exactly one"):
        check_request(batch + batch, 9)
    with pytest.raises(CorruptMessage):
        check_request(batch + bytes(20), 9)


@pytest.mark.parametrize(("magic", "error"), [(0, InvalidRecord), (1, InvalidRecord), (3, CorruptMessage)])
def test_a_request_needs_format_v2(magic: int, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        check_request(with_header(batch_of(), magic=magic), 9)


def test_zstd_needs_version_7() -> None:
    batch = batch_of(codec=Codec.ZSTD)
    check_request(batch, 7)
    with pytest.raises(UnsupportedCompressionType, match="version 6"):
        check_request(batch, 6)


# --- the batch ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
def test_a_valid_batch_is_accepted_unchanged(codec: Codec) -> None:
    batch = batch_of(4, codec)
    records = memoryview(bytearray(batch))
    valid = validate(records, RULES, NOW)
    assert records == batch
    assert valid.buffer.obj is records.obj
    assert valid.header == read_header(batch)
    assert (valid.record_count, valid.max_timestamp, valid.offset_of_max_timestamp_delta) == (4, NOW + 3, 3)
    assert valid.log_append_time == -1


def test_a_truncated_batch_at_the_end_is_dropped() -> None:
    batch = batch_of()
    valid = check(batch + batch[:50])
    assert valid.buffer == batch


def test_read_only_bytes_are_copied() -> None:
    batch = bytes(batch_of())
    valid = validate(memoryview(batch), RULES, NOW)
    assign(valid, 100, 1)
    assert read_header(valid.buffer).base_offset == 100
    assert batch == batch_of()


@pytest.mark.parametrize("length", [0, 5, 12, 16, 17, 60, 61, 80])
def test_less_than_a_batch_is_refused(length: int) -> None:
    with pytest.raises(InvalidRecord, match="no complete record batch"):
        check(batch_of()[:length])


def test_two_batches_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="more than one"):
        check(batch_of() + batch_of())


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_not_written(magic: int) -> None:
    with pytest.raises(InvalidRecord, match=f"v{magic} can be read but not written"):
        check(with_header(batch_of(), magic=magic))


def test_a_batch_shorter_than_its_header_is_corrupt() -> None:
    batch = bytearray(batch_of())
    batch[8:12] = (40).to_bytes(4, "big")
    for judge in (lambda: check(batch), lambda: check_request(batch, 9)):
        with pytest.raises(CorruptMessage, match="less than 61"):
            judge()


def test_a_base_offset_other_than_0_is_refused_from_clients_only() -> None:
    batch = build_batch(simple_records(2), base_offset=5)
    with pytest.raises(InvalidRecord, match="must be 0, not 5 in topic partition orders-3"):
        check(batch)
    assert check(batch, origin=Origin.COORDINATOR).record_count == 2


def test_max_message_bytes_limits_a_batch() -> None:
    batch = batch_of()
    check(batch, ProduceRules(max_message_bytes=len(batch)))
    with pytest.raises(MessageTooLarge, match=r"max\.message\.bytes"):
        check(batch, ProduceRules(max_message_bytes=len(batch) - 1))


def test_a_wrong_crc_is_corrupt() -> None:
    batch = batch_of()
    batch[-1] ^= 1
    with pytest.raises(CorruptMessage, match="stored crc"):
        check(batch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"last_offset_delta": -1}, "invalid offset range"),
        ({"record_count": 0}, "Invalid reported count for record batch: 0"),
        ({"record_count": -1}, "Invalid reported count for record batch: -1"),
        ({"record_count": 0, "last_offset_delta": -1}, "invalid offset range"),
        ({"record_count": 2}, r"offset range \[0, 2\] and count of records 2"),
        ({"last_offset_delta": 3}, r"offset range \[0, 3\] and count of records 3"),
        ({"record_count": 4, "last_offset_delta": 3}, "more records than it can contain"),
        ({"record_count": 2, "last_offset_delta": 1}, "bytes are left"),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, "more records than it can contain"),
        ({"attributes": 0x20}, "control records"),
        ({"producer_id": 9, "producer_epoch": 0, "base_sequence": -1}, "Invalid sequence number -1"),
        ({"producer_id": 9, "producer_epoch": -1, "base_sequence": 0}, "Invalid producer epoch -1"),
    ],
)
def test_an_impossible_header_is_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidRecord, match=message) as refused:
        check(with_header(batch_of(3), **changes))
    assert refused.value.record_errors == []


def test_an_idempotent_and_a_transactional_batch_are_accepted() -> None:
    fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    assert check(with_header(batch_of(), **fields)).header.producer_id == 9
    assert check(with_header(batch_of(), **fields, attributes=0x10)).header.is_transactional


def test_a_coordinator_may_write_control_batches_and_they_stay_uncompressed() -> None:
    marker = end_txn_marker(commit=True, producer_id=9, producer_epoch=0, coordinator_epoch=1, timestamp=NOW)
    with pytest.raises(InvalidRecord, match="control records"):
        check(marker)
    valid = check(marker, ProduceRules(codec=Codec.ZSTD), origin=Origin.COORDINATOR)
    assert valid.buffer == marker


def test_an_invalid_record_is_named() -> None:
    batch = batch_of(2)
    broken = with_body(batch, batch[61:-1] + b"\x02")
    with pytest.raises(InvalidRecord, match="record 1 has headers that do not fit"):
        check(broken)


# --- compressed batches -------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_undecompressable_data_is_an_invalid_record(codec: Codec) -> None:
    batch = batch_of(codec=codec)
    with pytest.raises(InvalidRecord, match=codec.config_name):
        check(with_body(batch, b"not compressed at all"))


def test_a_bomb_is_too_large() -> None:
    bomb = build_batch([Record(0, NOW, b"k", bytes(20_000_000))], codec=Codec.ZSTD)
    assert len(bomb) < 5000
    with pytest.raises(MessageTooLarge, match="decompress to more than"):
        check(bomb, ProduceRules(decompressed_bytes_max=1_000_000))


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_refused(number: int) -> None:
    with pytest.raises(UnsupportedCompressionType):
        check(with_header(batch_of(), attributes=number))


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_the_topics_codec_is_applied(source: Codec, target: Codec) -> None:
    records = [Record(index, NOW + index, b"k", b"value " * 50, (("h", b"x"),)) for index in range(20)]
    batch = with_header(
        build_batch(records, codec=source),
        producer_id=3,
        producer_epoch=1,
        base_sequence=5,
        attributes=0x10 | source,
    )
    valid = check(batch, ProduceRules(codec=target))
    assert (valid.buffer == batch) == (source == target)
    assign(valid, 0, 0)
    header = read_header(valid.buffer)
    assert header.length_bytes == len(valid.buffer)
    assert header.codec == valid.header.codec == target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 5)
    assert header.is_transactional
    assert read_batch(valid.buffer) == records


def test_a_batch_too_large_after_recompression_is_refused() -> None:
    batch = build_batch([Record(0, NOW, b"k", bytes(5000))], codec=Codec.GZIP)
    check(batch, ProduceRules(max_message_bytes=1000))
    with pytest.raises(MessageTooLarge):
        check(batch, ProduceRules(max_message_bytes=1000, codec=Codec.NONE))


# --- records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_compacted_topics_need_keys(codec: Codec) -> None:
    records = [Record(0, NOW, key, b"v") for key in (b"k", None, b"", None, None, None)]
    batch = build_batch(records, codec=codec)
    check(batch)
    with pytest.raises(InvalidRecord, match="4 records of the batch") as refused:
        check(batch, ProduceRules(compacted=True, topic_partition="t-0"))
    assert [index for index, _ in refused.value.record_errors] == [1, 3, 4, 5]
    assert refused.value.record_errors[0][1] == (
        "Compacted topic cannot accept a message without a key in topic partition t-0."
    )
    assert "record 4" in str(refused.value)
    assert "record 5" not in str(refused.value)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_timestamps_out_of_bounds_are_refused(codec: Codec) -> None:
    offsets = (0, -1000, 10, -1001, 11)
    batch = build_batch([Record(0, NOW + offset, b"k", b"v") for offset in offsets], codec=codec)
    check(batch)
    with pytest.raises(InvalidTimestamp) as refused:
        check(batch, ProduceRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=10))
    assert [index for index, _ in refused.value.record_errors] == [3, 4]
    assert refused.value.record_errors[0][1] == (
        f"Timestamp {NOW - 1001} of message with offset 3 is out of range."
        f" The timestamp should be within [{NOW - 1000}, {NOW + 10}]."
    )


def test_an_hour_ahead_is_the_default_bound() -> None:
    check(build_batch([Record(0, NOW + 3_600_000, b"k", b"v")]))
    check(build_batch([Record(0, 0, b"k", b"v")]))
    with pytest.raises(InvalidTimestamp):
        check(build_batch([Record(0, NOW + 3_600_001, b"k", b"v")]))


def test_records_without_a_timestamp_are_accepted() -> None:
    batch = build_batch([Record(0, -1, b"k", b"v")])
    assert check(batch, ProduceRules(timestamp_before_max_ms=0)).max_timestamp == -1


def test_one_bad_timestamp_among_missing_keys_makes_it_a_timestamp_error() -> None:
    batch = build_batch(
        [Record(0, NOW, None, b"v"), Record(0, NOW + 99, b"k", b"v"), Record(0, NOW, b"k", b"v")]
    )
    with pytest.raises(InvalidTimestamp) as refused:
        check(batch, ProduceRules(compacted=True, timestamp_after_max_ms=1))
    assert [index for index, _ in refused.value.record_errors] == [0, 1]


# --- assigning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_an_offset_and_an_epoch_are_assigned_in_place(codec: Codec) -> None:
    batch = batch_of(3, codec)
    valid = check(batch)
    assign(valid, 1 << 40, 12)
    header = read_header(valid.buffer)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (
        1 << 40,
        (1 << 40) + 2,
        12,
    )
    assert valid.buffer[16:] == batch[16:]
    assert valid.buffer[8:12] == batch[8:12]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_log_append_time_replaces_the_timestamps(codec: Codec) -> None:
    rules = ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME, timestamp_before_max_ms=0)
    valid = check(batch_of(3, codec), rules, now=NOW + 500_000)
    assert (valid.max_timestamp, valid.log_append_time) == (NOW + 500_000, NOW + 500_000)
    assert valid.offset_of_max_timestamp_delta == 2
    assign(valid, 10, 0)
    header = read_header(valid.buffer)
    check_crc(valid.buffer, 0, header)
    assert header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert header.codec == codec
    assert {record.timestamp for record in read_batch(valid.buffer)} == {NOW + 500_000}


def test_a_wrong_max_timestamp_is_corrected() -> None:
    valid = check(with_header(batch_of(3), max_timestamp=5, attributes=0x100))
    assert valid.max_timestamp == NOW + 2
    assign(valid, 0, 0)
    header = read_header(valid.buffer)
    check_crc(valid.buffer, 0, header)
    assert (header.max_timestamp, header.attributes) == (NOW + 2, 0)


def test_a_claim_of_log_append_time_is_refused_by_such_a_topic() -> None:
    batch = build_batch(simple_records(2), log_append_time=NOW)
    with pytest.raises(InvalidTimestamp) as refused:
        check(batch, ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert [index for index, _ in refused.value.record_errors] == [0, 1]
    assert "only a broker may set" in refused.value.record_errors[0][1]


def test_a_create_time_topic_accepts_a_claimed_time_within_bounds() -> None:
    valid = check(build_batch(simple_records(2), log_append_time=NOW + 7))
    assert (valid.max_timestamp, valid.log_append_time) == (NOW + 7, -1)
    assign(valid, 0, 0)
    assert read_header(valid.buffer).timestamp_type == TimestampType.CREATE_TIME
    for claimed in (NOW + 4_000_000, -1):
        with pytest.raises(InvalidTimestamp) as refused:
            check(build_batch(simple_records(2), log_append_time=claimed))
        assert [index for index, _ in refused.value.record_errors] == [0, 1]
    keyless = build_batch([Record(0, NOW, b"k", b""), Record(0, NOW, None, b"")], log_append_time=NOW)
    with pytest.raises(InvalidRecord) as no_key:
        check(keyless, ProduceRules(compacted=True))
    assert [index for index, _ in no_key.value.record_errors] == [1]


# --- everything else ----------------------------------------------------------------------------------


@settings(max_examples=200, suppress_health_check=FIXTURES_STAY)
@given(records=RECORDS, codec=st.sampled_from(list(Codec)), data=st.data())
def test_any_bytes_are_accepted_readable_or_refused_with_a_typed_error(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = build_batch(records, codec=codec)
    broken = mutations(data, bytes(batch))
    if len(broken) > 61 and data.draw(st.booleans()):
        # The checksum is corrected, so that the changes reach the later checks.
        try:
            broken = with_body(broken, broken[61:])
        except CorruptMessage:
            return
    rules = ProduceRules(
        codec=data.draw(st.none() | st.sampled_from(list(Codec))), decompressed_bytes_max=1 << 20
    )
    before = bytes(broken)
    try:
        check_request(broken, 9)
        valid = validate(memoryview(broken), rules, NOW)
    except KafkaError:
        assert broken == before
        return
    assign(valid, 77, 3)
    read = read_batch(valid.buffer)
    assert [record.offset for record in read] == list(range(77, 77 + valid.record_count))
    assert max(-1, *(record.timestamp for record in read)) == valid.max_timestamp
