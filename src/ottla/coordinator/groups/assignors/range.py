"""The range assignor: divides every topic into contiguous ranges, one for each subscribed member.

Members have one order for all topics, so topics with the same partition count and subscribers are divided in
the same way: a member gets the same partition numbers of each. Static members come first, by instance id, and
keep their position when they rejoin under another member id. Earlier assignments do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.groups.assignors.spec import (
    STEP,
    Assignment,
    GroupSpec,
    MemberSpec,
    Steps,
    find_subscribers,
    subscribed_in_order,
)


class RangeAssignor:
    name = "range"

    def assign(self, spec: GroupSpec) -> Steps:
        shares: dict[str, dict[bytes, tuple[int, ...]]] = {
            member_id: {} for member_id in _in_order(spec.members)
        }
        everyone = list(shares.values())
        if spec.is_homogeneous and shares:
            wanted = spec.members[next(iter(shares))].topic_ids
            all_positions = list(range(len(shares)))
            subscribers = dict.fromkeys(subscribed_in_order(spec, wanted), all_positions)
        else:
            wishes = [spec.members[member_id].topic_ids for member_id in shares]
            subscribers = yield from find_subscribers(spec, wishes)
        cuts: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        work = len(shares)
        for topic_id, positions in subscribers.items():
            shape = (spec.topics[topic_id].partition_count, len(positions))
            ranges = cuts.get(shape)
            if ranges is None:
                ranges = cuts[shape] = _cut(*shape)
            for position, partitions in zip(positions, ranges, strict=False):  # the last ones may get none
                everyone[position][topic_id] = partitions
            work += len(ranges)
            if work >= STEP:
                work = 0
                yield
        assignment: Assignment = {}
        for member_id, share in shares.items():
            before = spec.members[member_id].assigned
            assignment[member_id] = before if before == share else share
            work += 1 + len(share)
            if work >= STEP:
                work = 0
                yield
        return assignment


def _in_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """Member ids, static ones first."""
    static = [
        (_java_order(member.instance_id), member_id)
        for member_id, member in members.items()
        if member.instance_id is not None
    ]
    dynamic = [member_id for member_id, member in members.items() if member.instance_id is None]
    if all(map(str.isascii, dynamic)):
        dynamic.sort()
    else:
        dynamic.sort(key=_java_order)
    return [member_id for _, member_id in sorted(static)] + dynamic


def _java_order(text: str) -> bytes:
    """Java compares strings by UTF-16 units, whose order differs from that of characters."""
    return text.encode("utf-16-be", "surrogatepass")


def _cut(partitions: int, members: int) -> list[tuple[int, ...]]:
    """Ranges of equal length, the first ones longer by one if there is a remainder; none is empty."""
    each, longer = divmod(partitions, members)
    ranges = []
    start = 0
    for index in range(min(members, partitions)):
        end = start + each + (index < longer)
        ranges.append(tuple(range(start, end)))
        start = end
    return ranges
