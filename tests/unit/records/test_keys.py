"""The loops of compaction, compiled and plain: both match a dictionary of keys."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import is_compiled, kernel, load_kernel, plain_kernel
from ottla.records.batch import wrap_64

SECRET = bytes(range(16))
PLAIN = plain_kernel("keys")
FORMS = [PLAIN, load_kernel("keys")]

KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"longer-key", b"x" * 300])
VALUES = st.none() | st.binary(max_size=20)
RECORDS = st.lists(st.tuples(KEYS, VALUES, st.integers(-(10**13), 10**13), st.integers(1, 3)), max_size=40)

forms = pytest.mark.parametrize("form", FORMS, ids=["plain", "in use"])


def encoded(
    records: list[tuple[bytes | None, bytes | None, int, int]],
) -> tuple[bytearray, list[tuple[int, int, bytes | None, bytes | None]]]:
    """Records with gaps in their offsets, as bytes, and (offset delta, timestamp delta, key, value)."""
    entries = []
    delta = -1
    for key, value, timestamp, gap in records:
        delta += gap
        entries.append((delta, timestamp, key, value))
    headers = (("h", b"1"), ("n", None))
    return kernel.encode([(*entry, headers) for entry in entries]), entries


def test_keys_are_compiled_if_the_kernel_is() -> None:
    assert is_compiled(FORMS[1]) == is_compiled(kernel)
    assert not is_compiled(PLAIN)


def test_the_compiled_digest_is_siphash() -> None:
    if not is_compiled(FORMS[1]):
        pytest.skip("the kernel is not compiled here")
    words = FORMS[1].digest(bytes(range(15)), SECRET)
    # From the reference vectors of SipHash-2-4 with 128 bits: key 00..0f, message 00..0e.
    assert b"".join(word.to_bytes(8, "little") for word in words).hex() == "5493e99933b0a8117e08ec0f97cfc3d9"


@forms
@pytest.mark.parametrize("length", range(20))
def test_a_digest_depends_on_every_byte_and_on_the_secret(form: ModuleType, length: int) -> None:
    message = bytes(range(length))
    seen = {form.digest(message, SECRET), form.digest(message + b"\0", SECRET)}
    seen |= {form.digest(message[:at] + b"\xff" + message[at + 1 :], SECRET) for at in range(length)}
    seen.add(form.digest(message, bytes(16)))
    assert len(seen) == length + 3


@forms
@given(
    records=RECORDS,
    start=st.integers(0, 30),
    keep_tombstones=st.booleans(),
    latest=st.integers(-1, 130),
    base=st.sampled_from([0, 10**12, 2**63 - 1, -(2**63)]),
)
def test_the_last_record_of_each_key_is_kept(
    form: ModuleType,
    records: list[tuple[bytes | None, bytes | None, int, int]],
    start: int,
    keep_tombstones: bool,
    latest: int,
    base: int,
) -> None:
    data, entries = encoded(records)
    count = len(entries)
    table = form.new_table(8)
    taken = form.map_keys(data, 0, len(data), count, 10, 10 + start, table, SECRET, 0, 7)
    last = {key: 10 + delta for delta, _, key, _ in entries if key is not None and delta >= start}
    assert taken == (count, len(last), -1)

    marks = bytearray(count)
    kept, tombstones, keyless, first, greatest = form.mark_kept(
        data, 0, len(data), count, 10, 10 + latest, table, SECRET, keep_tombstones, marks, base
    )
    expected = []
    for delta, _, key, value in entries:
        judged = delta <= latest
        is_last = key is not None and last.get(key, -1) <= 10 + delta
        expected.append(not judged or (is_last and (value is not None or keep_tombstones)))
    assert [bool(mark) for mark in marks] == expected
    staying = [entry for entry, stays in zip(entries, expected, strict=True) if stays]
    assert kept == len(staying)
    assert tombstones == sum(value is None for _, _, _, value in staying)
    assert keyless == sum(key is None and delta <= latest for delta, _, key, _ in entries)
    if staying:
        assert first == wrap_64(base + staying[0][1])
        assert greatest == max(wrap_64(base + timestamp) for _, timestamp, _, _ in staying)


@forms
@given(records=RECORDS, marks=st.binary(min_size=40, max_size=40), shift=st.integers(-(10**13), 10**13))
def test_records_are_copied_with_shifted_timestamps(
    form: ModuleType,
    records: list[tuple[bytes | None, bytes | None, int, int]],
    marks: bytes,
    shift: int,
) -> None:
    data, entries = encoded(records)
    flags = bytearray(mark & 1 for mark in marks)
    copied = form.copy_kept(data, 0, len(data), len(entries), flags, shift)
    staying = [entry for entry, flag in zip(entries, flags, strict=False) if flag]
    headers = (("h", b"1"), ("n", None))
    assert copied == kernel.encode(
        [(delta, time + shift, key, value, headers) for delta, time, key, value in staying]
    )


@forms
def test_a_full_table_reports_the_first_missing_offset(form: ModuleType) -> None:
    data, _ = encoded([(bytes([number]), b"v", 0, 2) for number in range(10)])
    table = form.new_table(5)
    assert form.map_keys(data, 0, len(data), 10, 100, 0, table, SECRET, 0, 4) == (4, 4, 109)
    # A known key needs no free slot.
    again, _ = encoded([(b"\0", b"v", 0, 1)])
    assert form.map_keys(again, 0, len(again), 1, 200, 0, table, SECRET, 4, 4) == (1, 4, -1)
    marks = bytearray(10)
    assert form.mark_kept(data, 0, len(data), 10, 100, 107, table, SECRET, True, marks, 0)[0] == 9


@forms
@given(data=st.binary(max_size=60), count=st.integers(0, 8))
def test_invalid_records_are_refused(form: ModuleType, data: bytes, count: int) -> None:
    outcomes = []
    for module in (form, PLAIN):
        marks = bytearray(count)
        try:
            taken = module.map_keys(data, 0, len(data), count, 0, 0, module.new_table(20), SECRET, 0, 19)
            kept = module.mark_kept(
                data, 0, len(data), count, 0, 2**62, module.new_table(20), SECRET, True, marks, 0
            )
        except ValueError as error:
            outcomes.append((str(error), None))
        else:
            outcomes.append((taken, kept))
    assert outcomes[0] == outcomes[1]


@forms
@given(records=RECORDS, data=st.data())
def test_damaged_records_are_never_read_past_the_end(
    form: ModuleType, records: list[tuple[bytes | None, bytes | None, int, int]], data: st.DataObject
) -> None:
    whole, entries = encoded(records)
    if not whole:
        return
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] = data.draw(st.integers(0, 255))
    stop = data.draw(st.integers(0, len(changed)))
    outcomes = []
    for module in (form, PLAIN):
        try:
            module.map_keys(changed[:stop], 0, stop, len(entries), 0, 0, module.new_table(50), SECRET, 0, 49)
            outcomes.append("sound")
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@forms
@pytest.mark.parametrize(
    ("position", "end", "slots", "secret", "marks"),
    [
        (-1, 0, 4, SECRET, 0),
        (0, 9, 4, SECRET, 0),
        (5, 3, 4, SECRET, 0),
        (0, 0, 0, SECRET, 0),
        (0, 0, 4, b"x", 0),
    ],
)
def test_invalid_arguments_are_refused(
    form: ModuleType, position: int, end: int, slots: int, secret: bytes, marks: int
) -> None:
    with pytest.raises(ValueError):
        form.map_keys(b"12345678", position, end, 0, 0, 0, form.new_table(slots), secret, 0, 1)
    with pytest.raises(ValueError):
        form.mark_kept(b"", 0, 0, 1, 0, 0, form.new_table(4), SECRET, True, bytearray(marks), 0)
