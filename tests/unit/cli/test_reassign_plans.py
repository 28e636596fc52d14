"""The plans of `ottla reassign`, and its progress report."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.errors import Misuse
from ottla.cli.reassignment.monitor import rest_text
from ottla.cli.reassignment.planner import CannotPlan, Rows, Wish, plan_moves
from ottla.cli.reassignment.progress import Moving, Standing, Tracker, moving_of
from ottla.cli.units import size_bytes
from ottla.client.values import TopicPartition


def rows(**topics: list[list[int]]) -> Rows:
    return {
        TopicPartition(name, at): list(row)
        for name, of_topic in topics.items()
        for at, row in enumerate(of_topic)
    }


def wish(*brokers: int, **further: Any) -> Wish:
    return Wish(racks=dict.fromkeys(brokers), **further)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Rows, list[int]]:
    brokers = list(range(1, draw(st.integers(1, 6)) + 1))
    found: Rows = {}
    for name in draw(st.sampled_from([["a"], ["a", "b"]])):
        factor = draw(st.integers(1, len(brokers)))
        for partition in range(draw(st.integers(1, 8))):
            found[TopicPartition(name, partition)] = draw(st.permutations(brokers))[:factor]
    return found, brokers


def check(planned: Rows, current: Rows, allowed: list[int], factor: int | None = None) -> None:
    assert list(planned) == sorted(current)
    for place, row in planned.items():
        assert len(row) == len(set(row)) == (factor or len(current[place]))
        assert set(row) <= set(allowed)


@given(clusters(), st.data())
def test_replicas_are_spread_over_the_allowed_brokers(
    cluster: tuple[Rows, list[int]], data: st.DataObject
) -> None:
    current, brokers = cluster
    factor_max = max(map(len, current.values()))
    allowed = data.draw(
        st.lists(st.sampled_from([*brokers, 7, 8, 9, 10, 11, 12]), min_size=factor_max, unique=True)
    )
    planned = plan_moves(current, wish(*allowed, spreads=True))
    check(planned, current, allowed)
    for topic in {place.topic for place in current}:
        counts = Counter(dict.fromkeys(allowed, 0))
        counts.update(broker for place, row in planned.items() if place.topic == topic for broker in row)
        assert max(counts.values()) - min(counts.values()) <= 1
    assert plan_moves(planned, wish(*allowed, spreads=True)) == planned, "what is planned needs no other plan"


@given(clusters())
def test_draining_a_broker_moves_only_its_replicas(cluster: tuple[Rows, list[int]]) -> None:
    current, brokers = cluster
    others = [*brokers[1:], 99]
    planned = plan_moves(current, wish(*others))
    check(planned, current, others)
    for place, row in planned.items():
        pairs = zip(current[place], row, strict=True)
        assert all(was == now or was == brokers[0] for was, now in pairs), "only the drained one is replaced"


@given(clusters(), st.integers(1, 6))
def test_the_replication_factor_changes_and_the_first_replica_stays(
    cluster: tuple[Rows, list[int]], factor: int
) -> None:
    current, brokers = cluster
    if factor > len(brokers):
        with pytest.raises(CannotPlan, match="available brokers"):
            plan_moves(current, wish(*brokers, replication_factor=factor))
        return
    planned = plan_moves(current, wish(*brokers, replication_factor=factor))
    check(planned, current, brokers, factor)
    for place, row in planned.items():
        was = current[place]
        assert row[0] == was[0]
        assert set(row) <= set(was) or set(was) <= set(row)


def test_out_of_sync_and_then_same_rack_replicas_are_dropped_first() -> None:
    current = rows(a=[[1, 2, 3]])
    (place,) = current
    racks = {1: "x", 2: "y", 3: "x"}
    behind = Wish(racks=racks, replication_factor=2, in_sync={place: frozenset({1, 3})})
    assert plan_moves(current, behind) == rows(a=[[1, 3]])
    assert plan_moves(current, Wish(racks=racks, replication_factor=2)) == rows(a=[[1, 2]])


def test_new_replicas_go_to_other_racks_and_underused_brokers() -> None:
    racks = {1: "x", 2: "x", 3: "y", 4: "y"}
    assert plan_moves(rows(a=[[1]]), Wish(racks=racks, replication_factor=2)) == rows(a=[[1, 3]])
    loaded = Wish(racks=racks, replication_factor=2, loads={3: 5})
    assert plan_moves(rows(a=[[1]]), loaded) == rows(a=[[1, 4]])


def test_small_partitions_are_moved_rather_than_large_ones() -> None:
    current = rows(a=[[1], [1], [2]])
    sizes = {TopicPartition("a", 0): 900, TopicPartition("a", 1): 10}
    assert plan_moves(current, wish(1, 2, 3, spreads=True, sizes=sizes)) == rows(a=[[1], [3], [2]])


def test_leaders_are_balanced_without_copying() -> None:
    planned = plan_moves(rows(a=[[1, 2], [1, 2]]), wish(1, 2, spreads=True))
    assert {row[0] for row in planned.values()} == {1, 2}
    assert all(set(row) == {1, 2} for row in planned.values())


A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def test_many_small_topics_are_spread_over_added_brokers() -> None:
    current = rows(**{f"t{number:02}": [[1]] for number in range(30)})
    assert plan_moves(current, wish(1, 2, 3, spreads=True)) == current
    planned = plan_moves(current, wish(1, 2, 3, spreads=True, evens_totals=True))
    assert Counter(broker for row in planned.values() for broker in row) == {1: 10, 2: 10, 3: 10}


def test_leaders_of_many_small_topics_are_balanced_without_copying() -> None:
    current = rows(**{f"t{number:02}": [[1, 2, 3]] for number in range(9)})
    planned = plan_moves(current, wish(1, 2, 3, spreads=True, evens_totals=True))
    assert all(set(row) == {1, 2, 3} for row in planned.values())
    assert Counter(row[0] for row in planned.values()) == {1: 3, 2: 3, 3: 3}


def test_even_totals_keep_replicas_on_different_machines() -> None:
    racks = {1: "a", 1001: "a", 2: "b", 1002: "b"}
    current = rows(**{f"t{number:02}": [[1, 2]] for number in range(12)})
    planned = plan_moves(current, Wish(racks=racks, spreads=True, evens_totals=True))
    assert all({racks[broker] for broker in row} == {"a", "b"} for row in planned.values())
    assert Counter(broker for row in planned.values() for broker in row) == dict.fromkeys(racks, 6)
    assert Counter(row[0] for row in planned.values()) == dict.fromkeys(racks, 3)


@given(clusters(), st.integers(1, 4))
def test_even_totals_leave_each_topic_balanced(cluster: tuple[Rows, list[int]], added: int) -> None:
    current, brokers = cluster
    allowed = [*brokers, *range(7, 7 + added)]
    planned = plan_moves(current, wish(*allowed, spreads=True, evens_totals=True))
    check(planned, current, allowed)
    for topic in {place.topic for place in current}:
        of_topic = [row for place, row in planned.items() if place.topic == topic]
        counts = Counter(dict.fromkeys(allowed, 0)) + Counter(broker for row in of_topic for broker in row)
        assert max(counts.values()) - min(counts[broker] for broker in allowed) <= 1
    again = plan_moves(planned, wish(*allowed, spreads=True, evens_totals=True))
    assert {place: set(row) for place, row in again.items()} == {
        place: set(row) for place, row in planned.items()
    }


def test_progress_is_relative_to_the_leaders_log() -> None:
    sizes = {(1, A): 100, (2, A): 40, (3, A): 250, (1, B): 0}
    found = moving_of({A: ((1, 2, 3), (2, 3), (1,)), B: ((1, 4), (4,), ())}, sizes)
    assert found == {
        A: Moving((1, 2, 3), (2, 3), (1,), 140, 200),
        B: Moving((1, 4), (4,), (), 0, 0),
    }


def test_progress_has_a_rate_and_a_remaining_time() -> None:
    tracker = Tracker()
    one, other = Moving((1, 2), (2,), (1,), 0, 1000), Moving((1, 3), (3,), (), 100, 500)
    assert tracker.take({A: one, B: other}, 0.0) == Standing(2, 0, 100, 1500, None, None)
    later = Moving((1, 2), (2,), (1,), 600, 1000)
    assert tracker.take({A: later}, 10.0) == Standing(2, 1, 1100, 1500, 100.0, 4.0)
    assert rest_text(tracker.take({A: later}, 20.0)) == "1.1 KiB of 1.5 KiB, 50 B/s, 8s left"
    assert tracker.take({}, 30.0) == Standing(2, 2, 1500, 1500, 1400 / 30, 0.0)


def test_no_remaining_time_without_progress() -> None:
    tracker = Tracker()
    tracker.take({A: Moving((1, 2), (2,), (), 5, 10)}, 0.0)
    standing = tracker.take({A: Moving((1, 2), (2,), (), 5, 10)}, 1.0)
    assert rest_text(standing) == "5 B of 10 B, 0 B/s"


@pytest.mark.parametrize(
    ("text", "count"), [("7", 7), ("50MB", 50_000_000), ("1.5 KiB", 1536), ("2g", 2_000_000_000), ("0b", 0)]
)
def test_sizes_are_parsed(text: str, count: int) -> None:
    assert size_bytes(text, "--throttle") == count


@pytest.mark.parametrize("text", ["", "fast", "1 iB", "-5", "1PB"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="--throttle"):
        size_bytes(text, "--throttle")
