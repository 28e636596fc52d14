"""Groups for the tests of assignors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from ottla.coordinator.groups.assignors import (
    ASSIGNORS,
    GroupSpec,
    MemberAssignment,
    MemberSpec,
    TopicSpec,
)


def topic(number: int) -> bytes:
    return number.to_bytes(16, "big")


def group(
    wishes: Mapping[str, Iterable[int]],
    counts: Mapping[int, int],
    assigned: Mapping[str, MemberAssignment] | None = None,
    instances: Mapping[str, str] | None = None,
) -> GroupSpec:
    """A group by member ids, topic numbers and partition counts."""
    members = {
        member_id: MemberSpec(
            frozenset(map(topic, wanted)),
            (assigned or {}).get(member_id, {}),
            (instances or {}).get(member_id),
        )
        for member_id, wanted in wishes.items()
    }
    topics = {topic(number): TopicSpec(count) for number, count in counts.items()}
    is_homogeneous = len({member.topic_ids for member in members.values()}) < 2
    return GroupSpec(members, topics, is_homogeneous)


def assign(name: str, spec: GroupSpec) -> dict[str, MemberAssignment]:
    return assign_in_steps(name, spec)[0]


def assign_in_steps(name: str, spec: GroupSpec) -> tuple[dict[str, MemberAssignment], int]:
    steps = ASSIGNORS[name].assign(spec)
    count = 0
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as end:
            return end.value, count


def short(assignment: Mapping[str, MemberAssignment]) -> dict[str, dict[int, list[int]]]:
    """An assignment with topic numbers instead of ids."""
    return {
        member_id: {int.from_bytes(topic_id, "big"): list(parts) for topic_id, parts in share.items()}
        for member_id, share in assignment.items()
    }


def size(share: MemberAssignment) -> int:
    return sum(map(len, share.values()))


def staying(before: Mapping[str, MemberAssignment], after: Mapping[str, MemberAssignment]) -> int:
    return sum(
        len(set(partitions) & set(before.get(member_id, {}).get(topic_id, ())))
        for member_id, share in after.items()
        for topic_id, partitions in share.items()
    )


def check_complete(spec: GroupSpec, assignment: Mapping[str, MemberAssignment]) -> None:
    """Every partition that someone wants has one owner, who wants it; partitions stand in order."""
    assert assignment.keys() == spec.members.keys()
    owned = []
    for member_id, share in assignment.items():
        for topic_id, partitions in share.items():
            assert topic_id in spec.members[member_id].topic_ids
            assert partitions
            assert list(partitions) == sorted(partitions)
            owned += [(topic_id, partition) for partition in partitions]
    wanted = {topic_id for member in spec.members.values() for topic_id in member.topic_ids}
    assert sorted(owned) == sorted(
        (topic_id, partition)
        for topic_id in wanted
        for partition in range(spec.topics[topic_id].partition_count)
    )


@st.composite
def histories(draw: st.DrawFn, *, alike: bool) -> list[tuple[dict[str, frozenset[int]], dict[int, int]]]:
    """Some rounds of wishes and partition counts. Topics only grow; members come and go."""
    topics = draw(st.integers(1, 5))
    wish = st.frozensets(st.integers(0, topics - 1), min_size=1)
    counts = {number: draw(st.integers(1, 12)) for number in range(topics)}
    rounds = []
    for _ in range(draw(st.integers(1, 4))):
        members = draw(st.sets(st.integers(0, 9), min_size=1, max_size=8))
        same = draw(wish)
        wishes = {f"member-{number}": same if alike else draw(wish) for number in members}
        counts = {number: count + draw(st.integers(0, 3)) for number, count in counts.items()}
        rounds.append((wishes, counts))
    return rounds
