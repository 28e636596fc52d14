"""Three modules read records: the leader's check, compaction and the client's reader. None may refuse what
another accepts, or find other fields in it: a record that was acknowledged is read and compacted for ever."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.records import kernel, load_kernel, plain_kernel
from ottla.records.batch import BatchHeader, read_header, wrap_64
from ottla.records.compaction import KeyMap, Rules, Verdict, compact_batch
from ottla.records.reader import RecordReader
from ottla.records.record import Record, assemble, read_batch
from ottla.records.validate import LONG_MAX, ProduceRules, assign, validate

SECRET = bytes(16)
NOW_MS = 1_700_000_000_000
RULES = ProduceRules(compacted=True, timestamp_before_max_ms=LONG_MAX, timestamp_after_max_ms=LONG_MAX)
KERNELS = {"plain": plain_kernel(), "in use": kernel}
KEYS_FORMS = {"plain": plain_kernel("keys"), "in use": load_kernel("keys")}


def varint(value: int, padding: int, junk: int, *, bits: int = 32) -> bytes:
    """A zigzag varint, `padding` bytes longer than necessary, with `junk` in the bits that Java drops."""
    longest = 5 if bits == 32 else 10
    raw = ((value << 1) ^ (value >> (bits - 1))) & ((1 << bits) - 1)
    out = []
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    for _ in range(min(padding, longest - len(out))):
        out[-1] |= 0x80
        out.append(0)
    if len(out) == longest:
        dropped = 7 * longest - bits
        out[-1] |= (junk << (7 - dropped)) & 0x7F
    return bytes(out)


Field = tuple[int, int]
FIELDS = st.tuples(st.integers(0, 9), st.integers(0, 127))
BASES = st.sampled_from([0, NOW_MS, LONG_MAX, -LONG_MAX - 1, LONG_MAX - 5, -LONG_MAX + 1000])
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b""]),
        st.none() | st.binary(max_size=9),
        st.sampled_from([0, 1, -1, NOW_MS, LONG_MAX, -LONG_MAX - 1]),
        FIELDS,
    ),
    min_size=1,
    max_size=6,
)


def encoded(entries: list[tuple[bytes, bytes | None, int, Field]]) -> bytes:
    content = b""
    for index, (key, value, delta, field) in enumerate(entries):
        body = b"\0" + varint(delta, *field, bits=64) + varint(index, *field)
        body += varint(len(key), *field) + key
        body += varint(-1, *field) if value is None else varint(len(value), *field) + value
        body += varint(1, *field) + varint(1, *field) + b"h" + varint(-1, *field)
        content += varint(len(body), *field) + body
    return content


def batch_of(entries: list[tuple[bytes, bytes | None, int, Field]], base: int, attributes: int) -> bytearray:
    count = len(entries)
    header = BatchHeader(0, 0, -1, 2, 0, attributes, count - 1, base, NOW_MS, -1, -1, -1, count)
    return assemble(header, encoded(entries))


@pytest.mark.parametrize("form", KEYS_FORMS.values(), ids=KEYS_FORMS)
@given(entries=ENTRIES, base=BASES, claims=st.booleans())
# A producer that claims LogAppendTime can give its records any timestamp.
@example([(b"k", b"1", 0, (9, 127))], NOW_MS, True)
@example([(b"a", b"1", 0, (0, 0)), (b"b", b"2", 5, (0, 0)), (b"a", b"3", 7, (0, 0))], LONG_MAX, True)
@example([(b"a", None, 0, (0, 0))], -LONG_MAX - 1, True)
def test_accepted_batches_can_be_compacted_and_read(
    form: ModuleType, entries: list[tuple[bytes, bytes | None, int, Field]], base: int, claims: bool
) -> None:
    batch = batch_of(entries, base, 0x08 if claims else 0)
    valid = validate(memoryview(batch), RULES, NOW_MS)
    assign(valid, 100, 0)
    stored = bytes(valid.buffer)
    expected = [
        (100 + index, wrap_64(base + delta), key, value)
        for index, (key, value, delta, _) in enumerate(entries)
    ]
    content, count = stored[61:], len(entries)
    for one in KERNELS.values():
        walked = one.walk(content, 0, len(content), count, base, NOW_MS, LONG_MAX, LONG_MAX, False, True)
        assert walked[:2] == (kernel.OK, count)
    assert [record[:4] for record in read_batch(stored)] == expected
    reader = RecordReader("topic", 0, stored, 0)
    assert [(one.offset, one.timestamp, one.key, one.value) for one in reader.take(100)] == expected

    marks = bytearray(count)
    table = form.new_table(10)
    assert form.map_keys(content, 0, len(content), count, 100, 0, table, SECRET, 0, 9)[0] == count
    form.mark_kept(content, 0, len(content), count, 100, 200, table, SECRET, True, marks, base)
    last = {key: index for index, (key, _, _, _) in enumerate(entries)}
    assert list(marks) == [last[key] == index for index, (key, _, _, _) in enumerate(entries)]


@given(entries=ENTRIES, base=BASES, retention_ms=st.sampled_from([0, 86_400_000, LONG_MAX]))
@example([(b"a", None, 0, (0, 0)), (b"b", b"1", 0, (0, 0))], NOW_MS, LONG_MAX)
@example([(b"a", None, 0, (0, 0))], -LONG_MAX - 1, 86_400_000)
@example([(b"a", b"1", 0, (0, 0)), (b"b", b"2", 5, (0, 0)), (b"a", b"3", 7, (0, 0))], LONG_MAX, 0)
def test_compaction_preserves_offsets_timestamps_and_values(
    entries: list[tuple[bytes, bytes | None, int, Field]], base: int, retention_ms: int
) -> None:
    batch = batch_of(entries, base, 0)
    header = read_header(batch)
    key_map = KeyMap(100, SECRET)
    assert key_map.add(batch, 0, header, 0)
    kept = compact_batch(batch, 0, header, key_map, Verdict(), Rules(NOW_MS, retention_ms, True))
    assert kept.batch is not None
    last = {key: index for index, (key, _, _, _) in enumerate(entries)}
    assert read_batch(kept.batch) == [
        Record(index, wrap_64(base + delta), key, value, (("h", None),))
        for index, (key, value, delta, _) in enumerate(entries)
        if last[key] == index
    ]
    if kept.records_kept < len(entries):
        stamps = [record.timestamp for record in read_batch(kept.batch)]
        assert read_header(kept.batch).max_timestamp == max(-1, *stamps)
    if retention_ms == LONG_MAX:
        assert read_header(kept.batch).delete_horizon_ms is None
