"""Both indexes compared with plain lists, in memory, on disk and partly on both."""

from __future__ import annotations

import errno
import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.support import FaultyDisk

from ottla.host import HostDisk
from ottla.log.index import OffsetIndex, TimeIndex

BASE = 5_000_000_000


def offset_index(path: Path, count: int, *, bytes_max: int = 1 << 20) -> OffsetIndex:
    index = OffsetIndex(HostDisk(threads=1), str(path / "00.index"), BASE, bytes_max)
    for number in range(count):
        index.append(BASE + 10 * number + 9, 100 * number)
    return index


def reopened(index: OffsetIndex) -> OffsetIndex:
    index.write_out()
    size = Path(index.path).stat().st_size
    return OffsetIndex(HostDisk(threads=1), index.path, BASE, 1 << 20, size)


@pytest.mark.parametrize("count", [0, 1, 2, 509, 510, 511, 765, 766, 2000])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_look_ups_find_the_last_entry_at_or_before_the_offset(
    tmp_path: Path, count: int, is_reopened: bool
) -> None:
    index = offset_index(tmp_path, count)
    if is_reopened:
        index = reopened(index)
    keys = [BASE + 10 * number + 9 for number in range(count)]
    for offset in {BASE, *keys, *(key + 1 for key in keys), *(key - 1 for key in keys)}:
        number = bisect_right(keys, offset) - 1
        expected = (keys[number], 100 * number) if number >= 0 else (BASE, 0)
        assert index.lookup(offset) == expected
    assert index.count == count
    assert index.last() == ((keys[-1], 100 * (count - 1)) if count else (BASE, 0))


def test_the_file_holds_big_endian_pairs_and_nothing_else(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 3)
    index.write_out()
    data = Path(index.path).read_bytes()
    assert list(struct.iter_unpack(">ii", data)) == [(9, 0), (19, 100), (29, 200)]


def test_a_large_index_does_not_stay_in_memory(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 100_000)
    assert len(index._tail) < 8192
    assert Path(index.path).stat().st_size > 100_000 * 8 - 8192


@pytest.mark.parametrize("kept", [0, 1, 300, 700, 1999, 2000])
def test_truncation_keeps_what_is_below(tmp_path: Path, kept: int) -> None:
    index = offset_index(tmp_path, 2000)
    index.truncate_to(BASE + 10 * kept)
    assert index.count == kept
    index.append(BASE + 10_000_000, 77)
    assert index.last() == (BASE + 10_000_000, 77)
    assert index.lookup(BASE + 10 * kept)[1] == 100 * max(kept - 1, 0)
    again = reopened(index)
    assert again.count == kept + 1
    assert again.entry(kept) == (BASE + 10_000_000, 77)


def test_truncation_drops_an_entry_of_just_that_offset(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 3)
    index.truncate_to(BASE + 19)
    assert index.count == 1


def test_a_released_index_answers_as_before(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 2000)
    index.write_out()
    before = index.lookup(BASE + 777)
    index.release()
    assert index.lookup(BASE + 777) == before
    assert index.lookup(BASE + 19_999) == (BASE + 19_999, 199_900)


def test_it_is_full_when_its_bytes_are(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 2, bytes_max=30)
    assert not index.is_full
    index.append(BASE + 100, 300)
    assert index.is_full
    times = TimeIndex(HostDisk(threads=1), str(tmp_path / "00.timeindex"), BASE, 36)
    times.append(1, BASE)
    assert not times.is_full
    times.append(2, BASE + 1)
    assert times.is_full


def test_the_offset_of_a_position_is_that_of_the_next_entry(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 1000)
    assert index.offset_at_or_after_position(0) == BASE + 9
    assert index.offset_at_or_after_position(100) == BASE + 19
    assert index.offset_at_or_after_position(101) == BASE + 29
    assert index.offset_at_or_after_position(99_900) == BASE + 9999
    assert index.offset_at_or_after_position(99_901) is None


def test_ends_that_cannot_be_are_a_problem(tmp_path: Path) -> None:
    assert offset_index(tmp_path, 0).problem(0) is None
    assert offset_index(tmp_path, 3).problem(201) is None
    assert "byte 200" in str(offset_index(tmp_path, 3).problem(200))
    path = tmp_path / "zeros.index"
    path.write_bytes(struct.pack(">ii", 9, 100) + bytes(80))
    index = OffsetIndex(HostDisk(threads=1), str(path), BASE, 1 << 20, 88)
    assert index.problem(1 << 20) is not None


def test_a_full_disk_loses_no_entry(tmp_path: Path) -> None:
    disk = FaultyDisk()
    index = OffsetIndex(disk, str(tmp_path / "00.index"), BASE, 1 << 20)
    disk.fail_on("create", ".index", errno.ENOSPC)
    for number in range(2000):
        index.append(BASE + number, number)
    with pytest.raises(OSError, match="No space"):
        index.write_out()
    disk.heal()
    index.append(BASE + 2000, 2000)
    index.write_out()
    assert Path(index.path).stat().st_size == 2001 * 8
    assert index.lookup(BASE + 1234) == (BASE + 1234, 1234)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=60), st.integers(-1, 1001))
def test_time_entries_are_kept_only_while_they_grow(entries: list[tuple[int, int]], target: int) -> None:
    index = TimeIndex(HostDisk(threads=1), "/never/written.timeindex", BASE, 1 << 20)
    expected: list[tuple[int, int]] = []
    for timestamp, offset in sorted(entries, key=lambda entry: entry[1]):
        index.append(timestamp, BASE + offset)
        if timestamp > (expected[-1][0] if expected else -1):
            expected.append((timestamp, BASE + offset))
    number = bisect_right([entry[0] for entry in expected], target) - 1
    assert index.lookup(target) == (expected[number] if number >= 0 else (-1, BASE))
    assert index.last() == (expected[-1] if expected else (-1, BASE))
    assert index.count == len(expected)


def test_a_time_index_is_truncated_by_offset(tmp_path: Path) -> None:
    index = TimeIndex(HostDisk(threads=1), str(tmp_path / "00.timeindex"), BASE, 1 << 20)
    for number in range(1000):
        index.append(number, BASE + 2 * number)
    index.truncate_to(BASE + 501)
    assert index.last() == (250, BASE + 500)
    index.append(900, BASE + 501)
    assert index.last() == (900, BASE + 501)
    index.write_out()
    assert Path(index.path).read_bytes()[-12:] == struct.pack(">qi", 900, 501)


def test_time_index_ends_that_cannot_be_are_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "00.timeindex"
    for entries, is_sound in (
        ([(5, 1), (9, 4)], True),
        ([(5, 1), (4, 4)], False),
        ([(5, 4), (9, 1)], False),
        ([(5, 1), (0, 0)], False),
    ):
        path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
        index = TimeIndex(HostDisk(threads=1), str(path), BASE, 1 << 20, 24)
        assert (index.problem() is None) == is_sound
