"""What an assignor is asked, and how it answers.

Rule: a `GroupSpec` is a snapshot. It may share mappings with the group's state, so whoever holds that state
replaces a member's assignment as a whole and never changes it in place; an assignor does neither.

Two members or topics may be equally good for the next partition. Then the order of `members` and `topics`
decides, so the same spec always gives the same assignment.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

MemberAssignment = Mapping[bytes, tuple[int, ...]]
"""Topic id -> partitions, in ascending order when an assignor made it. A topic without any is left out."""

Assignment = dict[str, MemberAssignment]
"""Member id -> what it is to own. A member that nothing changes for gets back the very mapping it had."""

Steps = Generator[None, None, Assignment]

STEP: Final = 1000
"""How many small pieces of work (a partition given, a member looked at) an assignor does between two yields:
well under a millisecond."""


class AssignmentFailed(ValueError):
    """There is no assignment for this spec."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: what it wants and what the last target assignment gave it."""

    topic_ids: frozenset[bytes]  # of topics that exist; members with the same wish best share one set
    assigned: MemberAssignment = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic. Like Kafka's own, the assignors here do not look at racks, so `racks` may stay empty."""

    partition_count: int
    racks: tuple[frozenset[str], ...] = ()  # of the replicas, for each partition


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group at one time."""

    members: Mapping[str, MemberSpec]
    topics: Mapping[bytes, TopicSpec]  # at least those that a member is subscribed to
    is_homogeneous: bool  # all members are subscribed to the same topics


class Assignor(Protocol):
    """A way to share out partitions. Stateless."""

    name: str

    def assign(self, spec: GroupSpec) -> Steps:
        """Yields after every piece of work of at most a millisecond or so; returns every member's share.

        Raises AssignmentFailed where a member is subscribed to a topic that the spec does not have.
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
