"""The assignors `sticky` and `cooperative-sticky`: balanced, and members keep their partitions.

Sticky is eager, so a member sends its last partitions and generation to the leader as user data. The
cooperative one needs only the subscription; partitions that must move are omitted from an assignment until
their owner has revoked them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from ottla.client.core.assignors.constrained import Constrained
from ottla.client.core.assignors.general import General
from ottla.client.core.assignors.interface import Assigned, Topics, in_order
from ottla.client.core.assignors.java_order import texts_computed
from ottla.client.core.assignors.racks import Racks
from ottla.client.core.metadata import ClusterView
from ottla.client.core.subscription import MemberSubscription
from ottla.client.values import TopicPartition

_NO_GENERATION = -1


class _Claim(NamedTuple):
    """The partitions that a member claims to have owned, and in which generation; None if it does not say."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


class _Sticky:
    """The common part of both."""

    def __init__(self) -> None:
        self.generation = _NO_GENERATION
        self._newest = _NO_GENERATION  # of all generations that members ever claimed
        self._moving: dict[TopicPartition, str] | None = None

    def _claim(self, member: MemberSubscription) -> _Claim:
        raise AssertionError("Each assignor has its own.")

    def assign(self, view: ClusterView, members: Mapping[str, MemberSubscription]) -> Assigned:
        ordered = in_order(members)
        topics = Topics.of(view, members)
        racks = Racks(topics, ordered)
        claims = {name: self._claim(member) for name, member in ordered.items()}
        self._newest = max(self._newest, *(_generation(claim) for claim in claims.values()))
        owned, doubly_claimed = _settle(topics, ordered, claims)
        if _all_want_the_same(ordered.values()):
            constrained = Constrained(topics, racks, owned, doubly_claimed)
            assigned = constrained.build()
            self._moving = constrained.moving
            return assigned
        self._moving = None
        return General(topics, racks, owned, ordered, self._previous(claims)).build()

    def _previous(self, claims: Mapping[str, _Claim]) -> dict[TopicPartition, tuple[str, int]]:
        """The owners of partitions before the newest generation; of several, the latest."""
        previous: dict[TopicPartition, tuple[str, int]] = {}
        for member, claim in claims.items():
            generation = _generation(claim)
            if generation >= self._newest:
                continue
            for partition in claim.partitions:
                if partition not in previous or generation > previous[partition][1]:
                    previous[partition] = (member, generation)
        return previous


def _generation(claim: _Claim) -> int:
    return _NO_GENERATION if claim.generation is None else claim.generation


def _all_want_the_same(members: Iterable[MemberSubscription]) -> bool:
    return len({frozenset(member.topics) for member in members}) == 1


def _settle(
    topics: Topics, members: Mapping[str, MemberSubscription], claims: Mapping[str, _Claim]
) -> tuple[dict[str, list[TopicPartition]], set[TopicPartition]]:
    """Decide ownership by claims; a partition that two members claim for one generation has no owner."""
    owned: dict[str, list[TopicPartition]] = {}
    owners: dict[TopicPartition, str] = {}
    doubly_claimed: set[TopicPartition] = set()
    for member, claim in claims.items():
        owned[member] = []
        generation = _generation(claim)
        for partition in claim.partitions:
            if not topics.has(partition):
                continue
            other = owners.get(partition)
            if other is not None and generation < members[other].generation:
                continue
            if other is not None and partition in owned[other]:
                owned[other].remove(partition)
            if other is not None and generation == members[other].generation:
                doubly_claimed.add(partition)
            else:
                owned[member].append(partition)
            owners[partition] = member
    return owned, doubly_claimed


class StickyAssignor(_Sticky):
    """The eager one."""

    name = "sticky"
    protocol: Literal["eager", "cooperative"] = "eager"

    def __init__(self) -> None:
        super().__init__()
        self._partitions: tuple[TopicPartition, ...] | None = None

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        if self._partitions is None:
            return None
        return encode_claim(self._partitions, self.generation)

    def on_assignment(
        self, partitions: Iterable[TopicPartition], user_data: bytes | None, generation: int
    ) -> None:
        self._partitions = tuple(partitions)
        self.generation = generation

    def _claim(self, member: MemberSubscription) -> _Claim:
        return decode_claim(member.user_data) if member.user_data else _Claim((), None)


class CooperativeStickyAssignor(_Sticky):
    """The cooperative one."""

    name = "cooperative-sticky"
    protocol: Literal["eager", "cooperative"] = "cooperative"

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return struct.pack(">i", self.generation)

    def on_assignment(
        self, partitions: Iterable[TopicPartition], user_data: bytes | None, generation: int
    ) -> None:
        self.generation = generation

    def _claim(self, member: MemberSubscription) -> _Claim:
        if member.generation >= 0:
            return _Claim(member.owned, member.generation)
        if member.user_data is None:
            return _Claim(member.owned, None)
        if len(member.user_data) < 4:
            return _Claim(member.owned, _NO_GENERATION)
        return _Claim(member.owned, struct.unpack_from(">i", member.user_data)[0])

    def assign(self, view: ClusterView, members: Mapping[str, MemberSubscription]) -> Assigned:
        assigned = super().assign(view, members)
        moving = _changing_hands(assigned, members) if self._moving is None else self._moving
        for partition, member in moving.items():
            assigned[member].remove(partition)
        return assigned


def _changing_hands(
    assigned: Mapping[str, Collection[TopicPartition]], members: Mapping[str, MemberSubscription]
) -> dict[TopicPartition, str]:
    """Partitions that one member gets and another must revoke first."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, partitions in assigned.items():
        owned, gets = set(members[member].owned), set(partitions)
        added.update((partition, member) for partition in partitions if partition not in owned)
        revoked |= owned - gets
    return {partition: member for partition, member in added.items() if partition in revoked}


# The user data of the sticky assignor: topics, each with its partitions, and since version 1 a generation.


def encode_claim(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    by_topic: dict[str, list[int]] = {}
    listed = list(partitions)
    for partition in listed:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    parts = [struct.pack(">i", len(by_topic))]
    for topic in texts_computed([partition.topic for partition in listed]):
        name, indexes = topic.encode(), by_topic[topic]
        parts.append(struct.pack(">h", len(name)) + name)
        parts.append(struct.pack(f">{len(indexes) + 1}i", len(indexes), *indexes))
    parts.append(struct.pack(">i", generation))
    return b"".join(parts)


def decode_claim(data: bytes) -> _Claim:
    """Decode a claim of another member; invalid bytes count as no claim."""
    partitions: list[TopicPartition] = []
    try:
        (count,) = struct.unpack_from(">i", data)
        position = 4
        if not 0 <= count <= len(data):
            return _Claim((), _NO_GENERATION)
        for _ in range(count):
            (length,) = struct.unpack_from(">h", data, position)
            name = data[position + 2 : position + 2 + length]
            position += 2 + length
            (size,) = struct.unpack_from(">i", data, position)
            if length < 0 or len(name) < length or not 0 <= size <= len(data):
                return _Claim((), _NO_GENERATION)
            topic = name.decode(errors="replace")
            indexes = struct.unpack_from(f">{size}i", data, position + 4)
            partitions += (TopicPartition(topic, index) for index in indexes)
            position += 4 + 4 * size
    except struct.error:
        return _Claim((), _NO_GENERATION)
    generation = struct.unpack_from(">i", data, position)[0] if position + 4 <= len(data) else None
    return _Claim(tuple(partitions), generation)
