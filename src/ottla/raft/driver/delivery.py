"""Delivers committed records to the listener, in the order of the log, and says when it leads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from ottla.raft.effects import HighWatermarkAdvanced
from ottla.raft.election_state import NOBODY
from ottla.raft.metadata_log import CommittedBatch, Journal
from ottla.raft.replica import NotLeader, Replica
from ottla.raft.roles import Leader
from ottla.raft.snapshots import SnapshotId

_T = TypeVar("_T")


class Listener(Protocol[_T]):
    """The state machine that replays what is committed."""

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[_T]) -> None:
        """Replace the state by a snapshot."""

    def commit(self, batches: Sequence[CommittedBatch[_T]]) -> None: ...

    def lead(self, epoch: int) -> None:
        """This node leads, and everything of earlier epochs was delivered."""

    def resign(self, epoch: int) -> None:
        """This node no longer leads the epoch of the last `lead`."""


class Delivery(Generic[_T]):
    def __init__(self, journal: Journal, replica: Replica, listener: Listener[_T]) -> None:
        self._journal = journal
        self._replica = replica
        self._listener = listener
        self._uncommitted: deque[CommittedBatch[_T]] = deque()
        self._commits: list[tuple[int, asyncio.Future[None]]] = []
        self._led_epoch = NOBODY  # in which the listener leads

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[_T]) -> None:
        """A snapshot replaces everything before."""
        self._uncommitted.clear()
        self._listener.load(snapshot_id, last_contained_ms, records)

    def add(self, batches: Iterable[CommittedBatch[_T]]) -> None:
        """These batches were appended to the log; deliver them once they are committed."""
        self._uncommitted.extend(batches)

    def truncate_to(self, end_offset: int) -> None:
        while self._uncommitted and self._uncommitted[-1].last_offset >= end_offset:
            self._uncommitted.pop()

    def advance(self, effect: HighWatermarkAdvanced) -> None:
        """Deliver what is committed, complete its waiters, and lead once earlier epochs are committed."""
        high_watermark = effect.offset
        self._journal.log.advance_high_watermark(high_watermark)
        batches = []
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            batches.append(self._uncommitted.popleft())
        if batches:
            self._listener.commit(batches)
        for offset, commit in [one for one in self._commits if one[0] < high_watermark]:
            self._commits.remove((offset, commit))
            if not commit.done():
                commit.set_result(None)
        role = self._replica.role
        if isinstance(role, Leader) and role.epoch != self._led_epoch and high_watermark > role.start_offset:
            self._led_epoch = role.epoch
            self._listener.lead(role.epoch)

    async def committed(self, offset: int) -> None:
        """Wait until `offset` is committed; NotLeader if this node loses the leadership before."""
        if offset < self._replica.high_watermark:
            return
        commit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._commits.append((offset, commit))
        await commit

    def lose_leadership(self, epoch: int) -> None:
        for _, commit in self._commits:
            if not commit.done():
                commit.set_exception(NotLeader())
        self._commits.clear()
        if self._led_epoch == epoch:
            self._led_epoch = NOBODY
            self._listener.resign(epoch)
