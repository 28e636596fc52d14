"""The rules of compaction: how dirty a log is, how segments are grouped, which transactions have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.support import START_MS, Bench, append, batch, end_transaction, marker, produced

from ottla.log.compaction.rules import TransactionTracker, group_segments, judge, measure
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.transactions import AbortedTransaction
from ottla.records.batch import BatchHeader, read_header
from ottla.records.compaction import Verdict
from ottla.records.control import ControlType

COMPACT = LogConfig(cleanup_policy=frozenset(("compact",)))


def log_of(bench: Bench, segments: int, *, config: LogConfig = COMPACT, step_ms: int = 0) -> Log:
    """A log with `segments` full segments of one batch of ten, and an empty active one."""
    log = bench.open(config=config)
    for number in range(segments):
        append(log, batch(10, timestamp=START_MS + number * step_ms))
        log.roll()
    return log


def test_all_before_the_active_segment_is_dirty_at_first(bench: Bench) -> None:
    log = log_of(bench, 3)
    dirt = measure(log, None, START_MS)
    assert (dirt.first_dirty_offset, dirt.end_offset, dirt.clean_bytes) == (0, 30, 0)
    assert dirt.dirty_bytes == log.size_bytes
    assert dirt.ratio == 1.0
    assert dirt.is_due(COMPACT)


def test_the_ratio_is_that_of_dirty_to_all_bytes(bench: Bench) -> None:
    log = log_of(bench, 4)
    dirt = measure(log, 20, START_MS)
    assert (dirt.first_dirty_offset, dirt.ratio) == (20, 0.5)
    assert not dirt.is_due(COMPACT)
    assert dirt.is_due(replace(COMPACT, min_cleanable_dirty_ratio=0.49))


def test_a_log_with_only_an_active_segment_is_not_due(bench: Bench) -> None:
    log = bench.open(config=COMPACT)
    append(log, batch(5))
    dirt = measure(log, None, START_MS)
    assert dirt.total_bytes == 0
    assert not dirt.is_due(replace(COMPACT, min_cleanable_dirty_ratio=0.0))


@pytest.mark.parametrize("checkpoint", [-1, 31, 10**6])
def test_a_checkpoint_outside_the_log_starts_over(bench: Bench, checkpoint: int) -> None:
    dirt = measure(log_of(bench, 3), checkpoint, START_MS)
    assert dirt.first_dirty_offset == 0
    assert dirt.is_checkpoint_wrong


def test_nothing_above_the_last_stable_offset_is_cleaned(bench: Bench) -> None:
    log = bench.open(config=COMPACT)
    append(log, batch(10))
    log.roll()
    append(log, produced(5, 0, 3, transactional=True))
    append(log, batch(7))
    log.roll()
    append(log, batch(10))
    log.roll()
    assert measure(log, None, START_MS).end_offset == 10
    end_transaction(log, 5, commit=True)
    log.roll()
    assert measure(log, None, START_MS).end_offset == 31
    log.set_high_watermark(25)
    assert measure(log, None, START_MS).end_offset == 20


def test_young_segments_wait_for_the_minimum_lag(bench: Bench) -> None:
    log = log_of(bench, 3, config=replace(COMPACT, min_compaction_lag_ms=1000), step_ms=1000)
    assert measure(log, None, START_MS + 1999).end_offset == 10
    assert measure(log, None, START_MS + 2000).end_offset == 20
    assert measure(log, None, START_MS + 5000).end_offset == 30


def test_the_maximum_lag_makes_a_log_due_whatever_its_ratio(bench: Bench) -> None:
    config = replace(COMPACT, max_compaction_lag_ms=10_000)
    log = log_of(bench, 10, config=config, step_ms=1000)
    dirt = measure(log, 90, START_MS + 19_000)
    assert dirt.overdue_ms == 0
    assert not dirt.is_due(config)
    late = measure(log, 90, START_MS + 19_500)
    assert late.overdue_ms == 500
    assert late.is_due(config)
    assert not measure(log, 100, START_MS + 10**6).is_due(config)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_groups_are_neighbours_that_fit_together(sizes: list[int], limit: int) -> None:
    segments = [_FakeSegment(number * 10, size * 100) for number, size in enumerate(sizes)]
    config = replace(COMPACT, segment_bytes=limit * 100, segment_index_bytes=10**6)
    groups = group_segments(segments, config, len(sizes) * 10)  # type: ignore[arg-type]
    assert [segment.base_offset for group in groups for segment in group] == [
        segment.base_offset for segment in segments
    ]
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        total = sum(segment.size_bytes for segment in group)
        assert len(group) == 1 or total <= limit * 100
        if following is not None:
            assert total + following[0].size_bytes > limit * 100


def test_groups_do_not_span_more_offsets_than_an_index_can_hold() -> None:
    segments = [_FakeSegment(0, 100), _FakeSegment(2**31 - 5, 100), _FakeSegment(2**31, 100)]
    groups = group_segments(segments, COMPACT, 2**31 + 10)  # type: ignore[arg-type]
    assert [len(group) for group in groups] == [2, 1]
    emptied = [_FakeSegment(0, 100), _FakeSegment(2**32, 0), _FakeSegment(2**33, 0)]
    assert len(group_segments(emptied, COMPACT, 2**33)) == 1  # type: ignore[arg-type]


def test_groups_are_bounded_by_their_indexes() -> None:
    segments = [_FakeSegment(number, 100, index_bytes=40) for number in range(6)]
    config = replace(COMPACT, segment_index_bytes=100)
    assert [len(group) for group in group_segments(segments, config, 6)] == [2, 2, 2]  # type: ignore[arg-type]


class _FakeSegment:
    def __init__(self, base_offset: int, size_bytes: int, index_bytes: int = 0) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.offset_index = self.time_index = _FakeIndex(index_bytes)


class _FakeIndex:
    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes


def header_of(data: memoryview, base_offset: int) -> BatchHeader:
    return read_header(data)._replace(base_offset=base_offset)


def data_at(offset: int, producer_id: int = 5) -> BatchHeader:
    return header_of(produced(producer_id, 0, 2, transactional=True), offset)


def marker_at(offset: int, producer_id: int = 5) -> BatchHeader:
    return header_of(marker(producer_id, commit=True), offset)


def test_records_of_aborted_transactions_are_dropped_and_the_marker_stays_with_its_index_entry() -> None:
    tracker = TransactionTracker()
    aborted = AbortedTransaction(5, 10, 14, 15)
    tracker.expect([aborted, aborted])
    assert not tracker.is_aborted(data_at(8, producer_id=6))
    assert tracker.is_aborted(data_at(10))
    assert tracker.is_aborted(data_at(12))
    assert not tracker.is_marker_idle(marker_at(14), ControlType.ABORT)
    assert tracker.retained == [aborted]
    assert not tracker.is_aborted(data_at(15)), "the next transaction of the producer is another one"


def test_a_marker_is_idle_once_no_batch_of_its_transaction_remains() -> None:
    tracker = TransactionTracker()
    tracker.expect([AbortedTransaction(5, 10, 14, 15)])
    assert tracker.is_marker_idle(marker_at(14), ControlType.ABORT)
    assert tracker.retained == []
    assert tracker.is_marker_idle(marker_at(20), ControlType.COMMIT)
    tracker.is_aborted(data_at(21))
    assert not tracker.is_marker_idle(marker_at(23), ControlType.COMMIT)
    assert tracker.is_marker_idle(marker_at(24), ControlType.COMMIT)
    assert tracker.is_marker_idle(marker_at(25), None), "an emptied marker"
    assert not tracker.is_marker_idle(marker_at(26), ControlType.LEADER_CHANGE)


def test_batches_without_a_transaction_are_never_aborted() -> None:
    tracker = TransactionTracker()
    tracker.expect([AbortedTransaction(5, 0, 9, 10)])
    assert not tracker.is_aborted(header_of(produced(5, 0), 3))


def test_the_last_batch_of_a_producer_and_of_the_range_are_retained_empty() -> None:
    tracker = TransactionTracker()

    def verdict(header: BatchHeader, last: dict[int, tuple[int, int]], end: int = 100) -> Verdict:
        kind = ControlType.COMMIT if header.is_control else None
        return judge(header, kind, tracker, last, end, START_MS)

    assert verdict(data_at(10), {5: (11, 0)}).retain_empty
    assert not verdict(data_at(10), {5: (12, 0)}).retain_empty
    assert not verdict(data_at(10), {}).retain_empty
    assert verdict(data_at(10), {}, end=12).retain_empty
    assert verdict(marker_at(14), {5: (-1, 0)}).retain_empty
    assert not verdict(marker_at(15), {5: (-1, 1)}).retain_empty
    assert not verdict(header_of(batch(2), 10), {-1: (11, -1)}).retain_empty


def test_an_idle_marker_gets_a_delete_horizon_and_is_dropped_after_it() -> None:
    tracker = TransactionTracker()
    header = marker_at(14)
    first = judge(header, ControlType.COMMIT, tracker, {}, 100, START_MS)
    assert (first.set_horizon, first.discard_records) == (True, False)
    stamped = header._replace(attributes=header.attributes | 0x40, base_timestamp=START_MS + 10)
    assert not judge(stamped, ControlType.COMMIT, tracker, {}, 100, START_MS + 9).discard_records
    assert judge(stamped, ControlType.COMMIT, tracker, {}, 100, START_MS + 10).discard_records
