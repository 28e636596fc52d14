"""Compaction of batches, compared with a plain dictionary of keys."""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import keys
from ottla.records.batch import Codec, TimestampType, check_crc, iterate_headers, read_header
from ottla.records.compaction import Kept, KeyMap, Rules, Verdict, compact_batch, new_table
from ottla.records.control import end_txn_marker
from ottla.records.record import Record, build_batch, read_batch, read_records
from ottla.wire.errors import CorruptMessage

SECRET = bytes(16)
RULES = Rules(now_ms=5000, delete_retention_ms=100, keep_legacy_tombstones=True)
PLAIN = Verdict()

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b""])
HEADERS = st.just(()) | st.just((("h", b"1"), ("h", None)))
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 10**12),
        KEYS | st.none(),
        st.none() | st.binary(max_size=9),
        HEADERS,
    ),
    min_size=1,
    max_size=12,
)


def batch_of(*records: tuple[bytes | None, bytes | None], base_offset: int = 0, **options: Any) -> bytearray:
    values = [Record(0, 1000 + number, key, value) for number, (key, value) in enumerate(records)]
    return build_batch(values, base_offset=base_offset, **options)


def mapped(*batches: bytearray, slots: int = 100, start_offset: int = 0) -> KeyMap:
    key_map = KeyMap(slots, SECRET)
    for batch in batches:
        key_map.add(batch, 0, read_header(batch), start_offset)
    return key_map


def compacted(batch: bytearray, key_map: KeyMap, verdict: Verdict = PLAIN, rules: Rules = RULES) -> Kept:
    return compact_batch(batch, 0, read_header(batch), key_map, verdict, rules)


def records_of(kept: Kept) -> list[Record]:
    assert kept.batch is not None
    check_crc(kept.batch, 0, read_header(kept.batch))
    return read_batch(kept.batch)


@given(
    st.lists(st.tuples(RECORDS, st.sampled_from(Codec), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 30),
)
def test_the_last_value_of_each_key_is_kept_in_order(
    content: list[tuple[list[Record], Codec, bool]], start_offset: int
) -> None:
    batches: list[bytearray] = []
    originals: list[Record] = []
    offset = 0
    for records, codec, is_append_time in content:
        append_time = 77 if is_append_time else None
        batch = build_batch(records, codec=codec, base_offset=offset, log_append_time=append_time)
        batches.append(batch)
        originals += read_batch(batch)
        offset += len(records)
    key_map = mapped(*batches, start_offset=start_offset)

    last = {record.key: record.offset for record in originals if record.offset >= start_offset}
    latest = offset - 1 if offset > start_offset else -1
    expected = [
        record
        for record in originals
        if record.offset > latest or (record.key is not None and last.get(record.key, -1) <= record.offset)
    ]
    result: list[Record] = []
    for batch in batches:
        kept = compacted(batch, key_map)
        if kept.batch is not None:
            header, before = read_header(kept.batch), read_header(batch)
            assert (header.base_offset, header.last_offset) == (before.base_offset, before.last_offset)
            assert header.codec == before.codec
            result += records_of(kept)
            assert kept.records_kept == header.record_count
            tombstones = any(record.value is None for record in records_of(kept))
            assert (header.delete_horizon_ms is not None) == tombstones
    assert result == expected


def test_an_unchanged_batch_is_not_copied() -> None:
    batch = batch_of((b"a", b"1"), (b"b", b"2"))
    kept = compacted(batch, mapped(batch))
    assert isinstance(kept.batch, memoryview)
    assert kept.batch == batch
    assert kept[1:] == (2, 2, 0)


def test_an_empty_batch_is_dropped() -> None:
    batch = batch_of((b"a", b"1"), (None, b"2"))
    newer = batch_of((b"a", b"3"), base_offset=2)
    assert compacted(batch, mapped(batch, newer)) == Kept(None, 2, 0, 1)


def test_an_emptied_batch_keeps_producer_sequence_and_offsets() -> None:
    batch = batch_of(
        (b"a", b"1"),
        (b"a", b"2"),
        base_offset=7,
        producer_id=5,
        producer_epoch=2,
        base_sequence=40,
        transactional=True,
        leader_epoch=3,
        codec=Codec.LZ4,
    )
    newer = batch_of((b"a", b"3"), base_offset=9)
    kept = compacted(batch, mapped(batch, newer), Verdict(retain_empty=True))
    assert kept.batch is not None
    header = read_header(kept.batch)
    assert records_of(kept) == []
    assert (header.base_offset, header.last_offset, header.base_sequence, header.last_sequence) == (
        7,
        8,
        40,
        41,
    )
    assert (header.producer_id, header.producer_epoch, header.partition_leader_epoch) == (5, 2, 3)
    assert (header.is_transactional, header.codec, header.record_count, header.base_timestamp) == (
        True,
        0,
        0,
        -1,
    )
    assert header.max_timestamp == 1001
    # A second cleaning keeps or drops it completely.
    emptied = bytearray(kept.batch)
    assert compacted(emptied, mapped(), Verdict(retain_empty=True)).batch == emptied
    assert compacted(emptied, mapped()).batch is None


def test_aborted_records_are_dropped_whatever_their_keys() -> None:
    batch = batch_of((b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    assert compacted(batch, mapped(), Verdict(discard_records=True)) == Kept(None, 1, 0, 0)
    kept = compacted(batch, mapped(), Verdict(discard_records=True, retain_empty=True))
    assert records_of(kept) == []


def test_a_tombstone_gets_a_delete_horizon_and_expires() -> None:
    batch = batch_of((b"a", b"1"), (b"b", None), (b"c", b"3"))
    first = compacted(batch, mapped(batch))
    assert first.batch is not None
    header = read_header(first.batch)
    assert header.delete_horizon_ms == 5100
    assert header.max_timestamp == 1002
    assert [record.timestamp for record in records_of(first)] == [1000, 1001, 1002]
    again = bytearray(first.batch)
    waiting = compacted(again, mapped(again), rules=RULES._replace(now_ms=5099))
    assert waiting.batch == again
    over = compacted(again, mapped(again), rules=RULES._replace(now_ms=5100))
    assert [record.key for record in records_of(over)] == [b"a", b"c"]
    assert read_header(over.batch or b"").delete_horizon_ms == 5100
    assert [record.timestamp for record in records_of(over)] == [1000, 1002]


def test_timestamps_come_from_the_kept_records() -> None:
    batch = batch_of((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"))
    newer = batch_of((b"c", b"5"), base_offset=4)
    kept = compacted(batch, mapped(batch, newer))
    header = read_header(kept.batch or b"")
    assert (header.base_timestamp, header.max_timestamp) == (1001, 1002)
    assert header.timestamp_type == TimestampType.CREATE_TIME


def test_a_marker_is_kept_until_its_horizon() -> None:
    marker = end_txn_marker(commit=True, producer_id=5, producer_epoch=0, coordinator_epoch=1, timestamp=1000)
    assert compacted(marker, mapped()).batch == marker
    kept = compacted(marker, mapped(), Verdict(set_horizon=True))
    header = read_header(kept.batch or b"")
    assert header.delete_horizon_ms == 5100
    assert header.is_control
    assert records_of(kept) == read_batch(marker)
    again = bytearray(kept.batch or b"")
    assert compacted(again, mapped(), Verdict(set_horizon=True)).batch == again
    assert compacted(again, mapped(), Verdict(discard_records=True)).batch is None


def test_a_full_map_compacts_only_known_offsets() -> None:
    batch = batch_of(*((bytes([number]), b"v") for number in range(10)), (b"\0", b"w"))
    key_map = KeyMap(4, SECRET, load_factor=0.75)
    assert not key_map.add(batch, 0, read_header(batch), 0)
    assert (key_map.used, key_map.used_max, key_map.latest_offset) == (3, 3, 2)
    assert len(records_of(compacted(batch, key_map))) == 11


@pytest.mark.parametrize("slots", [-1, 0, 1, 2, 3])
def test_even_the_smallest_map_accepts_one_key(slots: int) -> None:
    batch = batch_of((b"a", b"1"))
    assert mapped(batch, slots=slots).latest_offset == 0


def test_a_damaged_batch_is_an_error_and_never_rewritten() -> None:
    batch = batch_of((b"a", b"1"), (b"a", b"2"))
    key_map = mapped(batch)
    batch[-3] ^= 1
    with pytest.raises(CorruptMessage):
        compacted(batch, key_map)
    with pytest.raises(CorruptMessage):
        mapped(batch)


def test_batches_follow_each_other_in_one_buffer() -> None:
    data = (
        batch_of((b"a", b"1")) + batch_of((b"b", b"2"), base_offset=1) + batch_of((b"a", b"3"), base_offset=2)
    )
    key_map = KeyMap(10, SECRET)
    for at, header in iterate_headers(data):
        assert key_map.add(data, at, header, 0)
    result = bytearray()
    for at, header in iterate_headers(data):
        result += compact_batch(data, at, header, key_map, PLAIN, RULES).batch or b""
    assert [(record.offset, record.key) for record in read_records(result)] == [(1, b"b"), (2, b"a")]


def message(offset: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytearray:
    """A message of format v1."""
    body = struct.pack(">bbq", 1, attributes, 1000 + offset)
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return bytearray(struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body)


def test_old_messages_are_kept_or_dropped_individually() -> None:
    messages = [message(0, b"a", b"1"), message(1, b"b", None), message(2, b"a", b"2")]
    key_map = mapped(*messages)
    assert [compacted(one, key_map).batch for one in messages] == [None, messages[1], messages[2]]
    no_tombstones = RULES._replace(keep_legacy_tombstones=False)
    assert compacted(messages[1], key_map, rules=no_tombstones).batch is None


def test_a_part_of_an_old_compressed_set_becomes_a_new_batch() -> None:
    inner = message(0, b"a", b"1") + message(1, b"b", b"2") + message(2, b"a", b"3") + message(3, b"c", b"4")
    wrapper = message(13, None, gzip.compress(inner), attributes=Codec.GZIP)
    newer = batch_of((b"c", b"5"), base_offset=14)
    kept = compacted(wrapper, mapped(wrapper, newer))
    assert kept[1:] == (4, 2, 0)
    assert read_header(kept.batch or b"").magic == 2
    assert read_header(kept.batch or b"").codec == Codec.GZIP
    assert records_of(kept) == [Record(11, 1001, b"b", b"2"), Record(12, 1002, b"a", b"3")]
    assert compacted(wrapper, mapped(wrapper)).records_kept == 3
    alone = message(14, None, gzip.compress(message(0, b"z", b"1")), attributes=Codec.GZIP)
    assert compacted(alone, mapped(alone)).batch == alone


def test_a_required_old_message_becomes_an_empty_batch() -> None:
    old = message(3, b"a", b"1")
    kept = compacted(old, mapped(old, batch_of((b"a", b"2"), base_offset=4)), Verdict(retain_empty=True))
    header = read_header(kept.batch or b"")
    assert (header.magic, header.record_count, header.last_offset, header.producer_id) == (2, 0, 3, -1)


@pytest.mark.parametrize("slots", [0, 1, 2, 100, (1 << 17) // 3, 1 << 18])
def test_a_table_filled_in_steps_equals_one_filled_at_once(slots: int) -> None:
    assert new_table(slots) == keys.new_table(slots)
