"""A member of a classic group: its JoinGroup fields, its assignment, and its held requests.

Rule: a member's `protocols` are in the order of its preference. The broker does not read them, except for the
topics of a consumer's subscription, which are the same prefix in all versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.wire.codec import decode
from ottla.wire.errors import MalformedMessage
from ottla.wire.messages.protocol_data import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from ottla.coordinator.result import StartTimer
    from ottla.waiting.pending_response import PendingResponse
    from ottla.wire.messages.join_group import JoinGroupRequest

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers. Connect and other clients have their own."""

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), in the order of preference."""

_VERSION_BYTES = 2


class HeldJoin(NamedTuple):
    """A JoinGroup request that waits for other members, and its version, which the response depends on."""

    pending: PendingResponse
    version: int


class ClassicMember:
    """See the module."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "id",
        "instance_id",
        "is_new",
        "join",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "session_timer",
        "sync",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join: HeldJoin | None = None
        self.sync: PendingResponse | None = None
        self.is_new = False  # it got no response since it joined, so it cannot send heartbeats
        self.session_timer: StartTimer | None = None  # created once: each heartbeat restarts it

    def __repr__(self) -> str:
        return f"ClassicMember({self.id!r}, instance_id={self.instance_id!r})"

    @property
    def is_alive(self) -> bool:
        """It waits for a response, so that no heartbeat is due. A new member may time out nevertheless."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(f"Member {self.id} does not support protocol {protocol}.")

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that this member prefers."""
        for name, _metadata in self.protocols:
            if name in candidates:
                return name
        raise KeyError(f"Member {self.id} supports none of the protocols common to all other members.")


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols of a request. Of a repeated name the first counts."""
    named: dict[str, bytes] = {}
    for protocol in request.protocols:
        named.setdefault(protocol.name, protocol.metadata)
    return tuple(named.items())


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that consumers with this metadata subscribe to; None if some of it cannot be read."""
    topics: set[str] = set()
    try:
        for subscription in set(metadata):
            if len(subscription) < _VERSION_BYTES:
                return None
            read = decode(ConsumerProtocolSubscription, subscription, 0, _VERSION_BYTES, exact=False)
            topics.update(read.topics)
    except MalformedMessage:
        return None
    return frozenset(topics)


def winner(votes: Mapping[str, int]) -> str:
    """The protocol with the most votes; of equals the first one in the iteration order of Kafka's table."""
    slots = 16
    while len(votes) > slots * 3 // 4:
        slots *= 2
    return min(votes, key=lambda name: (-votes[name], _spread_hash(name) & (slots - 1)))


def _spread_hash(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value ^ (value >> 16)
