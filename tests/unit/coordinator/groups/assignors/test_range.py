from __future__ import annotations

import pytest
from hypothesis import given
from tests.unit.coordinator.groups.assignors.samples import (
    assign,
    assign_in_steps,
    check_complete,
    group,
    histories,
    short,
)

from ottla.coordinator.groups.assignors import AssignmentFailed


def test_every_topic_is_cut_into_ranges_and_the_first_members_get_the_longer_ones() -> None:
    spec = group({"b": [1, 2], "a": [1, 2], "c": [1, 2]}, {1: 5, 2: 3})
    assert short(assign("range", spec)) == {
        "a": {1: [0, 1], 2: [0]},
        "b": {1: [2, 3], 2: [1]},
        "c": {1: [4], 2: [2]},
    }


def test_members_without_a_partition_left_get_none() -> None:
    spec = group({"a": [1], "b": [1], "c": [1]}, {1: 2})
    assert short(assign("range", spec)) == {"a": {1: [0]}, "b": {1: [1]}, "c": {}}


def test_only_subscribers_share_a_topic() -> None:
    spec = group({"a": [1], "b": [1, 2], "c": [2]}, {1: 4, 2: 3})
    assert short(assign("range", spec)) == {"a": {1: [0, 1]}, "b": {1: [2, 3], 2: [0, 1]}, "c": {2: [2]}}


def test_a_static_member_keeps_its_partitions_under_another_member_id() -> None:
    counts = {1: 4}
    first = assign("range", group({"m": [1], "n": [1]}, counts, instances={"m": "two", "n": "one"}))
    again = assign("range", group({"a": [1], "n": [1]}, counts, instances={"a": "two", "n": "one"}))
    assert short(first) == {"n": {1: [0, 1]}, "m": {1: [2, 3]}}
    assert again["a"] == first["m"]
    assert again["n"] == first["n"]


def test_static_members_stand_before_the_others() -> None:
    spec = group({"a": [1], "z": [1]}, {1: 3}, instances={"z": "instance"})
    assert short(assign("range", spec)) == {"z": {1: [0, 1]}, "a": {1: [2]}}


def test_names_are_ordered_by_units_of_utf_16() -> None:
    spec = group({"\uff21": [1], "\U0001f600": [1]}, {1: 2})
    assert short(assign("range", spec)) == {"\U0001f600": {1: [0]}, "\uff21": {1: [1]}}


def test_a_topic_that_does_not_exist_fails_the_assignment() -> None:
    for wishes in ({"a": [1, 2]}, {"a": [1], "b": [2]}):
        with pytest.raises(AssignmentFailed, match="does not exist"):
            assign("range", group(wishes, {1: 1}))


def test_an_empty_group_gets_an_empty_assignment() -> None:
    assert assign("range", group({}, {1: 3})) == {}


def test_a_member_that_nothing_changes_for_gets_back_what_it_had() -> None:
    wishes = {"a": [1, 2], "b": [1, 2]}
    before = assign("range", group(wishes, {1: 3, 2: 4}))
    after = assign("range", group(wishes, {1: 3, 2: 4}, before))
    assert all(after[member_id] is before[member_id] for member_id in wishes)


@given(histories(alike=False))
def test_every_partition_has_one_owner(
    rounds: list[tuple[dict[str, frozenset[int]], dict[int, int]]],
) -> None:
    for wishes, counts in rounds:
        spec = group(wishes, counts)
        check_complete(spec, assign("range", spec))


def test_a_large_group_is_assigned_in_many_steps() -> None:
    topics = range(50)
    wishes = {f"member-{number}": topics[number % 2 :] for number in range(300)}
    spec = group(wishes, dict.fromkeys(topics, 40))
    assignment, steps = assign_in_steps("range", spec)
    check_complete(spec, assignment)
    assert steps >= 4
