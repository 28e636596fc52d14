"""What members of a classic group send each other through the coordinator: subscriptions and assignments.

Both start with a version in two bytes. Newer versions only add fields at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.values import TopicPartition
from ottla.wire.codec import decode, encode
from ottla.wire.errors import MalformedMessage
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription

VERSION = 3
_PREFIX = 2


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The subscription that one member sent when it joined."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    instance_id: str | None = None


def encode_subscription(subscription: MemberSubscription) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in _by_topic(subscription.owned).items()
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack or None,
    )
    return VERSION.to_bytes(_PREFIX, "big") + encode(message, VERSION)


def decode_subscription(data: bytes, instance_id: str | None = None) -> MemberSubscription:
    message = decode(ConsumerProtocolSubscription, data, _version(data), _PREFIX, exact=False)
    owned = [
        TopicPartition(topic.topic, index) for topic in message.owned_partitions for index in topic.partitions
    ]
    return MemberSubscription(
        tuple(message.topics),
        message.user_data,
        tuple(owned),
        message.generation_id,
        message.rack_id,
        instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=found)
            for topic, found in _by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return VERSION.to_bytes(_PREFIX, "big") + encode(message, VERSION)


def decode_assignment(data: bytes) -> tuple[tuple[TopicPartition, ...], bytes | None]:
    """Decode the partitions and the assignor's user data. No bytes mean no partitions."""
    if not data:
        return (), None
    message = decode(ConsumerProtocolAssignment, data, _version(data), _PREFIX, exact=False)
    partitions = [
        TopicPartition(topic.topic, index)
        for topic in message.assigned_partitions
        for index in topic.partitions
    ]
    return tuple(partitions), message.user_data


def _version(data: bytes) -> int:
    if len(data) < _PREFIX:
        raise MalformedMessage("A subscription or assignment of a group member has no version.")
    version = int.from_bytes(data[:_PREFIX], "big", signed=True)
    if version < 0:
        raise MalformedMessage(f"A subscription or assignment of a group member has version {version}.")
    return min(version, VERSION)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


__all__ = [
    "MemberSubscription",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]
