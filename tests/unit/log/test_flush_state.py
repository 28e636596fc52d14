"""What a log knows of its flushes: the recovery point, rolled segments, truncations in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.log.support import START_MS, Bench, batch

from ottla.log.config import LogConfig
from ottla.log.flush import Flush
from ottla.log.flush_state import FlushState
from ottla.log.leader_epochs import EpochCache
from ottla.log.producer_snapshots import Snapshots
from ottla.log.segment import Segment
from ottla.log.segments import Segments


class Parts:
    """A flush state with the parts it looks at: two segments, the first rolled, ten offsets each."""

    def __init__(self, bench: Bench) -> None:
        self.directory = bench.directory
        Path(bench.directory).mkdir()
        self.segments = Segments()
        self.snapshots = Snapshots(bench.disk, bench.directory, ())
        self.epochs = EpochCache()
        for base_offset in (0, 10):
            segment = Segment.create(bench.disk, bench.directory, base_offset, LogConfig(), now_ms=START_MS)
            segment.append(batch(10), base_offset + 9, START_MS)
            self.segments.add(segment)
        self.state = FlushState(
            bench.disk,
            bench.clock,
            self.segments,
            self.snapshots,
            self.epochs,
            recovery_point=0,
            rolled=[],
        )
        self.segments[0].become_inactive()
        self.state.add_rolled(self.segments[0])

    def prepare(self, offset: int) -> Flush:
        flush = self.state.prepare(offset, self.directory)
        assert flush is not None
        return flush


@pytest.fixture
def parts(bench: Bench) -> Parts:
    return Parts(bench)


def test_a_completed_flush_moves_the_recovery_point_to_its_offset(parts: Parts) -> None:
    flush = parts.prepare(15)
    flush.run()
    parts.state.complete(flush, 20)
    assert (parts.state.recovery_point, parts.state.is_flushing) == (15, False)
    assert parts.state.prepare(15, parts.directory) is None


def test_the_scan_offset_waits_for_the_indexes_of_rolled_segments(parts: Parts) -> None:
    parts.state.recovery_point = 15
    assert parts.state.scan_offset == 0
    flush = parts.prepare(15)
    assert parts.state.scan_offset == 0
    parts.state.complete(flush, 20)
    assert parts.state.scan_offset == 15


def test_a_truncation_during_a_flush_bounds_what_the_flush_covers(parts: Parts) -> None:
    flush = parts.prepare(20)
    parts.state.truncate_to(12)
    parts.state.complete(flush, 30)  # more was appended since
    assert parts.state.recovery_point == 12


def test_a_postponed_flush_leaves_its_work_to_the_next(parts: Parts) -> None:
    parts.epochs.assign(3, 0)
    parts.snapshots.unsynced = [10]
    flush = parts.prepare(20)
    assert not parts.state.has_rolled
    parts.state.postpone(flush)
    assert parts.state.has_rolled
    assert parts.snapshots.unsynced == [10]
    assert parts.epochs.is_changed
    assert (parts.state.recovery_point, parts.state.scan_offset) == (0, 0)


def test_a_deleted_segment_no_longer_waits_for_a_flush(parts: Parts) -> None:
    parts.state.remove_rolled(parts.segments[0])
    assert not parts.state.has_rolled
