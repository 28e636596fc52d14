"""The states of a transaction, their transitions, and what is known about one transactional id.

Rule: `FOLLOWING` lists all transitions; every change goes through `Transaction.moved`, which checks it. A
`Transaction` is a value: a change makes a new one, its record goes to the log, and the replay of that record
replaces the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from ottla.coordinator.result import Record
from ottla.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 32767
NO_TIMEOUT_MS: Final = 2**31 - 1  # of a transaction that an outside coordinator decides (two-phase commit)
EPOCH_BUMP_VERSION: Final = 2
"""From this `transaction.version` on the epoch is bumped whenever a transaction ends."""

TopicPartition = tuple[str, int]


class State(IntEnum):
    """With the codes of the log's records."""

    EMPTY = 0  # nothing written yet
    ONGOING = 1
    PREPARE_COMMIT = 2  # decided; not all markers are written
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4  # every partition has its marker
    COMPLETE_ABORT = 5
    DEAD = 6  # expired: a tombstone deletes it, so it is never stored
    PREPARE_EPOCH_FENCE = 7  # to be aborted with a bumped epoch: transient, never stored

    @property
    def label(self) -> str:
        """As DescribeTransactions and ListTransactions name it."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        return self is State.PREPARE_COMMIT or self is State.PREPARE_ABORT

    @property
    def is_idle(self) -> bool:
        """No transaction is open: the id may be initialised, begin a transaction, or expire."""
        return self in _IDLE


_LABELS = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
    State.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
STATE_OF_LABEL = {label: state for state, label in _LABELS.items()}
_IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

_AFTER_IDLE = frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD})
FOLLOWING: dict[State, frozenset[State]] = {
    State.EMPTY: _AFTER_IDLE,
    State.ONGOING: frozenset(
        {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}
    ),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _AFTER_IDLE,
    State.COMPLETE_ABORT: _AFTER_IDLE,
    State.DEAD: frozenset(),
}
"""State -> the states that may come next.

From version 2 on a producer that does not know the state of its transaction may abort although none is open:
hence PREPARE_ABORT after the idle states.
"""


class IllegalTransition(AssertionError):
    """A decision chose a forbidden transition: a bug of the coordinator, never of a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transactional id: its producer, and the state of its newest transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    updated_ms: int = -1
    client_version: int = 0  # the `transaction.version` of the client
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """While a transaction completes: the next id of the client, if it changes.

    With `next_producer_epoch`, while a prepared transaction is kept (two-phase commit): its successor. The
    records in the log keep `producer_id` and `producer_epoch`.
    """
    next_producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    """The epoch before a bump that the same producer requested: if the response is lost, it retries with it.

    The log does not store it: after a load such a producer is fenced, as by Kafka.
    """

    @property
    def is_kept(self) -> bool:
        """The producer that wrote it was replaced by one that may only end it."""
        return self.state is State.ONGOING and self.next_producer_epoch != NO_EPOCH

    @property
    def client(self) -> tuple[int, int]:
        """(producer id, epoch) of the producer that may use the id now."""
        if self.is_kept:
            return self.next_producer_id, self.next_producer_epoch
        return self.producer_id, self.producer_epoch

    @property
    def has_timeout(self) -> bool:
        return self.timeout_ms != NO_TIMEOUT_MS

    @property
    def successor(self) -> tuple[int, int]:
        """(producer id, epoch) once all markers of a prepared transaction are written."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer_id, self.producer_epoch
        return self.next_producer_id, max(self.next_producer_epoch, 0)

    # ---- changes

    def moved(self, state: State, **changes: Any) -> Transaction:
        """The transaction in its next state, if `FOLLOWING` allows it."""
        if state not in FOLLOWING[self.state]:
            raise IllegalTransition(
                f"{self.state.label} of transactional id {self.transactional_id} cannot become {state.label}."
            )
        return replace(self, state=state, **{"previous_producer_id": self.producer_id, **changes})

    def initialised(
        self, producer_id: int, epoch: int, *, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """A producer has the id, and no transaction is open."""
        is_repeated = (producer_id, epoch) == (self.producer_id, self.producer_epoch)
        return self.moved(
            State.EMPTY,
            # The previous id recognises a producer whose response was lost: it may retry more than once.
            previous_producer_id=self.previous_producer_id if is_repeated else self.producer_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
            updated_ms=now_ms,
        )

    def kept_by(
        self, producer_id: int, epoch: int, *, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """Another producer takes over the open transaction without ending it."""
        return self.moved(
            State.ONGOING,
            next_producer_id=producer_id,
            next_producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], *, client_version: int, now_ms: int
    ) -> Transaction:
        """With more partitions; the transaction begins if none is open."""
        return self.moved(
            State.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=now_ms if self.state.is_idle else self.start_ms,
            updated_ms=now_ms,
            client_version=client_version,
            last_producer_epoch=NO_EPOCH,  # a producer that writes got its response
        )

    def prepared(
        self,
        state: State,
        *,
        epoch: int,
        last_epoch: int,
        successor: tuple[int, int],
        client_version: int,
        now_ms: int,
    ) -> Transaction:
        """Decided. `epoch` is that of the markers; `successor` is the next (id, epoch) of the client.

        NO_EPOCH in `successor` means epoch 0 of a new id.
        """
        next_id, next_epoch = successor
        return self.moved(
            state,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_id,
            next_producer_epoch=next_epoch,
            start_ms=now_ms if self.state.is_idle else self.start_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        is_commit = self.state is State.PREPARE_COMMIT
        producer_id, epoch = self.successor
        return self.moved(
            State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    # ---- the log

    def to_record(self, transaction_version: int) -> Record:
        """In the version that the cluster's `transaction.version` requires: version 0 has no other ids."""
        version = 1 if transaction_version >= 1 else 0
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None if self.state is State.EMPTY else _grouped(self.partitions),
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.start_ms,
        )
        if version >= 1:
            value.previous_producer_id = self.previous_producer_id
            value.next_producer_id = self.next_producer_id
            value.next_producer_epoch = self.next_producer_epoch
            value.client_transaction_version = self.client_version
        key = TransactionLogKey(transactional_id=self.transactional_id)
        return DecidedRecord(key, value, version, self)

    @classmethod
    def from_record(cls, key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
        """ValueError for a state that no version of Kafka writes."""
        state = State(value.transaction_status)
        partitions: frozenset[TopicPartition] = frozenset()
        if state is not State.EMPTY:
            partitions = frozenset(
                (topic.topic, index)
                for topic in value.transaction_partitions or ()
                for index in topic.partition_ids
            )
        return cls(
            transactional_id=key.transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=state,
            partitions=partitions,
            start_ms=value.transaction_start_timestamp_ms,
            updated_ms=value.transaction_last_update_timestamp_ms,
            client_version=value.client_transaction_version,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            next_producer_epoch=value.next_producer_epoch,
        )


@dataclass(frozen=True, slots=True)
class DecidedRecord(Record):
    """A record of this node's own decision, with the transaction, which replay uses without decoding."""

    transaction: Transaction = None  # type: ignore[assignment]


def tombstone(transactional_id: str) -> Record:
    """The record that deletes a transactional id."""
    return Record(TransactionLogKey(transactional_id=transactional_id), None)


def is_exhausted(epoch: int) -> bool:
    """No client gets the highest epoch: it is reserved for fencing the last producer."""
    return epoch >= EPOCH_MAX - 1


def by_topic(partitions: frozenset[TopicPartition] | set[TopicPartition]) -> dict[str, list[int]]:
    """Topic -> its partitions, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _grouped(partitions: frozenset[TopicPartition]) -> list[TransactionLogValue.PartitionsSchema]:
    return [
        TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]
