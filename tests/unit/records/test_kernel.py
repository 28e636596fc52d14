"""The per-record loops, compiled and plain."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.records.samples import RECORDS, mutations

LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)
FOREVER = (0, LONG_MAX, LONG_MAX)

FIXTURES_STAY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
any_form = settings(suppress_health_check=FIXTURES_STAY)


def encode(kernel: ModuleType, *entries: tuple[int, int, bytes | None, bytes | None]) -> bytearray:
    return kernel.encode([(*entry, ()) for entry in entries])  # type: ignore[no-any-return]


def walk(
    kernel: ModuleType, data: bytes | bytearray | memoryview, count: int, **options: object
) -> tuple[object, ...]:
    arguments: dict[str, object] = {
        "base_timestamp": 0,
        "now_ms": 0,
        "before_max_ms": LONG_MAX,
        "after_max_ms": LONG_MAX,
        "check_time": False,
        "need_key": False,
    }
    arguments.update(options)
    return kernel.walk(data, 0, len(data), count, *arguments.values())  # type: ignore[no-any-return]


def test_a_valid_batch_is_walked_to_its_end(kernel: ModuleType) -> None:
    data = encode(kernel, (0, 5, b"k", b"v"), (1, 9, None, None), (2, 9, b"", b""), (3, 2, b"k", b"v"))
    assert walk(kernel, data, 4, base_timestamp=100) == (kernel.OK, 4, len(data), 109, 1, None)


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_taken_and_a_part_of_it_can_be_walked(kernel: ModuleType, form: type) -> None:
    data = encode(kernel, (0, 0, b"k", b"v"))
    around = form(b"before" + data + b"after")
    assert kernel.walk(around, 6, 6 + len(data), 1, 0, *FOREVER, False, False)[0] == kernel.OK


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 100), (6, 5)])
def test_a_range_outside_the_buffer_is_refused(kernel: ModuleType, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="no bytes"):
        kernel.walk(bytes(10), start, end, 1, 0, *FOREVER, False, False)
    with pytest.raises(ValueError, match="no bytes"):
        kernel.spans(bytes(10), start, end, 1)


def test_a_record_count_that_is_too_large_is_reported(kernel: ModuleType) -> None:
    data = encode(kernel, (0, 0, b"k", b"v"))
    assert walk(kernel, data, 2)[:2] == (kernel.CUT_OFF, 1)


def test_bytes_after_the_last_record_are_reported(kernel: ModuleType) -> None:
    data = encode(kernel, (0, 0, b"k", b"v"), (1, 0, b"k", b"v"))
    assert walk(kernel, data, 1)[:2] == (kernel.BYTES_LEFT, 1)


@pytest.mark.parametrize("deltas", [(1,), (0, 0), (0, 2), (-1,), (0, 1, 3)])
def test_offset_deltas_must_count_from_zero(kernel: ModuleType, deltas: tuple[int, ...]) -> None:
    data = encode(kernel, *((delta, 0, b"k", b"v") for delta in deltas))
    assert walk(kernel, data, len(deltas))[:2] == (kernel.BAD_OFFSET_DELTA, len(deltas) - 1)


# A record body: attributes, timestamp delta, offset delta, key, value, headers.
@pytest.mark.parametrize(
    ("record", "status"),
    [
        ("", "CUT_OFF"),
        ("80", "CUT_OFF"),
        ("8080808080" + "01", "CUT_OFF"),
        ("01", "BAD_SIZE"),
        ("0e 00 00 00 01 01", "BAD_SIZE"),
        ("00", "BAD_VARINT"),
        ("02 00", "BAD_VARINT"),
        ("04 00 80", "BAD_VARINT"),
        ("18 00 8080808080808080808080", "BAD_VARINT"),
        ("06 00 00 80", "BAD_VARINT"),
        ("0c 00 00 00 0a 01 00", "BAD_SIZE"),
        ("0c 00 00 00 01 08 00", "BAD_SIZE"),
        ("08 00 00 00 01", "BAD_SIZE"),
        ("0a 00 00 00 01 01", "BAD_HEADERS"),
        ("0c 00 00 00 01 01 01", "BAD_HEADERS"),
        ("0c 00 00 00 01 01 02", "BAD_HEADERS"),
        ("10 00 00 00 01 01 02 01 01", "BAD_HEADERS"),
        ("10 00 00 00 01 01 02 08 61", "BAD_HEADERS"),
        ("10 00 00 00 01 01 02 00 08", "BAD_HEADERS"),
        ("0e 00 00 00 01 01 00 00", "SIZE_DIFFERS"),
        ("0c 00 00 00 01 01 00", "OK"),
        ("0c ff 00 00 01 01 00", "OK"),
        ("0c 00 00 00 03 0f 00", "OK"),
        ("0e 00 80 00 00 01 01 00", "OK"),
        ("1e 00 80808080808080808000 00 0101 00", "OK"),
        ("8c 80 80 80 70" + " 00 00 00 01 01 00", "OK"),
        ("10 00 00 00 01 01 02 00 01", "OK"),
    ],
)
def test_an_invalid_record_is_reported(kernel: ModuleType, record: str, status: str) -> None:
    assert walk(kernel, bytes.fromhex(record), 1)[0] == getattr(kernel, status)


def test_an_impossible_record_count_is_refused_at_once(kernel: ModuleType) -> None:
    assert walk(kernel, b"", 2**31 - 1)[0] == kernel.CUT_OFF
    with pytest.raises(ValueError, match="does not fit"):
        kernel.spans(b"", 0, 0, 2**31 - 1)
    # A header count as large as the record, which cannot hold that many.
    body = bytes.fromhex("00 00 00 01 01") + b"\xfe\xff\xff\xff\x0f" + bytes(5)
    assert walk(kernel, bytes([len(body) * 2]) + body, 1)[0] == kernel.BAD_HEADERS


def test_records_without_required_keys_are_listed(kernel: ModuleType) -> None:
    data = encode(kernel, (0, 0, None, b"v"), (1, 0, b"", b"v"), (2, 0, None, None))
    assert walk(kernel, data, 3, need_key=True)[5] == [(0, kernel.NO_KEY, 0), (2, kernel.NO_KEY, 0)]
    assert walk(kernel, data, 3)[5] is None


def test_timestamps_out_of_bounds_are_listed(kernel: ModuleType) -> None:
    deltas = [0, -100, -101, 50, 51, -1001]
    data = encode(kernel, *((index, delta, b"k", None) for index, delta in enumerate(deltas)))
    bounds = {"base_timestamp": 1000, "now_ms": 1000, "before_max_ms": 100, "after_max_ms": 50}
    problems = walk(kernel, data, 6, check_time=True, **bounds)[5]
    # The last has the timestamp -1, which means none and is not checked.
    assert problems == [(2, kernel.TIMESTAMP_OUTSIDE, 899), (4, kernel.TIMESTAMP_OUTSIDE, 1051)]
    assert walk(kernel, data, 6, check_time=False, **bounds)[5] is None


def test_a_missing_key_is_listed_before_a_bad_timestamp(kernel: ModuleType) -> None:
    data = encode(kernel, (0, 999, None, None))
    options = {"check_time": True, "need_key": True, "after_max_ms": 1}
    assert walk(kernel, data, 1, **options)[5] == [(0, kernel.NO_KEY, 999)]


def test_the_list_of_records_is_limited(kernel: ModuleType) -> None:
    count = kernel.PROBLEMS_MAX + 5
    data = encode(kernel, *((index, 0, None, None) for index in range(count)))
    result = walk(kernel, data, count, need_key=True)
    assert result[:2] == (kernel.OK, count)
    assert isinstance(result[5], list)
    assert len(result[5]) == kernel.PROBLEMS_MAX


def test_timestamps_wrap_as_in_java(kernel: ModuleType) -> None:
    data = encode(kernel, (0, LONG_MAX, b"k", None))
    assert walk(kernel, data, 1, base_timestamp=1)[3:5] == (-1, -1)
    assert walk(kernel, data, 1, base_timestamp=-5)[3:5] == (LONG_MAX - 5, 0)
    far_past = encode(kernel, (0, LONG_MIN, b"k", None))
    # now - timestamp overflows: Java treats the result as a time in the future.
    result = walk(kernel, far_past, 1, now_ms=10, check_time=True, after_max_ms=3_600_000)
    assert result[5] == [(0, kernel.TIMESTAMP_OUTSIDE, LONG_MIN)]


@any_form
@given(records=RECORDS)
def test_encoded_records_are_decoded(kernel: ModuleType, records: list[tuple[Any, ...]]) -> None:
    entries = [(index, *record[1:]) for index, record in enumerate(records)]
    data = bytes(kernel.encode(entries))
    assert kernel.decode(data, 0, len(data), len(entries), 0, 0) == entries
    assert walk(kernel, data, len(entries))[:3] == (kernel.OK, len(entries), len(data))
    shifted = kernel.decode(data, 0, len(data), len(entries), 100, 1000)
    assert [fields[:2] for fields in shifted] == [(entry[0] + 100, entry[1] + 1000) for entry in entries]


@pytest.mark.parametrize("delta", [0, 63, -64, 64, 2**31, LONG_MAX, LONG_MIN, -1, 2**62])
def test_extreme_numbers_survive_a_round_trip(kernel: ModuleType, delta: int) -> None:
    data = bytes(encode(kernel, (0, delta, b"k" * 70, b"v" * 9000)))
    assert kernel.decode(data, 0, len(data), 1, 0, 0) == [(0, delta, b"k" * 70, b"v" * 9000, ())]


def test_a_timestamp_delta_of_more_than_64_bits_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(OverflowError):
        encode(kernel, (0, 2**63, None, None))


def test_a_header_name_that_is_not_utf8_is_still_read(kernel: ModuleType) -> None:
    data = bytes(kernel.encode([(0, 0, None, None, [(b"\xff\x41", b"v"), ("n", None)])]))
    assert kernel.decode(data, 0, len(data), 1, 0, 0)[0][4] == (("\ufffdA", b"v"), ("n", None))


def test_spans_locate_keys_values_and_records(kernel: ModuleType) -> None:
    first = encode(kernel, (0, 7, b"key", b"value"))
    second = encode(kernel, (4, -7, None, None))
    third = encode(kernel, (5, 0, b"", b""))
    data = first + second + third
    one, two, three = kernel.spans(data, 0, len(data), 3)
    assert one[:2] == (0, 7)
    assert data[one[2] : one[3]] == b"key"
    assert data[one[4] : one[5]] == b"value"
    assert (one[6], one[7]) == (0, len(first))
    assert two[:5] == (4, -7, -1, -1, -1)
    assert (three[3] - three[2], three[5] - three[4]) == (0, 0)
    assert three[2] >= 0
    assert three[4] >= 0
    assert (three[6], three[7]) == (len(first) + len(second), len(data))


def test_retained_records_keep_their_bytes(kernel: ModuleType) -> None:
    entries = [(index, index * 3, b"k%d" % index, b"v", (("h", b"x"),)) for index in range(5)]
    data = bytes(kernel.encode(entries))
    spans = kernel.spans(data, 0, len(data), 5)
    assert kernel.retain(data, [spans[1], spans[4]], 0) == kernel.encode([entries[1], entries[4]])
    assert kernel.retain(data, [], 0) == b""


@pytest.mark.parametrize("shift", [1, -1, 10**12, -(10**12)])
def test_retained_records_can_move_to_another_base_timestamp(kernel: ModuleType, shift: int) -> None:
    entries = [(index, index * 1000, b"k" * 50, b"v", (("h", b"x"),)) for index in range(3)]
    data = bytes(kernel.encode(entries))
    moved = kernel.retain(data, kernel.spans(data, 0, len(data), 3), shift)
    assert moved == kernel.encode([(offset, time + shift, *rest) for offset, time, *rest in entries])


def test_a_span_outside_the_buffer_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="no bytes"):
        kernel.retain(bytes(10), [(0, 0, -1, -1, -1, 0, 4, 11)], 5)
    with pytest.raises(ValueError, match="does not point"):
        kernel.retain(b"\xff" * 10, [(0, 0, -1, -1, -1, 0, 0, 10)], 5)


def outcome(function: object, *arguments: object) -> object:
    try:
        return function(*arguments)  # type: ignore[operator]
    except ValueError as refused:
        return str(refused)


@settings(max_examples=600, suppress_health_check=FIXTURES_STAY)
@given(records=RECORDS, data=st.data())
def test_both_forms_agree_on_every_input(
    both_kernels: tuple[ModuleType, ModuleType], records: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    compiled, plain = both_kernels
    entries = [(index, *record[1:]) for index, record in enumerate(records)]
    sound = bytes(plain.encode(entries))
    assert compiled.encode(entries) == sound
    broken = bytes(mutations(data, sound))
    count = data.draw(st.sampled_from([len(entries), len(entries) + 1, 0, -1, 2**31 - 1]))
    base, now, before, after = (
        data.draw(st.integers(LONG_MIN, LONG_MAX) | st.integers(0, 2000)) for _ in range(4)
    )
    for check_time, need_key in ((True, True), (True, False), (False, False)):
        arguments = (broken, 0, len(broken), count, base, now, before, after, check_time, need_key)
        assert compiled.walk(*arguments) == plain.walk(*arguments)
    spans = outcome(plain.spans, broken, 0, len(broken), count)
    assert outcome(compiled.spans, broken, 0, len(broken), count) == spans
    decoding = (broken, 0, len(broken), count, 7, base)
    assert outcome(compiled.decode, *decoding) == outcome(plain.decode, *decoding)
    if isinstance(spans, list):
        for shift in (0, now):
            assert compiled.retain(broken, spans[::2], shift) == plain.retain(broken, spans[::2], shift)


@settings(max_examples=300, suppress_health_check=FIXTURES_STAY)
@given(noise=st.binary(max_size=80), count=st.integers(0, 5))
def test_both_forms_agree_on_random_bytes(
    both_kernels: tuple[ModuleType, ModuleType], noise: bytes, count: int
) -> None:
    compiled, plain = both_kernels
    arguments = (noise, 0, len(noise), count, 0, *FOREVER, True, True)
    assert compiled.walk(*arguments) == plain.walk(*arguments)
    assert outcome(compiled.spans, *arguments[:4]) == outcome(plain.spans, *arguments[:4])


def test_room_has_the_requested_size_and_is_writable(kernel: ModuleType) -> None:
    for size in (0, 1, 70_000):
        room = kernel.room(size)
        room[:] = b"x" * size
        assert room == b"x" * size
    with pytest.raises(ValueError, match="-1"):
        kernel.room(-1)


@any_form
@given(data=st.data(), count=st.integers(1, 12), size=st.integers(1, 5))
def test_a_batch_walked_in_parts_has_the_same_result(
    kernel: ModuleType, data: st.DataObject, count: int, size: int
) -> None:
    entries = [
        (n, data.draw(st.integers(-5, 5)), data.draw(st.sampled_from([None, b"k"])), b"v")
        for n in range(count)
    ]
    content = bytes(encode(kernel, *entries))
    content = data.draw(
        st.sampled_from([content, content + b"x", content[:-1], bytes(mutations(data, content))])
    )
    rules = (0, 3, 3, True, True)
    whole = kernel.walk(content, 0, len(content), count, 7, *rules)
    index = position = status = 0
    latest, delta = -1, -1
    problems: list[Any] = []
    while index < count and not status:
        stop = min(index + size, count)
        status, index, position, part_latest, part_delta, found = kernel.walk(
            content, position, len(content), stop, 7, *rules, index, stop == count
        )
        if part_latest > latest:
            latest, delta = part_latest, part_delta
        problems += found or []
    assert (status, index, position, latest, delta, problems or None) == whole


@any_form
@given(
    times=st.lists(st.integers(-3, 9), min_size=1, max_size=12),
    since=st.integers(-3, 10),
    first=st.integers(-2, 12),
)
def test_the_first_record_at_or_after_a_time_is_found(
    kernel: ModuleType, times: list[int], since: int, first: int
) -> None:
    content = bytes(encode(kernel, *((n, time, b"k", b"v") for n, time in enumerate(times))))
    stopped, delta, found = kernel.first_since(content, 0, len(content), len(times), 0, since, first)
    expected = next((n for n, time in enumerate(times) if time >= since and n >= first), -1)
    assert delta == expected
    if expected >= 0:
        assert found == times[expected]
    else:
        assert stopped == len(content)


def test_a_search_in_invalid_records_is_refused(kernel: ModuleType) -> None:
    content = bytes(encode(kernel, (0, 5, b"k", b"v")))
    for broken in (content[:-1], b"\xff" * 6, b"\x02\x00", b"\x04\x00\xff"):
        with pytest.raises(ValueError, match="a record"):
            kernel.first_since(broken, 0, len(broken), 1, 0, 99, 0)


def test_a_record_with_too_many_headers_is_reported(kernel: ModuleType) -> None:
    for count, status in ((kernel.HEADERS_MAX, kernel.OK), (kernel.HEADERS_MAX + 1, kernel.TOO_MANY_HEADERS)):
        data = kernel.encode([(0, 0, None, None, [("", None)] * count)])
        assert walk(kernel, data, 1)[0] == status
