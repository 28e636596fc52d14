"""Limits and tasks, as pure functions of numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.client.values import Range, TopicPartition
from ottla.spark.batch_ranges import (
    Shape,
    available,
    limited,
    limited_bytes,
    spans_between,
    split,
    tasks,
)

KEYS = st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 20))
OFFSETS = st.dictionaries(KEYS, st.tuples(st.integers(0, 10**6), st.integers(0, 20_000)), max_size=12)


def spans_of(drawn: dict[TopicPartition, tuple[int, int]]) -> list[Range]:
    return [Range(key.topic, key.partition, start, start + count) for key, (start, count) in drawn.items()]


def covered(plan: list[list[Range]]) -> dict[TopicPartition, list[tuple[int, int]]]:
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for task in plan:
        for span in task:
            found.setdefault(span.key, []).append((span.start, span.end))
    return found


@given(
    OFFSETS,
    st.none() | st.integers(1, 50),
    st.integers(200, 50_000),
    st.integers(0, 10_000),
    st.none() | st.integers(20_000, 10**8),
)
def test_tasks_read_each_record_exactly_once(
    drawn: dict[TopicPartition, tuple[int, int]],
    tasks_min: int | None,
    records_max: int,
    records_min: int,
    bytes_max: int | None,
) -> None:
    spans = spans_of(drawn)
    sizes = {span.key: 100.0 for span in spans}
    plan = tasks(spans, Shape(tasks_min, records_max, records_min, bytes_max), sizes)
    found = covered(plan)
    assert {span.key for span in spans if span.records} == set(found)
    for span in spans:
        if span.records:
            edges = sorted(found[span.key])
            assert edges[0][0] == span.start
            assert edges[-1][1] == span.end
            assert all(one[1] == two[0] for one, two in pairwise(edges))
            assert all(low < high for low, high in edges)


@given(OFFSETS, st.integers(100, 50_000), st.integers(0, 10_000))
def test_large_partitions_are_split_and_small_ones_combined(
    drawn: dict[TopicPartition, tuple[int, int]], records_max: int, records_min: int
) -> None:
    plan = tasks(spans_of(drawn), Shape(None, records_max, records_min))
    for task in plan:
        assert all(span.records <= records_max for span in task)
        if len(task) > 1:
            assert all(span.records < records_min for span in task)
            assert sum(span.records for span in task[:-1]) < records_min
            assert len({span.key for span in task}) == len(task)
    assert plan == sorted(plan)


@example({TopicPartition("a", partition): (0, 3) for partition in range(4)}, 3)
@given(OFFSETS, st.integers(1, 60))
def test_min_partitions_are_reached_with_enough_records(
    drawn: dict[TopicPartition, tuple[int, int]], tasks_min: int
) -> None:
    spans = spans_of(drawn)
    total = sum(span.records for span in spans)
    plan = tasks(spans, Shape(tasks_min))
    assert len(plan) >= min(tasks_min, total)


@given(st.integers(0, 10**9), st.integers(1, 10**6), st.integers(1, 300))
def test_parts_of_a_range_differ_by_one_record_at_most(start: int, records: int, parts: int) -> None:
    made = split(Range("t", 0, start, start + records), parts)
    sizes = {part.records for part in made}
    assert max(sizes) - min(sizes) <= 1
    assert sum(part.records for part in made) == records


@given(OFFSETS, st.integers(1, 10**6))
def test_a_limit_is_used_up_and_never_exceeded(
    drawn: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    start = {key: low for key, (low, _) in drawn.items()}
    latest = {key: low + count for key, (low, count) in drawn.items()}
    ends = limited(start, latest, most)
    assert ends.keys() == latest.keys()
    assert all(start[key] <= ends[key] <= latest[key] for key in ends)
    assert available(start, ends) == min(most, available(start, latest))


def test_a_limit_below_the_number_of_partitions_reaches_each_of_them_in_time() -> None:
    keys = [TopicPartition("t", index) for index in range(10)]
    start, latest = dict.fromkeys(keys, 0), dict.fromkeys(keys, 7)
    rounds = 0
    while available(start, latest):
        start = limited(start, latest, 3)
        rounds += 1
    assert start == latest
    assert rounds == 24  # 70 records, three at a time


@given(OFFSETS, st.integers(1, 10**8), st.floats(1, 1000))
def test_a_limit_in_bytes_is_kept_by_the_estimate_but_lets_one_record_through(
    drawn: dict[TopicPartition, tuple[int, int]], most: int, size: float
) -> None:
    start = {key: low for key, (low, _) in drawn.items()}
    latest = {key: low + count for key, (low, count) in drawn.items()}
    ends = limited_bytes(start, latest, most, dict.fromkeys(drawn, size))
    read = available(start, ends)
    assert read * size <= most * 1.000001 or read == 1
    if available(start, latest) * size <= most:
        assert ends == latest


def test_ranges_cover_only_partitions_that_advanced() -> None:
    a, b, c = (TopicPartition("t", index) for index in range(3))
    found = spans_between({a: 5, b: 7}, {a: 9, b: 7, c: 4}, {"t": b"x" * 16})
    assert found == [Range("t", 0, 5, 9, b"x" * 16)]
