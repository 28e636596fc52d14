"""The result of a decision, and errors with a fixed text.

A decision is a function of the controller's state. One that may take long is a generator, which yields
between the elements of its request, so that it runs in slices; nothing else changes the state meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

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

if TYPE_CHECKING:
    from ottla.controller.state import ControllerState

_T = TypeVar("_T")
_R = TypeVar("_R", covariant=True)

Steps = Generator[None, None, _T]
"""Work in steps, with a possible pause at each yield."""

RECORDS_PER_REQUEST_MAX = 10_000
"""Kafka's limit of the records of one request."""
TOO_LARGE = "Unable to perform excessively large batch operation."
"""Kafka's error for a request that exceeds it."""


@dataclass(frozen=True, slots=True)
class Result(Generic[_R]):
    """A decision: `records` for the log, and the `response` that leaves once they are committed.

    The records of an atomic result go into one batch: all of them or none. `kraft_version` tells the quorum
    to raise its own level first. `when_appended` changes state that is in no record, such as the sessions of
    brokers: it is called after the records were appended, and never if the append failed.
    """

    response: _R
    records: Sequence[Message] = field(default=())
    is_atomic: bool = True
    kraft_version: int | None = None
    when_appended: Callable[[], None] | None = None


Decided = Result[_T] | Steps[Result[_T]]
"""What a decision returns."""
Decision = Callable[["ControllerState"], Decided[_T]]
"""A change of the cluster, made on the newest state."""

_STANDING_TEXTS: dict[type[KafkaError], str] = {
    UnknownTopicOrPartition: "This server does not host this topic-partition.",
    UnknownTopicId: "This server does not host this topic ID.",
    TopicAuthorizationFailed: "Topic authorization failed.",
    ElectionNotNeeded: "Leader election not needed for topic partition.",
    PreferredLeaderNotAvailable: "The preferred leader was not available.",
    EligibleLeadersNotAvailable: "Eligible topic partition leaders are not available.",
}


def standing(cls: type[KafkaError]) -> KafkaError:
    """An error with the text that Kafka sends if it has nothing to add to the code."""
    return cls(_STANDING_TEXTS[cls])


def decided(outcome: Decided[_T]) -> Result[_T]:
    """The result of a decision that needs no pause."""
    return outcome if isinstance(outcome, Result) else finished(outcome)


def finished(steps: Steps[_T]) -> _T:
    """Run all steps at once and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: _T = end.value
            return outcome
