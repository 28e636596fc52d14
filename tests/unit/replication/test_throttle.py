"""Limits on the traffic between replicas."""

from __future__ import annotations

import pytest

from ottla.replication.throttle import Rate, Throttle, throttled_partitions


def test_a_rate_is_measured_over_its_window() -> None:
    rate = Rate(samples=3, width_ms=1000)
    rate.record(500, 0)
    assert rate.per_second(0) == 500  # at least one sample's width
    rate.record(500, 1000)
    rate.record(500, 2000)
    assert rate.per_second(2000) == 750
    assert rate.per_second(3000) == 500
    assert rate.per_second(10_000) == 0


def test_a_sender_that_checks_first_keeps_the_limit() -> None:
    throttle = Throttle()
    throttle.set_limit(10_000)
    throttle.set_topic("t", frozenset((0,)))
    sent = 0
    for now_ms in range(0, 60_000, 10):
        if not throttle.holds_back("t", 0, in_sync=False, now_ms=now_ms):
            throttle.record(1000, now_ms)
            sent += 1000
    assert sent / 60 == pytest.approx(10_000, rel=0.1)


@pytest.mark.parametrize("limit", [1024, 20_000, 90_000, 200_000, 4_000_000])
def test_oversized_batches_delay_the_following_ones(limit: int) -> None:
    throttle = Throttle()
    throttle.set_limit(limit)
    throttle.set_topic("t", frozenset((0,)))
    size, sent, now_ms = 1_000_000, 0, 0
    while sent < 40 * size:
        if not throttle.holds_back("t", 0, in_sync=False, now_ms=now_ms):
            throttle.record(size, now_ms)
            sent += size
            last_ms = now_ms
        now_ms += 100
    assert (sent - size) * 1000 / last_ms == pytest.approx(limit, rel=0.1)


def test_a_new_limit_applies_at_once() -> None:
    throttle = Throttle()
    throttle.set_limit(1024)
    throttle.set_topic("t", frozenset((0,)))
    throttle.record(1_000_000, 0)
    throttle.set_limit(1024)  # unchanged
    assert throttle.is_exceeded(100_000)
    throttle.set_limit(100_000)
    assert not throttle.is_exceeded(100_000)


def test_only_listed_out_of_sync_replicas_are_throttled() -> None:
    throttle = Throttle()
    throttle.set_limit(1)
    throttle.set_topic("t", frozenset((0,)))
    throttle.record(1_000_000, 0)
    assert throttle.holds_back("t", 0, in_sync=False, now_ms=1)
    assert not throttle.holds_back("t", 0, in_sync=True, now_ms=1)
    assert not throttle.holds_back("t", 1, in_sync=False, now_ms=1)
    assert not throttle.holds_back("u", 0, in_sync=False, now_ms=1)
    throttle.set_topic("t", None)
    assert throttle.holds_back("t", 1, in_sync=False, now_ms=1)
    throttle.set_topic("t", frozenset())
    assert not throttle.has_topics
    throttle.set_limit((1 << 63) - 1)
    assert not throttle.is_exceeded(1)


def test_lists_name_the_partitions_of_this_node() -> None:
    assert throttled_partitions(["0:1", "1:2", "2:1", " 3:1"], 1) == frozenset({0, 2, 3})
    assert throttled_partitions(["*"], 1) is None
    assert throttled_partitions([], 1) == frozenset()
    assert throttled_partitions(["", "x:1", "4"], 1) == frozenset()
