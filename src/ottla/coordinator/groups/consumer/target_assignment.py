"""A group's next target assignment: the snapshot for the assignor, and the records of the changes.

Rule: the steps read copies only (members are values, assignments are replaced as a whole), so the group can
change while a large assignment is made. The outcome is adapted to that: a member that left gets nothing, and
a member that replaced a static one gets its target.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from ottla.controller.image import ClusterImage
from ottla.coordinator.groups.assignors.spec import (
    Assignment,
    Assignor,
    GroupSpec,
    MemberAssignment,
    MemberSpec,
    TopicSpec,
)
from ottla.coordinator.groups.consumer import records
from ottla.coordinator.groups.consumer.group import NOTHING, ConsumerGroup, ResolvedRegex
from ottla.coordinator.groups.consumer.member import ConsumerMember
from ottla.coordinator.groups.consumer.records import TargetRecord
from ottla.coordinator.groups.consumer.subscriptions import Subscriptions
from ottla.coordinator.result import Record

INLINE_WORK = 400
"""Up to so many members and partitions an assignment is made within the heartbeat that needs it."""

_MEMBERS_IN_A_STEP = 200
_RECORDS_IN_A_STEP = 50

Steps = Generator[None, None, Assignment]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The input of the next target assignment."""

    epoch: int
    members: Mapping[str, ConsumerMember]
    target: Mapping[str, MemberAssignment]
    resolved: Mapping[str, ResolvedRegex]
    topics: Mapping[str, tuple[bytes, int]]  # name -> id, number of partitions
    is_homogeneous: bool

    @property
    def is_small(self) -> bool:
        return len(self.members) + sum(partitions for _id, partitions in self.topics.values()) <= INLINE_WORK


def snapshot(
    group: ConsumerGroup,
    epoch: int,
    updated: ConsumerMember,
    subscriptions: Subscriptions,
    image: ClusterImage,
) -> Snapshot:
    """The group with one updated member, which may replace a static one."""
    members = dict(group.members)
    target = dict(group.target)
    replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    if replaced is not None and replaced != updated.id:
        members.pop(replaced, None)
        if replaced in target:
            target[updated.id] = target.pop(replaced)
    members[updated.id] = updated
    topics = {}
    for name in sorted({*subscriptions.names, *subscriptions.matched}):  # the same on every node and run
        topic = image.topics_by_name.get(name)
        if topic is not None:
            topics[name] = (topic.id, len(topic.partitions))
    return Snapshot(epoch, members, target, dict(group.resolved), topics, subscriptions.is_homogeneous)


def steps(taken: Snapshot, assignor: Assignor) -> Steps:
    """Compute the assignment."""
    members: dict[str, MemberSpec] = {}
    ids: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}  # most members share subscriptions
    for position, member in enumerate(taken.members.values()):
        wish = (member.topic_names, member.regex)
        topic_ids = ids.get(wish)
        if topic_ids is None:
            topic_ids = ids[wish] = _topic_ids(taken, member)
        assigned = taken.target.get(member.id, NOTHING)
        members[member.id] = MemberSpec(topic_ids, assigned, member.instance_id, member.rack_id)
        if position % _MEMBERS_IN_A_STEP == 0:
            yield
    topics = {topic_id: TopicSpec(partitions) for topic_id, partitions in taken.topics.values()}
    return (yield from assignor.assign(GroupSpec(members, topics, taken.is_homogeneous)))


def _topic_ids(taken: Snapshot, member: ConsumerMember) -> frozenset[bytes]:
    names = member.topic_names
    resolved = taken.resolved.get(member.regex) if member.regex is not None else None
    if resolved is not None:
        names = names | resolved.topics
    return frozenset(taken.topics[name][0] for name in names if name in taken.topics)


def at_once(steps: Steps) -> Assignment:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: Assignment = end.value
            return outcome


def changes(taken: Snapshot, outcome: Assignment) -> dict[str, MemberAssignment]:
    """The members whose target changed, and those that had none: every member has one, maybe an empty one."""
    changed: dict[str, MemberAssignment] = {}
    for member_id in taken.members:
        assignment = outcome.get(member_id, NOTHING)
        old = taken.target.get(member_id)
        if assignment is not old and (old is None or not is_same(assignment, old)):
            changed[member_id] = assignment
    return changed


def is_same(one: MemberAssignment, other: MemberAssignment) -> bool:
    """Whether both have the same partitions: the order in a record of another coordinator may differ."""
    return one.keys() == other.keys() and all(
        partitions == other[topic_id] or set(partitions) == set(other[topic_id])
        for topic_id, partitions in one.items()
    )


def records_of(
    group_id: str, changed: Mapping[str, MemberAssignment]
) -> Generator[None, None, dict[str, TargetRecord]]:
    """Member id -> the record of its change."""
    made: dict[str, TargetRecord] = {}
    for position, (member_id, assignment) in enumerate(changed.items()):
        made[member_id] = TargetRecord(group_id, member_id, assignment)
        if position % _RECORDS_IN_A_STEP == 0:
            yield
    return made


def still_wanted(group: ConsumerGroup, taken: Snapshot, made: Mapping[str, TargetRecord]) -> list[Record]:
    """The records that still apply to the group."""
    wanted: list[Record] = []
    for member_id, record in made.items():
        if member_id in group.members:
            wanted.append(record)
            continue
        instance_id = taken.members[member_id].instance_id
        successor = group.static_members.get(instance_id) if instance_id is not None else None
        if successor is not None:
            wanted.append(records.target(group.id, successor, record.assignment))
    return wanted
