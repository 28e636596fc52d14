"""Reassignments between brokers: which brokers send and receive, and their throttles.

A throttle has two parts: a rate on each participating broker, and a list of throttled replicas on each topic.
Both persist until removed, so the commands that set them print a reminder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.configs import Changes, ConfigResource
    from ottla.client.admin.replicas import Reassignment
    from ottla.client.values import TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class Move(NamedTuple):
    """A partition moves from source brokers to target brokers."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves_of(
    under_way: Mapping[TopicPartition, Reassignment],
    wanted: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """All moves after a request: those in progress, plus or replaced by the requested ones."""
    moves = {
        place: Move(
            frozenset(reassignment.replicas) - frozenset(reassignment.adding), frozenset(reassignment.adding)
        )
        for place, reassignment in under_way.items()
    }
    for place, replicas in wanted.items():
        sources = moves[place].sources if place in moves else frozenset(current[place])
        moves[place] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """For each topic, its throttled leader replicas and its throttled follower replicas."""
    sending: dict[str, set[str]] = {}
    receiving: dict[str, set[str]] = {}
    for place, move in moves.items():
        sending.setdefault(place.topic, set()).update(f"{place.partition}:{one}" for one in move.sources)
        receiving.setdefault(place.topic, set()).update(
            f"{place.partition}:{one}" for one in move.destinations
        )
    return {
        topic: (",".join(sorted(sending[topic])), ",".join(sorted(receiving[topic]))) for topic in sending
    }


def set_throttle(admin: Admin, moves: Mapping[TopicPartition, Move], bytes_per_second: int) -> None:
    """Throttle the replication of these moves."""
    from ottla.client.admin.configs import broker_resource, topic_resource

    topics: dict[ConfigResource, Changes] = {
        topic_resource(topic): {LEADER_REPLICAS: sending, FOLLOWER_REPLICAS: receiving}
        for topic, (sending, receiving) in throttled_replicas(moves).items()
    }
    admin.incremental_alter_configs(topics).all()
    rate = str(bytes_per_second)
    brokers = sorted({broker for move in moves.values() for broker in move.sources | move.destinations})
    admin.incremental_alter_configs(
        {broker_resource(broker): {LEADER_RATE: rate, FOLLOWER_RATE: rate} for broker in brokers}
    ).all()


def set_directory_throttle(admin: Admin, brokers: Iterable[int], bytes_per_second: int) -> None:
    """Throttle copying between log directories on these brokers."""
    from ottla.client.admin.configs import broker_resource

    rate = str(bytes_per_second)
    admin.incremental_alter_configs(
        {broker_resource(broker): {DIRECTORY_RATE: rate} for broker in brokers}
    ).all()


def clear_broker_throttles(admin: Admin, brokers: Collection[int]) -> None:
    from ottla.client.admin.configs import broker_resource

    cleared = dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE))
    admin.incremental_alter_configs({broker_resource(broker): cleared for broker in brokers}).all()


def clear_topic_throttles(admin: Admin, topics: Collection[str]) -> None:
    from ottla.client.admin.configs import topic_resource

    cleared = dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS))
    admin.incremental_alter_configs({topic_resource(topic): cleared for topic in topics}).all()
