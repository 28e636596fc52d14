"""Segments as files: names, roll, replacement, flushing, renaming, closing."""

from __future__ import annotations

import errno
import gc
import os
import struct
from collections.abc import Callable

import pytest
from tests.unit.log.support import (
    START_MS,
    Bench,
    FaultyDisk,
    append,
    batch,
    end_transaction,
    produced,
    read_all,
)

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segment import CLEANED, SWAP, Segment
from ottla.wire.errors import KafkaStorageError

SIZE = len(batch())


def disk_of(bench: Bench) -> FaultyDisk:
    assert isinstance(bench.disk, FaultyDisk)
    return bench.disk


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


def test_a_closed_log_has_kafkas_files(bench: Bench) -> None:
    log = bench.open(config=LogConfig(index_interval_bytes=0))
    for number in range(3):
        append(log, produced(1, number, timestamp=START_MS + number))
    log.close()
    assert bench.names() == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
    ]
    index = bench.path("00000000000000000000.index").read_bytes()
    assert list(struct.iter_unpack(">ii", index)) == [(1, SIZE), (2, 2 * SIZE)]
    times = bench.path("00000000000000000000.timeindex").read_bytes()
    assert list(struct.iter_unpack(">qi", times)) == [(START_MS + 1, 1), (START_MS + 2, 2)]


def test_rolling_completes_the_indexes_of_the_old_segment(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(timestamp=START_MS + 5))
    log.roll()
    times = bench.path("00000000000000000000.timeindex").read_bytes()
    assert list(struct.iter_unpack(">qi", times)) == [(START_MS + 5, 0)]
    assert bench.names(".snapshot") == ["00000000000000000001.snapshot"]
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_rolling_an_empty_segment_starts_it_over(bench: Bench) -> None:
    log = bench.open()
    old = log.active_segment
    assert log.roll() is not old
    assert len(log.segments) == 1
    append(log, batch())
    assert offsets(log) == [0]


def test_an_empty_segment_that_cannot_be_started_over_stays(faulty: Bench) -> None:
    log = faulty.open()
    append(log, batch())
    log.roll()
    old = log.active_segment
    disk_of(faulty).fail_on("create", ".log")
    with pytest.raises(OSError, match="No space"):
        log.roll()
    disk_of(faulty).heal()
    assert log.active_segment is old
    append(log, batch())
    assert offsets(log) == [0, 1]
    log = faulty.reopen(log, clean=False)
    assert offsets(log) == [0, 1]


def test_an_empty_segment_is_started_over_during_a_flush(bench: Bench) -> None:
    log = bench.open()
    append(log, batch())
    flush = log.prepare_flush()
    assert flush is not None
    log.truncate_to(0)
    log.roll()
    flush.run()
    log.complete_flush(flush)
    assert log.recovery_point == 0
    log.delete_due(2**62)
    assert bench.names(".deleted") == []
    append(log, batch())
    assert offsets(log) == [0]


def test_a_preallocated_segment_is_trimmed_when_it_becomes_inactive(bench: Bench) -> None:
    bench.config = LogConfig(preallocate=True, segment_bytes=3 * SIZE)
    log = bench.open()
    append(log, batch())
    path = bench.path("00000000000000000000.log")
    assert path.stat().st_size == 3 * SIZE
    assert offsets(log) == [0]
    log.roll()
    assert path.stat().st_size == SIZE
    log = bench.reopen(log)
    assert offsets(log) == [0]
    append(log, batch())
    log = bench.reopen(log, clean=False)
    assert offsets(log) == [0, 1]


def test_leftovers_of_the_same_name_do_not_reach_a_new_segment(bench: Bench) -> None:
    log = bench.open()
    append(log, batch())
    bench.path("00000000000000000001.log").write_bytes(b"garbage")
    bench.path("00000000000000000001.txnindex").write_bytes(b"garbage")
    log.roll()
    append(log, batch())
    assert offsets(log) == [0, 1]
    assert not bench.path("00000000000000000001.txnindex").exists()


# ---- flushing


def test_a_flush_moves_the_recovery_point(bench: Bench) -> None:
    log = bench.open(config=LogConfig(flush_ms=100))
    assert log.prepare_flush() is None
    append(log, batch(3))
    assert log.recovery_point == 0
    log.flush(2)
    assert log.recovery_point == 2
    bench.clock.time_ms += 50
    log.flush()
    assert log.recovery_point == 3
    assert log.prepare_flush() is None
    append(log, batch())
    assert [log.is_timed_flush_due(START_MS + 50 + waited_ms) for waited_ms in (99, 100)] == [False, True]


def test_flush_messages_and_flush_ms_make_a_flush_due(bench: Bench) -> None:
    log = bench.open(config=LogConfig(flush_messages=3, flush_ms=100))
    append(log, batch(2))
    assert not log.is_flush_due
    append(log, batch())
    assert log.is_flush_due
    assert not log.is_timed_flush_due(START_MS + 99)
    assert log.is_timed_flush_due(START_MS + 100)
    log.flush()
    assert not log.is_flush_due
    assert not log.is_timed_flush_due(START_MS + 100)


def test_an_append_that_requires_a_flush_needs_one_fsync(faulty: Bench) -> None:
    log = faulty.open()
    append(log, batch())
    log.flush()
    append(log, batch())
    disk_of(faulty).operations.clear()
    log.flush()
    assert disk_of(faulty).operations == [("fsync", "00000000000000000000.log")]


def test_rolled_segments_are_flushed_with_indexes_snapshot_and_directory(faulty: Bench) -> None:
    log = faulty.open()
    append(log, produced(1, 0, transactional=True))
    end_transaction(log, 1, commit=False)
    log.flush()
    log.roll()
    append(log, batch())
    assert log.is_background_flush_due
    disk_of(faulty).operations.clear()
    log.flush(log.active_segment.base_offset)
    synced = {
        name for operation, name in disk_of(faulty).operations if operation in ("fsync", "sync_directory")
    }
    assert synced == {
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000002.snapshot",
        "topic-0",
    }
    assert not log.is_background_flush_due
    assert log.recovery_point == 2


def test_appends_continue_while_a_flush_runs(bench: Bench) -> None:
    log = bench.open(config=LogConfig(segment_bytes=SIZE, retention_ms=0, file_delete_delay_ms=0))
    append(log, batch())
    flush = log.prepare_flush()
    assert flush is not None
    append(log, batch())
    log.delete_old_segments(START_MS + 10**9)
    assert log.delete_due(START_MS) == START_MS
    assert bench.names(".log.deleted") != []  # nothing is closed under a flush
    flush.run()
    log.complete_flush(flush)
    assert log.recovery_point == 1
    log.delete_due(START_MS)
    assert bench.names(".deleted") == []


def test_a_failed_fsync_is_never_followed_by_another(faulty: Bench) -> None:
    log = faulty.open()
    append(log, batch())
    disk_of(faulty).fail_on("fsync", ".log", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        log.flush()
    disk_of(faulty).heal()
    assert log.recovery_point == 0
    with pytest.raises(KafkaStorageError):
        log.flush()
    with pytest.raises(KafkaStorageError):
        append(log, batch())


# ---- replacement


def cleaned(bench: Bench, log: Log, base_offset: int, keep: set[int]) -> Segment:
    """A segment with only the batches of these offsets, as compaction makes it."""
    segment = Segment.create(
        bench.disk, bench.directory, base_offset, log.config, now_ms=START_MS, suffix=CLEANED
    )
    for old in log.segments:
        for position, header in old.headers():
            if header.base_offset in keep:
                segment.append_batches(old.read_at(position, header.length_bytes))
    segment.become_inactive()
    segment.sync()
    return segment


def three_segments(bench: Bench) -> Log:
    bench.config = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=0)
    log = bench.open()
    for _ in range(8):
        append(log, batch())
    return log


def test_compacted_segments_replace_the_old_ones(bench: Bench) -> None:
    log = three_segments(bench)
    first, second, _ = log.segments
    new = cleaned(bench, log, 0, {1, 4, 5})
    log.replace_segments([new], [first, second])
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert offsets(log) == [1, 4, 5, 6, 7]
    assert log.size_bytes == 5 * SIZE
    assert log.read(2, 1, limit_offset=8).position == SIZE
    assert bench.names(CLEANED) + bench.names(SWAP) == []
    log.delete_due(START_MS + 10**9)
    assert bench.names(".deleted") == []
    log = bench.reopen(log)
    assert offsets(log) == [1, 4, 5, 6, 7]


@pytest.mark.parametrize("stop", range(1, 40))
def test_a_replacement_stopped_anywhere_leaves_all_old_or_all_new(faulty: Bench, stop: int) -> None:
    log = three_segments(faulty)
    first, second, _ = log.segments
    new = [cleaned(faulty, log, 0, {1}), cleaned(faulty, log, 3, {4, 5})]
    log.flush()
    count = 0

    def fault(operation: str, path: str) -> int:
        nonlocal count
        count += operation == "rename"
        return errno.EIO if count >= stop and operation == "rename" else 0

    disk_of(faulty).fault = fault
    try:
        log.replace_segments(new, [first, second])
    except OSError:
        is_interrupted = True
    else:
        is_interrupted = False
    disk_of(faulty).heal()
    log.close(clean=False)
    log = faulty.open(clean=False, recovery_point=8)
    assert offsets(log) in ([0, 1, 2, 3, 4, 5, 6, 7], [1, 4, 5, 6, 7])
    if not is_interrupted:
        assert offsets(log) == [1, 4, 5, 6, 7]
    assert faulty.names(CLEANED) + faulty.names(SWAP) + faulty.names(".deleted") == []


def replace_two(log: Log, new: list[Segment]) -> None:
    log.replace_segments(new, list(log.segments)[:2])


CHANGES: dict[str, tuple[Callable[[Log, list[Segment]], object], list[int]]] = {
    "replacement": (replace_two, [1, 4, 5, 6, 7]),
    "roll": (lambda log, _: log.roll(), list(range(8))),
    "retention": (lambda log, _: log.delete_old_segments(START_MS), [6, 7]),
    "truncation": (lambda log, _: log.truncate_to(2), [0, 1]),
    "start over": (lambda log, _: log.truncate_fully_and_start_at(3), []),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("stop", range(1, 30))
def test_an_unexpected_error_within_a_change_of_segments_hides_no_record(
    faulty: Bench, change: str, stop: int
) -> None:
    log = three_segments(faulty)
    log.flush()
    log.advance_high_watermark(8)
    new = [cleaned(faulty, log, 0, {1}), cleaned(faulty, log, 3, {4, 5})] if change == "replacement" else []
    if change == "retention":
        log.increase_log_start_offset(6, "DeleteRecords")
    before = offsets(log)
    make, after = CHANGES[change]
    count = 0

    def fault(operation: str, path: str) -> int:
        nonlocal count
        if operation in ("rename", "create", "replace", "sync_directory"):
            count += 1
            if count == stop:
                raise MemoryError
        return 0

    disk_of(faulty).fault = fault
    try:
        make(log, new)
    except (MemoryError, OSError):
        # A failed log is no longer served; one with a pending truncation completes it first.
        if log.failure is None and not log.truncations_pending:
            assert offsets(log) in (before, after)
            append(log, batch())
            before.append(log.log_end_offset - 1)
            after = [*after, log.log_end_offset - 1]
    else:
        assert count < stop
    disk_of(faulty).heal()
    if log.is_truncation_unfinished:
        log.finish_truncation()
        assert offsets(log) == after
    log = faulty.reopen(log, clean=False)
    assert offsets(log) in (before, after)


# ---- directories and ends


def test_a_renamed_log_takes_appends_under_its_new_name(bench: Bench) -> None:
    log = three_segments(bench)
    log.increase_log_start_offset(4, "test")
    log.delete_old_segments(START_MS)
    new = bench.directory + ".abc-delete"
    log.rename_directory(new)
    assert log.directory == new
    append(log, batch())
    log.roll()
    append(log, batch())
    log.flush()
    assert offsets(log) == [4, 5, 6, 7, 8, 9]
    log.delete_due(START_MS + 10**9)
    assert [name for name in os.listdir(new) if name.endswith(".deleted")] == []
    assert not os.path.exists(bench.directory)


def test_open_files_are_few(bench: Bench) -> None:
    log = three_segments(bench)
    log = bench.reopen(log)
    gc.collect()  # or files of earlier tests are closed in the meantime
    before = len(os.listdir("/proc/self/fd"))
    logs = []
    for number in range(50):
        other = Bench(bench.path(f"more{number}"), bench.config, bench.disk)
        opened = other.open()
        append(opened, batch())
        opened.flush()
        logs.append(opened)
    assert len(os.listdir("/proc/self/fd")) - before == 50
    for opened in logs:
        opened.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_closing_twice_is_no_error(bench: Bench) -> None:
    log = bench.open()
    append(log, batch())
    log.close()
    log.close(clean=False)
    log = bench.open(clean=True, recovery_point=1)
    assert offsets(log) == [0]


def test_a_changed_setting_counts_from_the_next_append(bench: Bench) -> None:
    log = bench.open()
    append(log, batch())
    log.reconfigure(LogConfig(segment_bytes=SIZE))
    append(log, batch())
    assert len(log.segments) == 2
