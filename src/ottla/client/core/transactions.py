"""The state of a transactional producer: which step may follow which, and what errors mean for it.

    UNINITIALIZED -> INITIALIZING -> READY <-> IN_TRANSACTION -> COMMITTING | ABORTING -> READY
    IN_TRANSACTION, COMMITTING -> ABORTABLE_ERROR -> ABORTING
    any -> FATAL_ERROR

Rules: after an abortable error only an abort is possible; after a fatal one nothing. With protocol 2
(KIP-890) writing to a partition adds it to the transaction, and each transaction ends with a new epoch;
before that, each partition is first added at the coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ottla.client.errors import AbortableError, FatalError, TransactionStateError
from ottla.wire.errors import ErrorCode, KafkaError

PRODUCE_VERSION_MAX_V1 = 11
END_TXN_VERSION_MAX_V1 = 4
TXN_OFFSET_COMMIT_VERSION_MAX_V1 = 4
FEATURE = "transaction.version"


class State(Enum):
    UNINITIALIZED = auto()
    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


_BEFORE: dict[State, frozenset[State]] = {
    State.INITIALIZING: frozenset({State.UNINITIALIZED, State.INITIALIZING, State.ABORTING}),
    State.READY: frozenset({State.INITIALIZING, State.COMMITTING, State.ABORTING}),
    State.IN_TRANSACTION: frozenset({State.READY}),
    State.COMMITTING: frozenset({State.IN_TRANSACTION}),
    State.ABORTING: frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING}),
    State.ABORTABLE_ERROR: frozenset(
        {State.INITIALIZING, State.IN_TRANSACTION, State.COMMITTING, State.ABORTABLE_ERROR}
    ),
}


class Meaning(Enum):
    """What to do about an error code of a transaction's request."""

    RETRY = auto()
    FIND_COORDINATOR = auto()
    ABORTABLE = auto()
    FATAL = auto()


_FIND = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_RETRY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
_ABORTABLE = frozenset(
    {
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
)
_FATAL_FOR_BATCHES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


def meaning_of(code: int) -> Meaning:
    """What an error of the transaction coordinator means."""
    if code in _FIND:
        return Meaning.FIND_COORDINATOR
    if code in _RETRY:
        return Meaning.RETRY
    if code in _ABORTABLE:
        return Meaning.ABORTABLE
    return Meaning.FATAL


@dataclass(frozen=True, slots=True)
class Handle:
    """A transaction in progress, for other processes to write in: plain values that can be sent."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    protocol: int
    bootstrap_servers: str = ""

    def to_text(self) -> str:
        """The handle as one line of text."""
        return (
            f"ottla-transaction:1:{self.producer_id}:{self.producer_epoch}:{self.protocol}:"
            f"{self.bootstrap_servers}|{self.transactional_id}"
        )

    @classmethod
    def from_text(cls, text: str) -> Handle:
        """Parse the result of `to_text`."""
        head, _, transactional_id = text.partition("|")
        parts = head.split(":", 5)
        if len(parts) != 6 or parts[:2] != ["ottla-transaction", "1"] or not transactional_id:
            raise ValueError("This is not a transaction handle. Pass the result of transaction_handle().")
        return cls(transactional_id, int(parts[2]), int(parts[3]), int(parts[4]), parts[5])


class Transactions:
    """The state of a transactional producer."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.error: Exception | None = None
        self.protocol = 1
        self.is_joined = False
        """Whether the transaction belongs to another producer: this one writes, that one ends it."""
        self.number = 0
        """How many transactions have begun."""
        self.partitions: set[tuple[str, int]] = set()
        """Partitions that the coordinator has (or, with protocol 2, will have) in the transaction."""
        self.new_partitions: set[tuple[str, int]] = set()
        self.needs_epoch = False
        """Whether a new epoch is needed after the abort."""
        self.is_started = False
        """Whether there is anything to end: a record was written, or the transaction was handed out."""

    def move(self, state: State) -> None:
        if self.state is State.FATAL_ERROR:
            self.check_fatal()
        if self.state not in _BEFORE[state]:
            raise TransactionStateError(
                "This operation is not possible while the producer is "
                f"{self.state.name.lower().replace('_', ' ')}."
            )
        self.state = state
        if state is State.IN_TRANSACTION:
            self.number += 1
        if state in (State.READY, State.IN_TRANSACTION):
            self.error = None
            self.partitions.clear()
            self.new_partitions.clear()
            self.needs_epoch = False
            self.is_started = False

    def check_fatal(self) -> None:
        if self.state is State.FATAL_ERROR:
            raise FatalError(f"The producer has failed: {self.error} Create another one.") from self.error

    def check_may_send(self) -> None:
        """Raise if records are not accepted now."""
        if self.state is State.IN_TRANSACTION:
            return
        self.check_fatal()
        if self.state is State.ABORTABLE_ERROR:
            raise AbortableError(f"The transaction must be aborted: {self.error}") from self.error
        raise TransactionStateError("A producer with a transactional.id can send only within a transaction.")

    def fail(self, error: Exception, *, fatal: bool) -> None:
        """Enter an error state, fatal or abortable."""
        if self.state is State.FATAL_ERROR:
            return
        if fatal:
            self.state, self.error = State.FATAL_ERROR, error
        elif self.state in _BEFORE[State.ABORTABLE_ERROR]:
            self.state, self.error = State.ABORTABLE_ERROR, self.error or error

    def batch_failed(self, error: Exception) -> None:
        """A batch of the transaction has failed."""
        code = error.code if isinstance(error, KafkaError) else None
        if self.protocol < 2:
            self.needs_epoch = True
        self.fail(error, fatal=code in _FATAL_FOR_BATCHES)

    def wants(self, partition: tuple[str, int]) -> bool:
        """Whether a partition is part of the transaction and may be written to; if not, it will be added."""
        if partition in self.partitions:
            return True
        if self.protocol >= 2:
            self.partitions.add(partition)
            self.is_started = True
            return True
        self.new_partitions.add(partition)
        return False
