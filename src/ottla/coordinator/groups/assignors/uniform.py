"""The uniform assignor: members own equal numbers of partitions, plus or minus one, and keep as many of
theirs as that allows. Balance comes before stickiness.

If all members subscribe to the same topics one pass is enough: members with too many partitions give up the
excess, and members with too few get it. If subscriptions differ, `uniform_mixed.py` assigns.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ottla.coordinator.groups.assignors.spec import (
    STEP,
    Assignment,
    AssignmentFailed,
    GroupSpec,
    MemberAssignment,
    Steps,
    subscribed_in_order,
)
from ottla.coordinator.groups.assignors.uniform_mixed import assign_mixed

_Run = tuple[bytes, Sequence[int]]  # a topic and some of its partitions


class UniformAssignor:
    name = "uniform"

    def assign(self, spec: GroupSpec) -> Steps:
        if not spec.members:
            return {}
        if not spec.is_homogeneous:
            return (yield from assign_mixed(spec))
        return (yield from _assign_alike(spec))


def _assign_alike(spec: GroupSpec) -> Steps:
    wanted = subscribed_in_order(spec, next(iter(spec.members.values())).topic_ids)
    counts = {topic_id: spec.topics[topic_id].partition_count for topic_id in wanted}
    free = yield from _unowned(spec, counts)
    due, extras = divmod(sum(counts.values()), len(spec.members))  # `extras` members own one more than `due`

    assignment: Assignment = {}
    short: list[tuple[str, int]] = []
    members_left = len(spec.members)
    work = 0
    for member_id, member in spec.members.items():
        # A member that owns enough keeps an extra one. Another leaves it to a later member, unless there are
        # only as many members left as extra ones.
        room = due + (extras > 0)
        kept, room = _keep(member.assigned, counts, room, free)
        takes_extra = extras > 0
        if room and takes_extra and members_left > extras:
            room -= 1
            takes_extra = False
        extras -= takes_extra
        members_left -= 1
        if room:
            short.append((member_id, room))
        assignment[member_id] = kept
        work += 1 + len(member.assigned)
        if work >= STEP:
            work = 0
            yield
    yield from _fill(assignment, short, free)
    return assignment


def _unowned(spec: GroupSpec, counts: dict[bytes, int]) -> Generator[None, None, list[_Run]]:
    """The partitions without an owner, topic by topic."""
    owned: dict[bytes, list[tuple[int, ...]]] = {topic_id: [] for topic_id in counts}
    work = 0
    for member in spec.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in owned:
                owned[topic_id].append(partitions)
        work += 1 + len(member.assigned)
        if work >= STEP:
            work = 0
            yield
    free: list[_Run] = []
    for topic_id, parts in owned.items():
        count = counts[topic_id]
        if not parts:
            free.append((topic_id, range(count)))
        else:
            is_free = bytearray(b"\1") * count
            for partitions in parts:
                for partition in partitions:
                    if partition < count:  # else the metadata of this node is older than the assignment
                        is_free[partition] = 0
                work += len(partitions)
                if work >= STEP:
                    work = 0
                    yield
            if any(is_free):
                free.append((topic_id, [partition for partition, flag in enumerate(is_free) if flag]))
        work += count // 10
        if work >= STEP:
            work = 0
            yield
    return free


def _keep(
    assigned: MemberAssignment, counts: dict[bytes, int], room: int, free: list[_Run]
) -> tuple[MemberAssignment, int]:
    """The partitions that a member keeps (the same mapping if it keeps all), and how many more it can get.

    Subscribed partitions beyond its limit become free.
    """
    kept: dict[bytes, tuple[int, ...]] = {}
    is_all = True
    for topic_id, partitions in assigned.items():
        count = counts.get(topic_id, 0)
        if (
            max(partitions, default=0) >= count
        ):  # not subscribed, or metadata that is older than the assignment
            is_all = False
            partitions = tuple(partition for partition in partitions if partition < count)
            if not partitions:
                continue
        if len(partitions) <= room:
            kept[topic_id] = partitions
            room -= len(partitions)
        else:
            is_all = False
            free.append((topic_id, partitions[room:]))
            if room:
                kept[topic_id] = partitions[:room]
                room = 0
    return (assigned if is_all else kept), room


def _fill(
    assignment: Assignment, short: list[tuple[str, int]], free: list[_Run]
) -> Generator[None, None, None]:
    """Assign the free partitions, in order, to the members with room, in order."""
    runs = iter(free)
    topic_id, partitions = next(runs, (b"", ()))
    start = 0
    work = 0
    for member_id, room in short:
        share = dict(assignment[member_id])
        while room:
            taken = partitions[start : start + room]
            if not taken:
                run = next(runs, None)
                if run is None:
                    break
                topic_id, partitions = run
                start = 0
                continue
            start += len(taken)
            room -= len(taken)
            share[topic_id] = tuple(sorted((*share.get(topic_id, ()), *taken)))
            work += 1 + len(taken) // 10
        assignment[member_id] = share
        work += 1
        if work >= STEP:
            work = 0
            yield
    if start < len(partitions) or next(runs, None) is not None:
        raise AssignmentFailed("a partition is assigned to two members, so that others find no owner")
