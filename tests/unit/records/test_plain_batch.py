"""The check of plain batches: what it accepts is what `validate` accepts and does not change."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.batch import HEADER_BYTES, Codec, TimestampType, read_header, write_crc
from ottla.records.plain_batch import NOT_PLAIN, PLAIN_BYTES_MAX, PlainCheck
from ottla.records.record import Record, build_batch
from ottla.records.validate import ProduceRules, validate
from ottla.wire.errors import KafkaError

NOW_MS = 1_700_000_000_000
RULES = {
    "plain": ProduceRules(),
    "keys": ProduceRules(compacted=True),
    "old refused": ProduceRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000),
    "small": ProduceRules(max_message_bytes=120),
    "none": ProduceRules(codec=Codec.NONE),
    "lz4": ProduceRules(codec=Codec.LZ4),
    "append time": ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME),
}


def _records(count: int, value_bytes: int = 20, key: bytes | None = b"k") -> list[Record]:
    return [Record(number, NOW_MS + number % 3, key, b"v" * value_bytes) for number in range(count)]


@st.composite
def _batches(draw: st.DrawFn) -> bytearray:
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": draw(st.sampled_from([0, -1, 7]))}
    records = _records(
        draw(st.integers(1, 4)), draw(st.integers(0, 90)), draw(st.sampled_from([None, b"", b"k"]))
    )
    batch = build_batch(records, codec=draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4])), **options)
    for _ in range(draw(st.integers(0, 2))):
        batch[draw(st.integers(0, len(batch) - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):  # so that a change is not only found by the checksum
        write_crc(batch, 0, len(batch))
    return batch[: draw(st.sampled_from([len(batch), len(batch), len(batch) - 1, HEADER_BYTES, 3]))]


@settings(max_examples=400, deadline=None)
@given(batch=_batches(), kind=st.sampled_from(sorted(RULES)), around=st.integers(0, 9))
def test_a_plain_batch_is_one_that_validate_accepts_as_it_is(
    batch: bytearray, kind: str, around: int
) -> None:
    rules = RULES[kind]
    data = memoryview(bytearray(around) + batch + bytearray(around))
    found = PlainCheck(rules).max_timestamp(data, around, around + len(batch), NOW_MS)
    try:
        valid = validate(memoryview(bytearray(batch)), rules, NOW_MS)
    except KafkaError:
        assert found == NOT_PLAIN
        return
    if found != NOT_PLAIN:
        assert (found, False, len(batch)) == (valid.max_timestamp, valid.restamp, len(valid.buffer))
    elif kind in ("plain", "keys", "old refused", "none"):
        header = read_header(batch, 0)
        assert header.attributes or valid.restamp or header.length_bytes < len(batch)


def test_a_large_batch_is_left_to_validate() -> None:
    for size, is_plain in ((PLAIN_BYTES_MAX - 100, True), (PLAIN_BYTES_MAX, False)):
        batch = memoryview(build_batch(_records(1, size)))
        found = PlainCheck(RULES["plain"]).max_timestamp(batch, 0, len(batch), NOW_MS)
        assert (found != NOT_PLAIN) == is_plain
