"""One segment: look-ups, reading in chunks, rolling, failed writes."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.log.support import START_MS, FaultyDisk, batch

from ottla.host import HostDisk
from ottla.log.config import LogConfig
from ottla.log.segment import CLEANED, LogDamaged, Segment
from ottla.records.batch import set_base_offset

CONFIG = LogConfig(index_interval_bytes=100)


def placed(base_offset: int, count: int = 1, value: bytes = b"value", timestamp: int = START_MS) -> bytearray:
    data = bytearray(batch(count, value=value, timestamp=timestamp))
    set_base_offset(data, 0, base_offset)
    return data


def segment_of(path: Path, *sizes: int, disk: HostDisk | None = None) -> Segment:
    """A segment from offset 10 with a batch of one record for every size of its value."""
    segment = Segment.create(disk or HostDisk(threads=1), str(path), 10, CONFIG, now_ms=START_MS)
    for number, size in enumerate(sizes):
        segment.append_batches(placed(10 + number, value=bytes(size), timestamp=START_MS + number))
    return segment


def test_a_new_segment_removes_files_of_its_name(tmp_path: Path) -> None:
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (tmp_path / f"{10:020d}{suffix}{CLEANED}").write_bytes(b"left over")
    segment = Segment.create(HostDisk(threads=1), str(tmp_path), 10, CONFIG, now_ms=START_MS, suffix=CLEANED)
    segment.append_batches(placed(10))
    segment.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{10:020d}{suffix}{CLEANED}" for suffix in (".index", ".log", ".timeindex")
    ]


def test_headers_are_walked_however_far_apart_they_are(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5, 20_000, 3, 8191, 0, 100_000, 7)
    assert [header.base_offset for _, header in segment.headers()] == list(range(10, 17))
    position = segment.position_of(13)
    assert position is not None
    assert [header.base_offset for _, header in segment.headers(position)] == [13, 14, 15, 16]
    assert [header.base_offset for _, header in segment.headers(0, position)] == [10, 11, 12]
    assert segment.header_at(position).base_offset == 13
    assert segment.position_of(17) is None
    assert segment.read_next_offset() == 17


def test_chunks_hold_complete_batches_and_all_bytes(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5, 2000, 3, 819, 0, 10_000, 7)
    whole = Path(segment.path).read_bytes()
    for size in (80, 1000, 3000, 1 << 20):
        chunks = list(segment.chunks(size=size))
        assert b"".join(data for _, data in chunks) == whole
        for position, data in chunks:
            assert whole[position : position + len(data)] == data
            assert len(data) <= size or len(list(segment.headers(position, position + len(data)))) == 1


def test_a_batch_that_ends_beyond_the_file_is_damage(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5, 500)
    segment.close()
    path = Path(segment.path)
    path.write_bytes(path.read_bytes()[:-1])
    again = Segment.open_existing(HostDisk(threads=1), str(tmp_path), 10, CONFIG)
    with pytest.raises(LogDamaged, match="ends beyond the file"):
        list(again.headers())
    with pytest.raises(LogDamaged, match="ends beyond the file"):
        list(again.chunks())
    with pytest.raises(LogDamaged, match="too early"):
        segment.read_at(0, segment.size_bytes)


def test_timestamps_are_known_after_a_load(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5, 500, 5)
    segment.close()
    again = Segment.open_existing(HostDisk(threads=1), str(tmp_path), 10, CONFIG)
    assert (again.max_timestamp, again.offset_of_max_timestamp) == (START_MS + 2, 12)
    assert again.first_batch_timestamp == START_MS
    assert again.largest_timestamp == START_MS + 2
    empty = Segment.create(HostDisk(threads=1), str(tmp_path), 99, CONFIG, now_ms=START_MS)
    assert empty.first_batch_timestamp is None
    assert empty.max_timestamp == -1
    assert empty.largest_timestamp == empty.modified_ms


def test_a_failed_write_is_truncated(tmp_path: Path) -> None:
    disk = FaultyDisk()
    segment = segment_of(tmp_path, 5, disk=disk)
    before = Path(segment.path).read_bytes()
    disk.fail_on("write", ".log", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        segment.append(placed(11), 11, START_MS)
    assert Path(segment.path).read_bytes() == before
    assert not segment.is_torn
    disk.heal()
    segment.append(placed(11), 11, START_MS)
    assert segment.read_next_offset() == 12


def test_a_segment_that_cannot_be_created_leaves_no_files(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "truncate" else 0
    config = LogConfig(preallocate=True)
    with pytest.raises(OSError, match="No space"):
        Segment.create(disk, str(tmp_path), 10, config, now_ms=START_MS)
    assert list(tmp_path.iterdir()) == []


def test_a_removed_segment_is_not_found(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5)
    file = segment.file
    segment.become_inactive()
    segment.sync()
    segment.remove()
    assert list(tmp_path.iterdir()) == []
    assert file.fileno() == -1
