"""What a decision gives back, and the errors that have a standing text."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ottla.wire.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    KafkaError,
    PreferredLeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.wire.message import Message

_T = TypeVar("_T")

Steps = Generator[None, None, _T]
"""What is done before and after the decision on a large request, piece by piece."""

RECORDS_PER_REQUEST_MAX = 10_000
"""Kafka's bound on the records that one request may make."""
TOO_LARGE = "Unable to perform excessively large batch operation."
"""What Kafka says where a request is refused as a whole for it."""


@dataclass(frozen=True, slots=True)
class Result(Generic[_T]):
    """A decision: `records` for the log, and the `response` that leaves once they are committed.

    The records of an atomic result go into one batch: all of them or none. `kraft_version` asks the quorum
    to raise its own level first. `when_appended` changes what no record holds, such as the sessions of
    brokers: it is called after the log took the records, and never where the log refused them.
    """

    response: _T
    records: Sequence[Message] = field(default=())
    is_atomic: bool = True
    kraft_version: int | None = None
    when_appended: Callable[[], None] | None = None


_STANDING_TEXTS: dict[type[KafkaError], str] = {
    UnknownTopicOrPartition: "This server does not host this topic-partition.",
    UnknownTopicId: "This server does not host this topic ID.",
    TopicAuthorizationFailed: "Topic authorization failed.",
    ElectionNotNeeded: "Leader election not needed for topic partition.",
    PreferredLeaderNotAvailable: "The preferred leader was not available.",
    EligibleLeadersNotAvailable: "Eligible topic partition leaders are not available.",
}


def standing(cls: type[KafkaError]) -> KafkaError:
    """An error with the text that Kafka sends where the code alone is the whole story."""
    return cls(_STANDING_TEXTS[cls])


def finished(steps: Steps[_T]) -> _T:
    """The outcome of steps that are all done at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: _T = end.value
            return outcome
