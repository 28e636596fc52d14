"""Small value types of the client."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ottla.wire.uuid import ZERO


class Status(Enum):
    """The outcome of a record that was sent."""

    PERSISTED = "persisted"
    """The broker acknowledged it, as `acks` requires."""
    POSSIBLY_PERSISTED = "possibly persisted"
    """It was sent, but whether it was written is unknown."""
    NOT_PERSISTED = "not persisted"
    """It was never sent, or every broker that received it rejected it."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Range(NamedTuple):
    """Records of one partition from `start` to `end`, exclusive."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = ZERO

    @property
    def records(self) -> int:
        return self.end - self.start

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """An offset to commit: the next one to read, the leader epoch of the last record read, and metadata."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class OffsetAndTimestamp(NamedTuple):
    """An offset found by timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer's identity in its group, which a transaction needs to commit its offsets."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
