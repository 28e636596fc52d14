"""What a coordinator's decision returns, as values: records, responses, timers, tasks, effects.

Rule: a decision reads the state and returns a `Result`; only `replay` of its records changes the persistent
state, before the next decision is made. State that is never written to the log (for instance a member of a
classic group that waits for the others) a decision may change itself. Responses leave once everything that
the state contained when they were made is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.log.producer_state import VerificationGuard
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import KafkaError
from ottla.wire.message import Message

_R = TypeVar("_R", covariant=True)
"""The type of a response. Code that adds records to any decision takes a `Result[object]`."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a coordinator's partition. The key's `API_KEY` is its type; no value: a tombstone."""

    key: Message
    value: Message | None
    version: int = 0  # of the value


class Held:
    __slots__ = ()

    def __repr__(self) -> str:
        return "HELD"


HELD: Final = Held()
"""The response of a decision that keeps the `PendingResponse`: a later result completes it."""


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Make a decision after a delay. This replaces a timer with the same key."""

    key: Hashable
    delay_ms: int
    decision: Callable[[], Result[object]]


@dataclass(frozen=True, slots=True)
class StopTimer:
    """Stop a timer, if it runs."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Task:
    """Work that is too long for one step: it runs in slices between requests, and its outcome is decided on.

    `steps` yields at least every millisecond or so and returns the outcome; it must not read state that
    other decisions change. It replaces a running task with the same key.
    """

    key: Hashable
    steps: Generator[None, None, Any]
    decision: Callable[[Any], Result[object]]


@dataclass(frozen=True, slots=True)
class TransactionalWrite:
    """The records take effect when the transaction is committed."""

    producer_id: int
    producer_epoch: int
    transaction_version: int = 0
    guard: VerificationGuard | None = None


@dataclass(slots=True)
class Result(Generic[_R]):
    """A decision. The log gets the records of one result in one batch: all of them or none."""

    response: _R | Held | None = None
    records: list[Record] = field(default_factory=list)
    late_responses: list[tuple[PendingResponse, object]] = field(default_factory=list)
    timers: list[StartTimer | StopTimer] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    effects: list[Any] = field(default_factory=list)  # carried out once the records are committed
    transaction: TransactionalWrite | None = None  # the records belong to a producer's transaction
    on_failed: Callable[[KafkaError], Result[object]] | None = None
    """Called when the log rejects the records (too large, too few in-sync replicas): rolls back what the
    decision itself changed."""

    def add(self, other: Result[object]) -> None:
        """Add everything of another result except its response."""
        self.records += other.records
        self.late_responses += other.late_responses
        self.timers += other.timers
        self.tasks += other.tasks
        self.effects += other.effects


class Caller(NamedTuple):
    """The client of a request."""

    version: int  # of the request
    client_id: str = ""
    client_host: str = ""  # as Kafka shows it: "/127.0.0.1"
