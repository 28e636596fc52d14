"""The input and the output of an assignor.

Rule: a `GroupSpec` is a snapshot. It may share mappings with the group's state, which therefore replaces the
assignment of a member as a whole and never changes it in place; an assignor does neither.

If two members or topics are equally good for the next partition, the order of `members` and `topics` decides,
so the same spec always gives the same assignment.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

MemberAssignment = Mapping[bytes, tuple[int, ...]]
"""Topic id -> partitions, ascending if an assignor made it. Topics without partitions are omitted."""

Assignment = dict[str, MemberAssignment]
"""Member id -> its target assignment. A member without changes keeps the same mapping object."""

Steps = Generator[None, None, Assignment]

STEP: Final = 1000
"""How many small operations (assign a partition, read a member) an assignor does between two yields: well
under a millisecond."""


class AssignmentFailed(ValueError):
    """There is no assignment for this spec."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: its subscription and its last target assignment."""

    topic_ids: frozenset[bytes]  # of existing topics; members with the same subscription should share one set
    assigned: MemberAssignment = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic. The assignors ignore racks, as Kafka's do, so `racks` may be empty."""

    partition_count: int
    racks: tuple[frozenset[str], ...] = ()  # of the replicas, for each partition


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A snapshot of a group."""

    members: Mapping[str, MemberSpec]
    topics: Mapping[bytes, TopicSpec]  # at least the subscribed ones
    is_homogeneous: bool  # all members are subscribed to the same topics


class Assignor(Protocol):
    """A strategy that assigns partitions. Stateless."""

    name: str

    def assign(self, spec: GroupSpec) -> Steps:
        """Yields at least about every millisecond; returns the assignment of every member.

        Raises AssignmentFailed if a member is subscribed to a topic that is not in the spec.
        """


def partition_count(spec: GroupSpec, topic_id: bytes) -> int:
    topic = spec.topics.get(topic_id)
    if topic is None:
        raise AssignmentFailed(f"a member is subscribed to topic id {topic_id.hex()}, which does not exist")
    return topic.partition_count


def subscribed_in_order(spec: GroupSpec, topic_ids: frozenset[bytes]) -> list[bytes]:
    """The subscribed topics in the order of the spec."""
    if len(topic_ids) > 1:
        ordered = [topic_id for topic_id in spec.topics if topic_id in topic_ids]
    else:
        ordered = [topic_id for topic_id in topic_ids if topic_id in spec.topics]
    if len(ordered) < len(topic_ids):
        for topic_id in topic_ids:
            partition_count(spec, topic_id)
    return ordered


def find_subscribers(
    spec: GroupSpec, wishes: Sequence[frozenset[bytes]]
) -> Generator[None, None, dict[bytes, list[int]]]:
    """Topic id -> who wants it, as positions in `wishes`, ascending; one list for topics with the same ones.

    Members with the same wishes are gathered first: most groups have few different ones.
    """
    alike: dict[frozenset[bytes], list[int]] = {}
    work = 0
    for position, topic_ids in enumerate(wishes):
        alike.setdefault(topic_ids, []).append(position)
        work += 3
        if work >= STEP:
            work = 0
            yield
    positions = list(alike.values())
    kinds_of: dict[bytes, list[int]] = {}
    for kind, topic_ids in enumerate(alike):
        for topic_id in topic_ids:
            kinds_of.setdefault(topic_id, []).append(kind)
        work += len(topic_ids)
        if work >= STEP:
            work = 0
            yield
    merged: dict[tuple[int, ...], list[int]] = {}
    subscribers: dict[bytes, list[int]] = {}
    for topic_id, kinds in kinds_of.items():
        partition_count(spec, topic_id)
        key = tuple(kinds)
        found = merged.get(key)
        if found is None:
            found = merged[key] = sorted(chain.from_iterable(positions[kind] for kind in kinds))
            work += len(found)
        subscribers[topic_id] = found
        work += 3
        if work >= STEP:
            work = 0
            yield
    return subscribers
