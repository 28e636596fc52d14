"""The consumer protocol inside JoinGroup and SyncGroup, which brokers otherwise treat as bytes.

A coordinator reads it only when a group migrates between the protocols. It starts with its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.wire import codec, errors
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage

_VERSION_BYTES = 2


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription in a consumer's JoinGroup, or MalformedMessage."""
    version = _version(metadata, ConsumerProtocolSubscription.VERSIONS)
    return codec.decode(ConsumerProtocolSubscription, metadata, version, _VERSION_BYTES, exact=False)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """The assignment that the leader of a group of consumers made for a member, or MalformedMessage."""
    version = _version(assignment, ConsumerProtocolAssignment.VERSIONS)
    return codec.decode(ConsumerProtocolAssignment, assignment, version, _VERSION_BYTES, exact=False)


def _version(metadata: bytes, versions: range) -> int:
    """The version at the start, or the newest known one: later versions only append fields."""
    if len(metadata) < _VERSION_BYTES:
        raise errors.MalformedMessage("The consumer metadata is too short for its version.")
    version = int.from_bytes(metadata[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise errors.MalformedMessage(f"Unsupported version {version} of the consumer metadata.")
    return min(version, versions[-1])


def write_assignment(
    partitions: Mapping[bytes, Iterable[int]], metadata: bytes, image: ClusterImage
) -> bytes:
    """An assignment as a classic consumer expects it, in the version of its metadata."""
    version = _version(metadata, ConsumerProtocolAssignment.VERSIONS)
    listed = [
        ConsumerProtocolAssignment.TopicPartition(topic=image.topics[topic_id].name, partitions=sorted(owned))
        for topic_id, owned in partitions.items()
        if topic_id in image.topics
    ]
    body = codec.encode(ConsumerProtocolAssignment(assigned_partitions=listed), version)
    return version.to_bytes(_VERSION_BYTES, "big") + body
