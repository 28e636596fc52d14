"""Fetch sessions (KIP-227): a broker remembers the client's partitions, and only changes are sent.

Rule: `sent` is what the broker knows once the request in flight has arrived. If that is in doubt (an error, a
lost connection), the next request is a full one that replaces the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.values import TopicPartition
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.uuid import ZERO

_EPOCH_MAX = 0x7FFFFFFF
_FULL = 0
_CLOSE = -1


class Wanted(NamedTuple):
    """What to fetch of one partition. `stamp` is not sent."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int
    stamp: int


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The size and wait limits of a fetch, from the settings."""

    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 1_048_576
    read_committed: bool = False
    rack: str = ""


class FetchSession:
    """The session with one broker. One request at a time."""

    __slots__ = ("_limits", "_names", "epoch", "sent", "session_id")

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self.session_id = 0
        self.epoch = _FULL
        self.sent: dict[TopicPartition, Wanted] = {}
        self._names: dict[bytes, str] = {}

    def build(self, wanted: Mapping[TopicPartition, Wanted]) -> FetchRequest:
        """The next request: all partitions, or the difference from the last request."""
        changed: Iterable[tuple[TopicPartition, Wanted]]
        forgotten: list[tuple[TopicPartition, bytes]] = []
        if self.epoch == _FULL:
            changed = wanted.items()
        else:
            sent = self.sent
            changed = [item for item in wanted.items() if sent.get(item[0]) != item[1]]
            for partition, old in sent.items():
                new = wanted.get(partition)
                if new is None or new.topic_id != old.topic_id:
                    forgotten.append((partition, old.topic_id))
        self.sent = dict(wanted)
        self._names = {item.topic_id: partition.topic for partition, item in wanted.items()}
        limits = self._limits
        return FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=int(limits.read_committed),
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=_topics(changed),
            forgotten_topics_data=_forgotten(forgotten),
            rack_id=limits.rack,
        )

    @property
    def has_topic_ids(self) -> bool:
        """Whether every partition has a topic id; if one has none, all are sent by name."""
        return ZERO not in self._names

    def topic_of(self, name: str, topic_id: bytes) -> str | None:
        """The topic of a response: newer versions contain only the id."""
        return name or self._names.get(topic_id)

    def answered(self, session_id: int) -> None:
        """Take a response without a session error."""
        if session_id == 0:
            self.session_id, self.epoch = 0, _FULL  # the broker keeps no session for us
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch >= _EPOCH_MAX else self.epoch + 1

    def refused(self, *, unknown: bool) -> None:
        """The broker's session differs from ours, or (`unknown`) does not exist."""
        self.epoch = _FULL
        if unknown:
            self.session_id = 0

    def lost(self) -> None:
        """No response came: the broker's state is unknown."""
        self.epoch = _FULL

    def closing(self) -> FetchRequest | None:
        """A request that closes the session."""
        if not self.session_id:
            return None
        return FetchRequest(max_wait_ms=0, session_id=self.session_id, session_epoch=_CLOSE)


def _topics(changed: Iterable[tuple[TopicPartition, Wanted]]) -> list[FetchRequest.FetchTopic]:
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for partition, item in changed:
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = FetchRequest.FetchTopic(
                topic=partition.topic, topic_id=item.topic_id
            )
        topic.partitions.append(
            FetchRequest.FetchPartition(
                partition=partition.partition,
                current_leader_epoch=item.leader_epoch,
                fetch_offset=item.offset,
                partition_max_bytes=item.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Iterable[tuple[TopicPartition, bytes]]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, bytes], FetchRequest.ForgottenTopic] = {}
    for partition, topic_id in partitions:
        key = (partition.topic, topic_id)
        if key not in topics:
            topics[key] = FetchRequest.ForgottenTopic(topic=partition.topic, topic_id=topic_id)
        topics[key].partitions.append(partition.partition)
    return list(topics.values())
