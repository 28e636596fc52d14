"""Replicas are spread over brokers and racks, and a leader is never placed on a fenced broker."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.placement import Placer, UsableBroker
from ottla.wire.errors import InvalidReplicationFactor

from .cluster import Chance


def placer(*brokers: UsableBroker) -> Placer:
    return Placer(brokers, Chance().below)


def test_one_broker_gets_everything() -> None:
    assert list(placer(UsableBroker(7)).place(3, 1)) == [[7], [7], [7]]


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = list(placer(*(UsableBroker(number) for number in range(4))).place(8, 2))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {4}


def test_replicas_of_a_partition_are_in_different_racks() -> None:
    brokers = [UsableBroker(number, rack=f"r{number % 3}") for number in range(6)]
    for replicas in placer(*brokers).place(20, 3):
        assert {broker % 3 for broker in replicas} == {0, 1, 2}


def test_a_fenced_broker_follows_but_does_not_lead() -> None:
    placed = list(placer(UsableBroker(1), UsableBroker(2, is_fenced=True)).place(5, 2))
    assert [replicas[0] for replicas in placed] == [1] * 5
    assert all(set(replicas) == {1, 2} for replicas in placed)


@pytest.mark.parametrize(
    ("brokers", "replicas", "message"),
    [
        ((), 1, "All brokers are currently fenced, or have all their log directories cordoned."),
        ((UsableBroker(1, is_fenced=True),), 1, "All brokers are currently fenced"),
        ((UsableBroker(1),), 2, "cannot be reached because only 1 broker"),
        ((UsableBroker(1),), 0, "must be positive"),
    ],
)
def test_what_cannot_be_placed_is_refused(
    brokers: tuple[UsableBroker, ...], replicas: int, message: str
) -> None:
    with pytest.raises(InvalidReplicationFactor, match=message):
        placer(*brokers).place(1, replicas)


@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9),
    fenced=st.sets(st.integers(0, 8)),
    partitions=st.integers(1, 30),
    replicas=st.integers(1, 9),
)
def test_every_partition_has_distinct_replicas_and_a_live_leader(
    racks: list[str | None], fenced: set[int], partitions: int, replicas: int
) -> None:
    brokers = [UsableBroker(n, rack, n in fenced) for n, rack in enumerate(racks)]
    if replicas > len(brokers) or all(broker.is_fenced for broker in brokers):
        return
    for placed in placer(*brokers).place(partitions, replicas):
        assert len(set(placed)) == replicas
        assert placed[0] not in fenced
