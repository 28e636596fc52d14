"""Measurements of the cluster rows that need no cluster."""

from __future__ import annotations

from bench.reign import BROKERS, image_of, measure_reign
from bench.results import longest_gap_s


def test_the_gap_counts_from_the_last_write_before_the_failover() -> None:
    times = [0.0, 5.0, 5.1, 5.2, 8.0, 8.1]
    assert longest_gap_s(times, since=5.15) == 8.0 - 5.2
    assert longest_gap_s(times, since=8.05) == 8.1 - 8.0, "what was before does not count"


def test_a_new_controller_elects_leaders_for_a_dead_brokers_partitions() -> None:
    partitions = 300
    image = image_of(partitions)
    assert sum(len(topic.partitions) for topic in image.topics.values()) == partitions
    assert set(image.brokers) == set(BROKERS)
    told = measure_reign(partitions)
    # Each partition has the broker among its replicas, in sync or leading; and the broker is fenced.
    assert told["records"] == partitions + 1
