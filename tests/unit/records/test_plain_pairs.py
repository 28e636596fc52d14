"""Keys and values of many batches at once, compiled and plain: the same as `read_batch` one by one."""

from __future__ import annotations

from types import ModuleType

import pytest
from fastcrc.crc32 import iscsi as crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import load_kernel, plain_kernel
from ottla.records.batch import Codec, iterate_headers
from ottla.records.record import Record, build_batch, read_batch

FORMS = [plain_kernel(), load_kernel("kernel")]
forms = pytest.mark.parametrize("form", FORMS, ids=["plain", "in use"])

HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=2).map(tuple)
RECORDS = st.builds(
    Record,
    st.just(0),
    st.integers(0, 10**13),
    st.binary(max_size=200),
    st.none() | st.binary(max_size=200),
    HEADERS,
)
BATCHES = st.lists(st.lists(RECORDS, min_size=1, max_size=5), max_size=5)


def joined(batches: list[list[Record]], **special: object) -> bytes:
    """Several batches; the second one is special."""
    out = bytearray()
    offset = 10
    for number, records in enumerate(batches):
        options = special if number == 1 else {}
        out += build_batch(records, base_offset=offset, **options)  # type: ignore[arg-type]
        offset += len(records)
    return bytes(out)


def one_by_one(data: bytes) -> list[tuple[bytes | None, bytes | None]]:
    records = [record for at, header in iterate_headers(data) for record in read_batch(data, at, header)]
    assert all(record.key is not None for record in records)
    return [(record.key, record.value) for record in records]


@forms
@given(batches=BATCHES)
def test_plain_batches_give_the_same_as_one_by_one(form: ModuleType, batches: list[list[Record]]) -> None:
    data = joined(batches)
    pairs, position, next_offset = form.plain_pairs(data, 0, len(data), 0, 10**6, crc32c)
    assert pairs == one_by_one(data)
    assert position == len(data)
    assert next_offset == (10 + sum(map(len, batches)) if batches else -1)


@forms
@pytest.mark.parametrize(
    "special",
    [
        {"transactional": True, "producer_id": 1, "producer_epoch": 0},
        {"transactional": True, "control": True, "producer_id": 1, "producer_epoch": 0},
        {"codec": Codec.GZIP},
    ],
    ids=["transactional", "control", "compressed"],
)
def test_special_batches_are_not_read_here(form: ModuleType, special: dict[str, object]) -> None:
    record = Record(0, 5, b"key", b"value")
    data = joined([[record], [record], [record]], **special)
    positions = [at for at, _ in iterate_headers(data)]
    pairs, position, next_offset = form.plain_pairs(data, 0, len(data), 0, 100, crc32c)
    assert (pairs, position, next_offset) == ([(b"key", b"value")], positions[1], 11)
    assert form.plain_pairs(data, position, len(data), 0, 100, crc32c) == ([], position, -1)
    pairs, position, next_offset = form.plain_pairs(data, positions[2], len(data), 0, 100, crc32c)
    assert (len(pairs), position, next_offset) == (1, len(data), 13)


@forms
def test_batches_before_the_start_are_skipped_up_to_a_limit(form: ModuleType) -> None:
    data = joined([[Record(0, 5, b"%d" % number, None)] for number in range(6)])
    pairs, _, next_offset = form.plain_pairs(data, 0, len(data), 12, 100, crc32c)
    assert ([key for key, _ in pairs], next_offset) == ([b"2", b"3", b"4", b"5"], 16)
    pairs, position, next_offset = form.plain_pairs(data, 0, len(data), 0, 2, crc32c)
    assert ([key for key, _ in pairs], next_offset) == ([b"0", b"1"], 12)
    rest, position, next_offset = form.plain_pairs(data, position, len(data), 0, 100, crc32c)
    assert ([key for key, _ in rest], position, next_offset) == ([b"2", b"3", b"4", b"5"], len(data), 16)


@forms
@given(batches=BATCHES.filter(bool), at=st.integers(0), byte=st.integers(0, 255), repair=st.booleans())
def test_reading_stops_at_an_invalid_batch(
    form: ModuleType, batches: list[list[Record]], at: int, byte: int, repair: bool
) -> None:
    data = bytearray(joined(batches))
    headers = list(iterate_headers(data))
    start, header = headers[-1]
    at = start + 21 + at % (header.length_bytes - 21)
    data[at] = byte
    if repair:  # so that only the records are invalid, not the checksum
        data[start + 17 : start + 21] = crc32c(bytes(data[start + 21 :])).to_bytes(4, "big")
    broken = bytes(data)
    pairs, position, _ = form.plain_pairs(broken, 0, len(broken), 0, 10**6, crc32c)
    assert position in (start, len(broken))
    if position == start:
        assert pairs == one_by_one(broken[:start])
    else:
        assert pairs == one_by_one(broken)


@forms
@given(batches=BATCHES, cut=st.integers(0, 400))
def test_reading_stops_at_a_truncated_batch(form: ModuleType, batches: list[list[Record]], cut: int) -> None:
    data = joined(batches)
    data = data[: max(0, len(data) - cut)]
    pairs, position, _ = form.plain_pairs(data, 0, len(data), 0, 10**6, crc32c)
    assert pairs == one_by_one(data)
    assert all(at + header.length_bytes <= position for at, header in iterate_headers(data))


@forms
def test_a_record_without_a_key_stops_reading(form: ModuleType) -> None:
    data = joined([[Record(0, 5, b"key", None)], [Record(0, 5, b"key", None), Record(0, 5, None, b"value")]])
    pairs, position, next_offset = form.plain_pairs(data, 0, len(data), 0, 100, crc32c)
    assert (pairs, next_offset) == ([(b"key", None)], 11)
    assert position in [at for at, _ in iterate_headers(data)][1:]


@forms
@pytest.mark.parametrize(("position", "end"), [(-1, 3), (2, 1), (0, 4)])
def test_no_byte_outside_the_buffer_is_read(form: ModuleType, position: int, end: int) -> None:
    with pytest.raises(ValueError, match="no bytes"):
        form.plain_pairs(b"abc", position, end, 0, 1, crc32c)
