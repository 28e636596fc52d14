"""The interface of assignors, and their common input."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ottla.client.core.assignors.java_order import texts_in_hash_order
from ottla.client.core.metadata import ClusterView
from ottla.client.core.subscription import MemberSubscription
from ottla.client.values import TopicPartition


class Assignor(Protocol):
    """Assigns the partitions of a classic group to its members.

    Custom ones may keep state, and must do no IO. Every member of a group needs one of the same name; the
    group leader uses it.
    """

    @property
    def name(self) -> str:
        """The name that members agree on."""

    @property
    def protocol(self) -> Literal["eager", "cooperative"]:
        """Eager members revoke everything before each rebalance, cooperative ones only what they lose."""

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """What the leader's assignor should know about this member, besides its subscription."""

    def assign(
        self, view: ClusterView, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Assign the partitions of all members. Only the leader calls it."""

    def on_assignment(
        self, partitions: Iterable[TopicPartition], user_data: bytes | None, generation: int
    ) -> None:
        """Receives the assignment of this member."""


Assigned = dict[str, list[TopicPartition]]
"""Partitions of each member."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The partitions to assign: for each topic, the racks of each partition's replicas."""

    racks: Mapping[str, Sequence[frozenset[str]]]

    @classmethod
    def of(cls, view: ClusterView, members: Mapping[str, MemberSubscription]) -> Topics:
        """The topics that members subscribe to and that exist."""
        wanted = texts_in_hash_order(
            topic for member in in_order(members).values() for topic in member.topics
        )
        racks: dict[str, Sequence[frozenset[str]]] = {}
        for topic in wanted:
            found = view.topics.get(topic)
            if found is not None and found.partitions:
                racks[topic] = [
                    _racks(view, partition.replicas)
                    for partition in sorted(found.partitions, key=lambda one: one.index)
                ]
        return cls(racks)

    def count(self, topic: str) -> int:
        return len(self.racks[topic])

    @property
    def partition_count(self) -> int:
        return sum(map(len, self.racks.values()))

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, index) for topic in topics for index in range(self.count(topic))]

    def has(self, partition: TopicPartition) -> bool:
        racks = self.racks.get(partition.topic)
        return racks is not None and 0 <= partition.partition < len(racks)

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        return self.racks[partition.topic][partition.partition]


def _racks(view: ClusterView, replicas: Iterable[int]) -> frozenset[str]:
    nodes = (view.brokers.get(replica) for replica in replicas)
    return frozenset(node.rack for node in nodes if node is not None and node.rack is not None)


def in_order(members: Mapping[str, MemberSubscription]) -> dict[str, MemberSubscription]:
    """The members in the iteration order of a Java client's map."""
    return {member: members[member] for member in texts_in_hash_order(members)}


def racks_matter(
    members: Iterable[str], partitions: Collection[frozenset[str]], everywhere: frozenset[str]
) -> bool:
    """Whether racks matter: members share racks with replicas, and not every rack has all partitions."""
    racks = set(members)
    return not racks.isdisjoint(everywhere) and any(one != everywhere for one in partitions)
