"""What a follower does with its log: it appends what the leader sent, and truncates what the leader lacks.

Records of a leader are appended only while that leader is followed. A broker does not flush its log: it
fetches again what a crash takes. A controller flushes before its next fetch says that it has the records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ottla.ports import Buffer
from ottla.raft.driver.delivery import Delivery
from ottla.raft.driver.log_storage import LogStorage
from ottla.raft.driver.replica_timer import ReplicaTimer
from ottla.raft.effects import Effect
from ottla.raft.events import HighWatermarkReceived, LogAppended, LogTruncated
from ottla.raft.metadata_log import EpochEnd, batches_of, voter_events_of
from ottla.raft.replica import Replica
from ottla.records.batch import whole_batches_end

logger = logging.getLogger("ottla.raft.driver")

_T = TypeVar("_T")


class DivergedBelowCommit(RuntimeError):
    """The leader's log lacks records that were committed."""

    def __init__(self, offset: int, high_watermark: int) -> None:
        super().__init__(
            f"The controller's log diverges from offset {offset} on, although everything below "
            f"{high_watermark} was committed: its data was lost or replaced. Restore the controller's "
            "metadata directory, or reformat this node for the new cluster."
        )


class FollowerLog(Generic[_T]):
    def __init__(
        self,
        storage: LogStorage,
        replica: Replica,
        delivery: Delivery[_T],
        timer: ReplicaTimer,
        decode: Callable[[bytes], _T],
        *,
        act: Callable[[Iterable[Effect]], None],
        is_observer: bool,
    ) -> None:
        self._storage = storage
        self._replica = replica
        self._delivery = delivery
        self._timer = timer
        self._decode = decode
        self._act = act
        self._is_observer = is_observer

    async def append(self, records: Buffer, high_watermark: int) -> None:
        """Append what the leader sent, and deliver what is committed now.

        The caller checks `Replica.is_following` first, and awaits nothing in between.
        """
        storage, replica = self._storage, self._replica
        end = whole_batches_end(records)
        if end:
            run = memoryview(records)[:end]
            batches = batches_of(run, self._decode)
            storage.write(lambda: storage.log.append_as_follower(run))
            for event in voter_events_of(run):
                replica.step(event)
            self._delivery.add(batches)
            position = storage.journal.end
            replica.step(LogAppended(position.end_offset, position.epoch))
        await self.flush()
        if high_watermark >= 0:
            self._act(replica.step(HighWatermarkReceived(high_watermark, storage.log.log_end_offset)))

    async def flush(self) -> None:
        """Flush what a controller has appended and not flushed yet."""
        storage = self._storage
        if self._is_observer or self._replica.end_offset >= storage.log.log_end_offset:
            return
        with self._timer.follower_work():
            async with storage.turn:
                if storage.journal.is_open:
                    await storage.flush_and_report()

    async def truncate(self, diverging: EpochEnd, leader_id: int, epoch: int) -> None:
        """Truncate the log to where it diverges from the leader's, if that leader is still followed."""
        journal, replica = self._storage.journal, self._replica
        async with self._storage.turn:
            if not replica.is_following(leader_id, epoch):
                return
            offset = min(journal.common_end(diverging), journal.log.log_end_offset)
            committed = max(replica.high_watermark, journal.log.high_watermark)
            if offset < committed:
                raise DivergedBelowCommit(offset, committed)
            try:
                journal.log.truncate_to(offset)
            finally:
                # Even if it failed halfway: the log already ends there, and the next write completes it.
                if journal.log.log_end_offset <= offset:
                    replica.step(LogTruncated(offset, journal.end.epoch))
                    self._delivery.truncate_to(offset)
            logger.info("Truncated the metadata log to offset %d, where the leader's log diverges.", offset)
