"""The wait for the replicas of partitions, or for a flush, before a request is answered.

Produce (acks=all, or a flush), the markers of transactions and DeleteRecords wait here. Rule: a change of a
partition has one outcome, which is noted while this node still knows it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

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

    Those without an outcome have REQUEST_TIMED_OUT then. It looks only at the partition that changed, and
    there at the changes from the first undecided one on: they are in the order of their offsets.
    """

    __slots__ = ("_changes", "_respond", "_undecided", "pending")

    def __init__(self, changes: Sequence[Change], respond: Callable[[], object]) -> None:
        self._changes = changes
        self._respond = respond
        self._undecided: dict[Partition, deque[Change]] = {}
        for change in changes:
            self._undecided.setdefault(change.partition, deque()).append(change)
        self.pending = PendingResponse()

    def start(self, timeout_ms: int) -> None:
        """Begin to wait. Call `check_all` too if an earlier turn of the loop made some of the changes."""
        for partition in self._undecided:
            self.pending.watch(partition.growth, partial(self.check, partition))
        self.pending.timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._on_deadline)

    def check(self, partition: Partition) -> bool:
        """Look at the changes of one partition. Whether the wait is over."""
        if not self.pending.is_completed:
            self._look(partition)
            self._complete_if_decided()
        return self.pending.is_completed

    def check_all(self) -> None:
        """Look at all changes."""
        if not self.pending.is_completed:
            for partition in list(self._undecided):
                self._look(partition)
            self._complete_if_decided()

    def _look(self, partition: Partition) -> None:
        undecided = self._undecided.get(partition)
        if undecided is None:
            return
        for change in undecided:
            change.note_outcome()
            if change.outcome is None:
                break  # nor is the outcome of those behind it known
        while undecided and undecided[0].is_decided:
            undecided.popleft()
        if not undecided:
            del self._undecided[partition]

    def _complete_if_decided(self) -> None:
        if not self._undecided:
            self.pending.complete(self._respond())

    def _on_deadline(self) -> None:
        for change in self._changes:
            change.note_outcome()
            if change.outcome is None:
                change.outcome = ErrorCode.REQUEST_TIMED_OUT
        self.pending.complete(self._respond())
