"""Reading a log: slices, limits, look-ups by offset, time and epoch, and wrong indexes."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.support import START_MS, Bench, append, batch, produced, read_all

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segment import LogDamaged
from ottla.records.batch import Codec, iterate_headers
from ottla.wire.errors import OffsetOutOfRange


def filled(bench: Bench, count: int = 50, *, size: int = 3, **settings: int) -> Log:
    """`count` batches of `size` records; an index entry every few batches, several segments."""
    settings.setdefault("segment_bytes", 2000)
    settings.setdefault("index_interval_bytes", 200)
    bench.config = LogConfig(**settings)  # type: ignore[arg-type]
    log = bench.open()
    for number in range(count):
        append(log, batch(size, timestamp=START_MS + 10 * number, step_ms=1))
    return log


def headers(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iterate_headers(data)]


def test_every_offset_is_found_in_the_batch_that_holds_it(bench: Bench) -> None:
    log = filled(bench)
    assert len(log.segments) >= 3
    for offset in range(log.log_end_offset):
        read = log.read(offset, 1, limit_offset=log.log_end_offset)
        assert headers(read.records) == [offset - offset % 3]


def test_one_read_stays_within_one_segment(bench: Bench) -> None:
    log = filled(bench)
    for segment in log.segments:
        read = log.read(segment.base_offset, 1 << 20, limit_offset=log.log_end_offset)
        assert len(read.records) == segment.size_bytes
        assert (read.segment_base_offset, read.position) == (segment.base_offset, 0)


def test_a_read_may_end_inside_the_last_batch_but_never_inside_the_first(bench: Bench) -> None:
    log = filled(bench, segment_bytes=1 << 20)
    size = len(batch(3))
    for max_bytes in (0, 1, size - 1, size, size + 1, 3 * size - 1):
        data = log.read(0, max_bytes, limit_offset=log.log_end_offset).records
        assert len(data) == max(max_bytes, size)
        data = log.read(0, max_bytes, limit_offset=log.log_end_offset, at_least_one=False).records
        assert len(data) == (max_bytes if max_bytes >= size else 0)


def test_a_read_ends_before_the_batch_that_holds_the_offset_limit(bench: Bench) -> None:
    log = filled(bench, segment_bytes=1 << 20)
    for limit in range(1, 30):
        data = log.read(0, 1 << 20, limit_offset=limit).records
        assert headers(data) == list(range(0, limit - limit % 3, 3))


def test_at_or_beyond_the_limit_there_is_nothing(bench: Bench) -> None:
    log = filled(bench)
    assert log.read(10, 100, limit_offset=10).records == b""
    assert log.read(20, 100, limit_offset=10).records == b""
    end = log.log_end_offset
    assert log.read(end, 100, limit_offset=end).records == b""
    assert log.locate(end, 100, limit_offset=end).length == 0


def test_offsets_outside_the_log_are_refused(bench: Bench) -> None:
    log = filled(bench)
    log.increase_log_start_offset(7, "test")
    end = log.log_end_offset
    for offset in (-1, 6, end + 1):
        with pytest.raises(OffsetOutOfRange, match=f"request for offset {offset} "):
            log.read(offset, 100, limit_offset=end)
        with pytest.raises(OffsetOutOfRange):
            log.locate(offset, 100, limit_offset=end)
    assert log.read(7, 1, limit_offset=end).records != b""


def test_a_located_slice_is_what_a_read_returns(bench: Bench) -> None:
    log = filled(bench)
    for offset in range(0, log.log_end_offset, 7):
        for max_bytes in (0, 10, 300, 5000):
            for limit in (offset, offset + 4, log.log_end_offset):
                for at_least_one in (False, True):
                    data = log.read(offset, max_bytes, limit_offset=limit, at_least_one=at_least_one).records
                    place = log.locate(offset, max_bytes, limit_offset=limit, at_least_one=at_least_one)
                    assert os.pread(place.file.fileno(), place.length, place.position) == data


def test_a_reader_at_the_end_sees_each_append(bench: Bench) -> None:
    log = filled(bench, 3)
    offset = log.log_end_offset
    for number in range(100):
        assert log.read(offset, 1 << 20, limit_offset=log.log_end_offset).records == b""
        appended = append(log, batch(1 + number % 3))
        data = log.read(offset, 1 << 20, limit_offset=log.log_end_offset).records
        assert headers(data) == [offset]
        offset = appended.last_offset + 1


def test_readers_at_many_places_do_not_disturb_each_other(bench: Bench) -> None:
    log = filled(bench, 100)
    places = [0] * 5 + [150] * 5 + [297] * 5
    for _ in range(30):
        for number, offset in enumerate(places):
            data = log.read(offset, 400 + number, limit_offset=log.log_end_offset).records
            found = [header for _, header in iterate_headers(data)]
            if found:
                assert found[0].base_offset <= offset <= found[0].last_offset
                places[number] = found[-1].next_offset
        append(log, batch(3))


# ---- by time


def test_the_first_record_at_or_after_a_time_is_found(bench: Bench) -> None:
    log = filled(bench)
    times = [START_MS + 10 * (offset // 3) + offset % 3 for offset in range(log.log_end_offset)]
    for timestamp in range(START_MS - 2, times[-1] + 1):
        found = log.offset_for_timestamp(timestamp)
        offset = bisect_right(times, timestamp - 1)
        assert found == (times[offset], offset, 0)
    assert log.offset_for_timestamp(times[-1] + 1) is None


def test_deleted_records_are_not_found_by_time(bench: Bench) -> None:
    log = filled(bench)
    log.increase_log_start_offset(31, "test")
    assert log.offset_for_timestamp(START_MS) == (START_MS + 101, 31, 0)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), min_size=1, max_size=25), st.integers(-1, 52)
)
def test_times_out_of_order_are_searched_as_kafka_does(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, int]], target: int
) -> None:
    bench = Bench(
        tmp_path_factory.mktemp("log"),
        LogConfig(index_interval_bytes=100, segment_bytes=600, segment_ms=10**15),
    )
    log = bench.open()
    times: list[int] = []
    for timestamp, count in batches:
        append(log, batch(count, timestamp=timestamp))
        times.extend([timestamp] * count)
    expected = next((offset for offset, time in enumerate(times) if time >= target), None)
    found = log.offset_for_timestamp(target)
    assert (None if found is None else found.offset) == expected
    newest = log.offset_of_max_timestamp()
    assert newest is not None
    assert (newest.timestamp, newest.offset) == (max(times), times.index(max(times)))
    bench.close()


def test_a_compressed_batch_is_searched_record_by_record(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(10, codec=Codec.ZSTD, timestamp=START_MS, step_ms=5))
    assert log.offset_for_timestamp(START_MS + 21) == (START_MS + 25, 5, 0)
    assert log.offset_of_max_timestamp() == (START_MS + 45, 9, 0)


def test_an_empty_log_has_no_times(bench: Bench) -> None:
    log = bench.open()
    bench.clock.time_ms = 0
    assert log.offset_of_max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


# ---- what an index says is checked


def damage_index(log: Log, bench: Bench, suffix: str, change: struct.Struct, *values: int) -> Log:
    log = bench.reopen(log)
    path = bench.path(f"00000000000000000000{suffix}")
    data = bytearray(path.read_bytes())
    assert len(data) > 3 * change.size
    change.pack_into(data, change.size * (len(data) // change.size // 2), *values)
    log.close(clean=False)
    path.write_bytes(data)
    return bench.open(clean=True, recovery_point=log.log_end_offset)


@pytest.mark.parametrize(
    ("relative", "position"), [(70, 13), (70, 1 << 30), (70, -5), (2, 900), (0, 0), (140, 5)]
)
def test_an_offset_index_that_points_anywhere_is_rebuilt(bench: Bench, relative: int, position: int) -> None:
    log = filled(bench, segment_bytes=1 << 20)
    expected = read_all(log)
    log = damage_index(log, bench, ".index", struct.Struct(">ii"), relative, position)
    for offset in range(log.log_end_offset):
        assert headers(log.read(offset, 1, limit_offset=log.log_end_offset).records) == [offset - offset % 3]
    assert read_all(log) == expected


@pytest.mark.parametrize(
    ("timestamp", "relative"), [(0, 140), (START_MS + 1, 140), (START_MS + 2, 0), (2**60, 3)]
)
def test_a_wrong_time_index_is_rebuilt(bench: Bench, timestamp: int, relative: int) -> None:
    log = filled(bench, segment_bytes=1 << 20)
    log = damage_index(log, bench, ".timeindex", struct.Struct(">qi"), timestamp, relative)
    for offset in range(0, log.log_end_offset, 5):
        time = START_MS + 10 * (offset // 3) + offset % 3
        assert log.offset_for_timestamp(time) == (time, offset, 0)


def test_a_log_that_cannot_be_walked_says_where(bench: Bench) -> None:
    log = filled(bench, segment_bytes=1 << 20, index_interval_bytes=1 << 20)
    log = bench.reopen(log)
    path = bench.path("00000000000000000000.log")
    size = len(batch(3))
    with path.open("r+b") as file:
        file.seek(4 * size + 8)
        file.write(b"\xff" * 4)
    with pytest.raises(LogDamaged) as caught:
        log.read(40, 1, limit_offset=log.log_end_offset)
    assert caught.value.path == str(path)
    assert caught.value.position == 4 * size
    assert str(4 * size) in str(caught.value)
    assert "length -1" in str(caught.value)
    assert log.read(3, 1, limit_offset=log.log_end_offset).records != b""


def test_producers_do_not_change_what_is_read(bench: Bench) -> None:
    log = bench.open()
    for sequence in range(20):
        append(log, produced(5, sequence))
    assert len(read_all(log)) == 20
