"""Which segments each rule of retention deletes."""

from __future__ import annotations

import pytest
from tests.unit.log.support import START_MS, Bench, append, batch

from ottla.log import retention
from ottla.log.config import LogConfig
from ottla.log.log import Log

SIZE = len(batch())


@pytest.fixture
def log(bench: Bench) -> Log:
    """Five segments of one batch each, ten milliseconds apart."""
    log = bench.open(config=LogConfig(segment_bytes=SIZE))
    for number in range(5):
        append(log, batch(timestamp=START_MS + 10 * number))
    return log


def expired(log: Log, rule: retention.Rule, high_watermark: int = 5) -> list[int]:
    segments = retention.expired_segments(log.segments, rule, high_watermark, log.log_end_offset)
    return [segment.base_offset for segment in segments]


@pytest.mark.parametrize(("log_start", "deleted"), [(0, []), (2, [0, 1]), (5, [0, 1, 2, 3])])
def test_segments_below_the_log_start_are_deleted_but_never_the_last(
    log: Log, log_start: int, deleted: list[int]
) -> None:
    assert expired(log, retention.below_log_start(log_start)) == deleted


@pytest.mark.parametrize(
    ("limit", "deleted"), [(-1, []), (5 * SIZE, []), (3 * SIZE, [0, 1]), (3 * SIZE + 1, [0])]
)
def test_the_oldest_segments_are_deleted_until_the_rest_is_no_smaller_than_the_limit(
    log: Log, limit: int, deleted: list[int]
) -> None:
    assert expired(log, retention.above_size(limit, log.size_bytes)) == deleted


@pytest.mark.parametrize(("limit", "deleted"), [(-1, []), (30, []), (29, [0]), (9, [0, 1, 2])])
def test_segments_older_than_the_limit_are_deleted(log: Log, limit: int, deleted: list[int]) -> None:
    assert expired(log, retention.above_age(limit, START_MS + 30)) == deleted


def test_nothing_at_or_above_the_high_watermark_is_deleted(log: Log) -> None:
    assert expired(log, retention.above_age(0, START_MS + 10**6), high_watermark=2) == [0, 1]


def test_an_empty_active_segment_is_kept(log: Log) -> None:
    log.roll()
    assert expired(log, retention.above_age(0, START_MS + 10**6)) == [0, 1, 2, 3, 4]
