"""The wait for the replicas of partitions, or for a flush, before a request is answered.

Produce (acks=all, or a flush), the markers of transactions and DeleteRecords wait here. Rule: a change of a
partition has one outcome, which is noted while this node still knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ottla.server.replicas.partition import Partition
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode

T = TypeVar("T")


class Change(Protocol):
    """What this leader has done to a partition, and its followers may not have yet."""

    partition: Partition
    outcome: ErrorCode | None

    @property
    def is_decided(self) -> bool: ...

    def note_outcome(self) -> None:
        """Set `outcome` if it can be known by now."""


class Append(Generic[T]):
    """Records in the leader's log that are not acknowledged yet. `subject` is its owner's name for them."""

    __slots__ = (
        "end_offset",
        "is_flushing",
        "leader_epoch",
        "needs_replicas",
        "outcome",
        "partition",
        "subject",
    )

    def __init__(
        self, subject: T, partition: Partition, end_offset: int, *, needs_replicas: bool = True
    ) -> None:
        self.subject = subject
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.end_offset = end_offset
        self.needs_replicas = needs_replicas
        self.is_flushing = False
        self.outcome: ErrorCode | None = None

    def note_outcome(self) -> None:
        if self.outcome is None and self.needs_replicas:
            self.outcome = self.partition.outcome(self.end_offset, self.leader_epoch)

    def flushed(self, outcome: ErrorCode) -> None:
        """Its own flush has ended, which is all that acks=1 waits for."""
        self.is_flushing = False
        if not self.outcome and (outcome or not self.needs_replicas):
            self.outcome = outcome

    @property
    def is_decided(self) -> bool:
        return self.outcome is not None and not self.is_flushing


class OutcomeWait:
    """Completes `pending` with `respond()` once all changes are decided, or at the deadline.

    Those without an outcome have REQUEST_TIMED_OUT then.
    """

    __slots__ = ("_changes", "_respond", "pending")

    def __init__(self, changes: Sequence[Change], respond: Callable[[], Any]) -> None:
        self._changes = changes
        self._respond = respond
        self.pending = PendingResponse()

    def start(self, timeout_ms: int) -> None:
        """Begin to wait. Call `check` too if an earlier turn of the loop made some of the changes."""
        check = self.check
        for change in self._changes:
            self.pending.watch(change.partition.growth, check)
        self.pending.timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._on_deadline)

    def check(self) -> bool:
        """Whether the wait is over."""
        pending = self.pending
        if not pending.is_completed:
            is_decided = True
            for change in self._changes:
                change.note_outcome()
                is_decided = is_decided and change.is_decided
            if is_decided:
                pending.complete(self._respond())
        return pending.is_completed

    def _on_deadline(self) -> None:
        for change in self._changes:
            change.note_outcome()
            if change.outcome is None:
                change.outcome = ErrorCode.REQUEST_TIMED_OUT
        self.pending.complete(self._respond())
