"""Watermarks, retention and truncation."""

from __future__ import annotations

import pytest
from tests.unit.log.support import START_MS, Bench, append, batch, end_transaction, marker, produced, read_all

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.validate import Origin
from ottla.wire.errors import OffsetOutOfRange, OutOfOrderSequenceNumber

SIZE = len(batch())


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


def filled(bench: Bench, count: int = 10, *, per_segment: int = 2, **settings: object) -> Log:
    """`count` batches of one record, ten milliseconds apart."""
    bench.config = LogConfig(segment_bytes=per_segment * SIZE, **settings)  # type: ignore[arg-type]
    log = bench.open()
    for number in range(count):
        append(log, batch(timestamp=START_MS + 10 * number))
    return log


# ---- watermarks


def test_the_high_watermark_only_advances_and_not_beyond_the_end(bench: Bench) -> None:
    log = bench.open()
    log.append(batch(5), leader_epoch=0, now_ms=START_MS)
    assert log.high_watermark == 0
    assert log.advance_high_watermark(3)
    assert not log.advance_high_watermark(3)
    assert not log.advance_high_watermark(2)
    assert log.advance_high_watermark(99)
    assert log.high_watermark == 5


def test_a_checkpoint_or_a_leader_may_set_the_high_watermark_within_the_log(bench: Bench) -> None:
    log = filled(bench)
    assert log.set_high_watermark(4) == 4
    assert log.set_high_watermark(99) == 10
    log.increase_log_start_offset(6, "test")
    assert log.set_high_watermark(0) == 6


def test_the_log_start_cannot_pass_the_high_watermark(bench: Bench) -> None:
    log = bench.open()
    log.append(batch(5), leader_epoch=0, now_ms=START_MS)
    log.advance_high_watermark(3)
    with pytest.raises(OffsetOutOfRange, match="larger than the high watermark 3"):
        log.increase_log_start_offset(4, "test")
    assert log.increase_log_start_offset(3, "test")
    assert not log.increase_log_start_offset(2, "test")
    assert log.log_start_offset == 3


def test_deleting_records_moves_the_first_epoch(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(5), leader_epoch=1)
    append(log, batch(5), leader_epoch=2)
    log.increase_log_start_offset(7, "test")
    assert log.epochs.entries == [(2, 7)]
    log.flush()
    assert bench.path("leader-epoch-checkpoint").read_text() == "0\n1\n2 7\n"


def test_the_first_unstable_offset_is_never_below_the_log_start(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0, 2, transactional=True))
    append(log, batch(3))
    log.increase_log_start_offset(4, "test")
    assert log.first_unstable_offset == 4
    assert log.last_stable_offset == 4


# ---- retention


def test_old_segments_are_deleted_by_their_largest_timestamp(bench: Bench) -> None:
    log = filled(bench, retention_ms=100)
    assert log.delete_old_segments(START_MS + 110) == 0
    assert log.delete_old_segments(START_MS + 111) == 1
    assert bases(log) == [2, 4, 6, 8]
    assert log.log_start_offset == 2
    assert offsets(log) == [2, 3, 4, 5, 6, 7, 8, 9]
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 10, limit_offset=10)


def test_when_everything_is_old_an_empty_segment_remains(bench: Bench) -> None:
    log = filled(bench, retention_ms=100)
    assert log.delete_old_segments(START_MS + 1000) == 5
    assert bases(log) == [10]
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    assert log.delete_old_segments(START_MS + 9999) == 0
    assert append(log, batch()).first_offset == 10


def test_size_retention_keeps_at_least_its_bytes(bench: Bench) -> None:
    log = filled(bench, retention_bytes=5 * SIZE, retention_ms=-1)
    assert log.delete_old_segments(START_MS) == 2
    assert bases(log) == [4, 6, 8]
    assert log.size_bytes == 6 * SIZE
    assert log.delete_old_segments(START_MS) == 0


def test_retention_never_passes_the_high_watermark(bench: Bench) -> None:
    log = filled(bench, retention_ms=0)
    log.set_high_watermark(5)
    assert log.delete_old_segments(START_MS + 10**9) == 2
    assert bases(log) == [4, 6, 8]


def test_segments_below_the_log_start_are_deleted_even_from_a_compacted_topic(bench: Bench) -> None:
    log = filled(bench, cleanup_policy=frozenset({"compact"}), retention_ms=0, retention_bytes=0)
    log.increase_log_start_offset(5, "test")
    assert log.delete_old_segments(START_MS + 10**9) == 2
    assert bases(log) == [4, 6, 8]
    assert log.log_start_offset == 5


def test_files_are_renamed_at_once_and_removed_after_the_delay(bench: Bench) -> None:
    log = filled(bench, retention_ms=100, file_delete_delay_ms=500)
    log.delete_old_segments(START_MS + 111)
    deleted = bench.names(".deleted")
    assert [name.split(".")[1] for name in deleted] == ["index", "log", "timeindex"]
    assert log.delete_due(START_MS + 499) == START_MS + 500
    assert bench.names(".deleted") == deleted
    assert log.delete_due(START_MS + 500) is None
    assert bench.names(".deleted") == []


def test_snapshots_are_deleted_with_their_segments(bench: Bench) -> None:
    log = filled(bench, retention_ms=100)
    assert bench.names(".snapshot") == [f"{base:020d}.snapshot" for base in (2, 4, 6, 8)]
    log.delete_old_segments(START_MS + 131)
    log.delete_due(START_MS + 10**9)
    assert bench.names(".snapshot") == [f"{base:020d}.snapshot" for base in (4, 6, 8)]


# ---- truncation


@pytest.mark.parametrize("target", range(10))
def test_truncation_leaves_what_is_below_the_offset(bench: Bench, target: int) -> None:
    log = filled(bench, index_interval_bytes=0)
    assert log.truncate_to(target)
    assert (log.log_end_offset, log.high_watermark) == (target, target)
    assert offsets(log) == list(range(target))
    assert log.size_bytes == target * SIZE
    assert log.recovery_point <= target
    assert append(log, batch(2)).first_offset == target
    log = bench.reopen(log, clean=False)
    assert offsets(log) == list(range(target + 2))


def test_truncation_beyond_the_end_only_drops_epochs_without_records(bench: Bench) -> None:
    log = filled(bench)
    log.assign_epoch_start_offset(9, 10)
    assert log.epochs.latest_epoch == 9
    assert not log.truncate_to(10)
    assert log.epochs.latest_epoch == 0
    assert log.log_end_offset == 10


def test_truncation_into_a_batch_drops_all_of_it(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(3))
    append(log, batch(3))
    log.truncate_to(4)
    assert offsets(log) == [0, 1, 2]
    assert log.log_end_offset == 4


def test_truncation_restores_producers_and_transactions(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0, 3))
    append(log, produced(1, 3, 2))
    append(log, produced(2, 0, transactional=True))
    end_transaction(log, 2, commit=False)
    assert len(log.aborted_transactions(0, 99)) == 1
    log.truncate_to(6)
    assert log.aborted_transactions(0, 99) == []
    assert log.first_unstable_offset == 5
    log.truncate_to(3)
    assert log.first_unstable_offset is None
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(1, 5))
    assert append(log, produced(1, 3, 2)).first_offset == 3


def test_truncation_does_not_make_an_unreplicated_transaction_stable(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0, 3, transactional=True))
    end = marker(1, commit=True)
    log.append(end, leader_epoch=0, now_ms=START_MS, origin=Origin.COORDINATOR)
    log.roll()
    log.append(batch(2), leader_epoch=0, now_ms=START_MS)
    log.append(batch(2), leader_epoch=0, now_ms=START_MS)
    log.truncate_to(6)
    assert (log.high_watermark, log.last_stable_offset) == (3, 0)
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4


def test_truncation_does_not_make_a_replicated_transaction_unstable(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0, transactional=True))
    log.roll()
    end_transaction(log, 1, commit=True)
    append(log, batch(3))
    log.append(batch(3), leader_epoch=0, now_ms=START_MS)
    log.truncate_to(5)
    assert log.last_stable_offset == log.high_watermark == 5


def test_truncation_restores_the_largest_timestamp(bench: Bench) -> None:
    log = bench.open(config=LogConfig(index_interval_bytes=0))
    for timestamp in (5, 9, 7, 20, 1):
        append(log, batch(timestamp=timestamp))
    log.truncate_to(3)
    assert log.active_segment.max_timestamp == 9
    assert log.offset_of_max_timestamp() == (9, 1, 0)


def test_starting_over_drops_everything(bench: Bench) -> None:
    log = filled(bench)
    append(log, produced(1, 0))
    log.truncate_fully_and_start_at(8)
    assert bases(log) == [8]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (8, 8, 8)
    assert (log.size_bytes, log.epochs.entries, log.producers.entries) == (0, [], {})
    assert bench.names(".snapshot") == []
    assert append(log, batch()).first_offset == 8
    log.delete_due(START_MS + 10**9)
    log = bench.reopen(log)
    assert offsets(log) == [8]


def test_starting_over_may_keep_an_earlier_log_start(bench: Bench) -> None:
    log = filled(bench)
    log.truncate_fully_and_start_at(30, 20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 30)


def test_truncation_before_the_first_segment_starts_over(bench: Bench) -> None:
    log = filled(bench, retention_ms=0)
    log.set_high_watermark(6)
    log.delete_old_segments(START_MS + 10**9)
    assert bases(log)[0] == 6
    log.truncate_to(3)
    assert bases(log) == [3]
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


def test_a_negative_offset_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="negative offset"):
        filled(bench).truncate_to(-1)


def test_reads_after_truncation_see_the_new_records(bench: Bench) -> None:
    log = filled(bench, per_segment=100)
    log.read(4, 10, limit_offset=10)
    log.read(9, 10, limit_offset=10)
    log.truncate_to(4)
    append(log, batch(value=b"new"), leader_epoch=1)
    assert [record.value for record in read_all(log, 4)] == [b"new"]
    assert log.epochs.entries == [(0, 0), (1, 4)]


def test_a_flush_does_not_cover_what_was_written_after_a_truncation_in_the_meantime(
    bench: Bench,
) -> None:
    log = bench.open()
    for _ in range(4):
        append(log, batch(5))
    flush = log.prepare_flush()
    assert flush is not None
    flush.run()
    log.truncate_to(10)
    for _ in range(3):
        append(log, batch(5), leader_epoch=1)
    log.complete_flush(flush)
    assert log.recovery_point == 10
    log.flush()
    assert log.recovery_point == log.log_end_offset == 25


def test_a_segment_below_the_recovery_point_is_scanned_until_its_indexes_are_flushed(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(5))
    log.flush()
    log.roll()
    assert (log.recovery_point, log.scan_offset) == (5, 0)
    flush = log.prepare_flush()
    assert flush is not None
    assert log.scan_offset == 0
    flush.run()
    log.complete_flush(flush)
    assert log.scan_offset == 5
