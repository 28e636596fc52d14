"""What a coordinator's decision gives back, as values: records, answers, timers, long work.

Rule: a decision looks at the state and returns a `Result`; `replay` of its records is what changes the
persistent state, before the next decision is made. What is never written to the log (a member that has
joined a classic group and waits for the others, for instance) a decision may change itself. Answers leave
once everything that the state knew when they were made is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import KafkaError
from ottla.wire.message import Message

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a coordinator's partition. The key's `API_KEY` is its type; no value is a tombstone."""

    key: Message
    value: Message | None
    version: int = 0  # of the value


class _Held:
    __slots__ = ()

    def __repr__(self) -> str:
        return "HELD"


HELD: Final = _Held()
"""The response of a decision that keeps the `PendingResponse`: a later result completes it."""


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Make a decision after a while. A timer with the same key is replaced."""

    key: Hashable
    delay_ms: int
    decision: Callable[[], Result[Any]]


@dataclass(frozen=True, slots=True)
class StopTimer:
    """Forget a timer, if there is one."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Task:
    """Work too long for one step: run in slices between other requests, then decide with what it found.

    `steps` yields at least every millisecond or so and returns the outcome; it must not read state that
    other decisions change. A task with the same key replaces the one under way.
    """

    key: Hashable
    steps: Generator[None, None, Any]
    decision: Callable[[Any], Result[Any]]


@dataclass(frozen=True, slots=True)
class TransactionalWrite:
    """The records take effect when the transaction is committed."""

    producer_id: int
    producer_epoch: int
    transaction_version: int = 0
    guard: Any = None  # of the log, that the transaction was verified


@dataclass(slots=True)
class Result(Generic[_T]):
    """A decision. The records of one result stand in one batch: all of them or none."""

    response: _T | _Held | None = None
    records: list[Record] = field(default_factory=list)
    late_responses: list[tuple[PendingResponse, Any]] = field(default_factory=list)
    timers: list[StartTimer | StopTimer] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    effects: list[Any] = field(default_factory=list)  # what the shell does once the records are committed
    transaction: TransactionalWrite | None = None  # the records belong to a producer's transaction
    on_failed: Callable[[KafkaError], Result[Any]] | None = None
    """Called when the records were refused as too large, or for want of in-sync replicas: takes back what the
    decision itself had changed."""

    def add(self, other: Result[Any]) -> None:
        """Take over everything but the response."""
        self.records += other.records
        self.late_responses += other.late_responses
        self.timers += other.timers
        self.tasks += other.tasks
        self.effects += other.effects


class Caller(NamedTuple):
    """Who asked."""

    version: int  # of the request
    client_id: str = ""
    client_host: str = ""  # as Kafka shows it: "/127.0.0.1"
