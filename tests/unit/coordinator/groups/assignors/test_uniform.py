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
    size,
    staying,
    topic,
)

from ottla.coordinator.groups.assignors import AssignmentFailed, MemberAssignment

Rounds = list[tuple[dict[str, frozenset[int]], dict[int, int]]]


def sizes(assignment: dict[str, MemberAssignment]) -> list[int]:
    return sorted(map(size, assignment.values()))


def test_members_with_the_same_wishes_own_the_same_number_of_partitions() -> None:
    spec = group({"a": [1, 2], "b": [1, 2], "c": [1, 2]}, {1: 4, 2: 4})
    assignment = assign("uniform", spec)
    check_complete(spec, assignment)
    assert sizes(assignment) == [2, 3, 3]


def test_a_newcomer_takes_only_what_is_due_to_it() -> None:
    counts = {1: 6, 2: 6}
    wishes = {"a": [1, 2], "b": [1, 2]}
    before = assign("uniform", group(wishes, counts))
    after = assign("uniform", group({**wishes, "c": [1, 2]}, counts, before))
    assert sizes(after) == [4, 4, 4]
    assert staying(before, after) == 8


def test_the_partitions_of_a_member_that_left_are_all_that_moves() -> None:
    counts = {1: 9}
    before = assign("uniform", group({"a": [1], "b": [1], "c": [1]}, counts))
    after = assign("uniform", group({"a": [1], "c": [1]}, counts, before))
    assert sizes(after) == [4, 5]
    assert staying(before, after) == 6


def test_new_partitions_go_to_those_who_own_less() -> None:
    wishes = {"a": [1], "b": [1]}
    before = assign("uniform", group(wishes, {1: 3}))
    after = assign("uniform", group(wishes, {1: 6}, before))
    assert sizes(after) == [3, 3]
    assert staying(before, after) == 3


def test_partitions_of_unsubscribed_topics_are_revoked() -> None:
    before = assign("uniform", group({"a": [1, 2], "b": [1, 2]}, {1: 2, 2: 2}))
    after = assign("uniform", group({"a": [2], "b": [2]}, {1: 2, 2: 2}, before))
    assert {number for share in short(after).values() for number in share} == {2}
    assert sizes(after) == [1, 1]


def test_nothing_changes_without_a_cause() -> None:
    counts = {1: 7, 2: 3}
    for wishes in ({"a": [1, 2], "b": [1, 2]}, {"a": [1], "b": [1, 2], "c": [2]}):
        before = assign("uniform", group(wishes, counts))
        after = assign("uniform", group(wishes, counts, before))
        assert all(after[member_id] is before[member_id] for member_id in wishes)


def test_members_with_different_wishes_are_levelled_across_topics() -> None:
    # Topic 2 is b's alone, so that topic 1 goes to the others.
    spec = group({"a": [1], "b": [1, 2], "c": [1]}, {1: 6, 2: 3})
    assignment = assign("uniform", spec)
    check_complete(spec, assignment)
    assert short(assignment)["b"] == {2: [0, 1, 2]}
    assert sizes(assignment) == [3, 3, 3]


def test_a_member_that_widens_its_wishes_takes_partitions_from_the_fullest() -> None:
    counts = {1: 8, 2: 1}
    before = assign("uniform", group({"a": [1], "b": [2]}, counts))
    after = assign("uniform", group({"a": [1], "b": [1, 2]}, counts, before))
    assert sizes(after) == [4, 5]
    assert staying(before, after) == 6


def test_a_topic_that_does_not_exist_fails_the_assignment() -> None:
    for wishes in ({"a": [1, 2]}, {"a": [1], "b": [2]}):
        with pytest.raises(AssignmentFailed, match="does not exist"):
            assign("uniform", group(wishes, {1: 1}))


def test_partitions_that_two_members_had_fail_the_assignment_instead_of_leaving_others_out() -> None:
    both: dict[str, MemberAssignment] = {"a": {topic(1): (0, 1)}, "b": {topic(1): (0, 1)}}
    with pytest.raises(AssignmentFailed, match="two members"):
        assign("uniform", group({"a": [1], "b": [1]}, {1: 4}, both))


def test_partitions_that_this_node_does_not_know_yet_do_no_harm() -> None:
    had: dict[str, MemberAssignment] = {"a": {topic(1): (0, 7)}}
    for wishes in ({"a": [1], "b": [1]}, {"a": [1], "b": [1, 2]}):
        spec = group(wishes, {1: 4, 2: 1}, had)
        check_complete(spec, assign("uniform", spec))


def test_a_group_without_members_or_without_topics_gets_nothing() -> None:
    assert assign("uniform", group({}, {1: 3})) == {}
    assert assign("uniform", group({"a": [], "b": []}, {1: 3})) == {"a": {}, "b": {}}


@given(histories(alike=True))
def test_equal_members_stay_level_and_keep_as_much_as_that_allows(rounds: Rounds) -> None:
    before: dict[str, MemberAssignment] = {}
    for wishes, counts in rounds:
        spec = group(wishes, counts, before)
        after = assign("uniform", spec)
        check_complete(spec, after)
        assert max(sizes(after)) - min(sizes(after)) <= 1
        wanted = next(iter(wishes.values()))
        due, extra = divmod(sum(counts[number] for number in wanted), len(wishes))
        had = sorted((_wanted(before.get(member_id, {}), wanted) for member_id in wishes), reverse=True)
        may_keep = (min(count, due + (place < extra)) for place, count in enumerate(had))
        assert staying(before, after) == sum(may_keep)
        before = after


def _wanted(share: MemberAssignment, wanted: frozenset[int]) -> int:
    return sum(len(share.get(topic(number), ())) for number in wanted)


@given(histories(alike=False))
def test_different_members_share_every_partition_they_want(rounds: Rounds) -> None:
    before: dict[str, MemberAssignment] = {}
    for wishes, counts in rounds:
        spec = group(wishes, counts, before)
        after = assign("uniform", spec)
        check_complete(spec, after)
        before = after


def test_large_groups_are_assigned_in_many_steps() -> None:
    topics = range(20)
    for cut in (1, 3):
        wishes = {f"member-{number:04}": topics[number % cut :] for number in range(1500)}
        spec = group(wishes, dict.fromkeys(topics, 150))
        before, steps = assign_in_steps("uniform", spec)
        check_complete(spec, before)
        assert steps >= 2
        newcomer = {**wishes, "newcomer": topics}
        spec = group(newcomer, dict.fromkeys(topics, 150), before)
        after, steps = assign_in_steps("uniform", spec)
        check_complete(spec, after)
        assert steps >= 2
        assert staying(before, after) > 2900
