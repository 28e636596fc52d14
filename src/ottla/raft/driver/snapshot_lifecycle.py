"""Writes snapshots of what is committed, adopts those of the leader, and deletes old ones with their log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ottla.ports import Clock, Disk
from ottla.raft import snapshots
from ottla.raft.driver.config import DriverConfig
from ottla.raft.driver.delivery import Delivery
from ottla.raft.driver.log_storage import LogStorage
from ottla.raft.effects import Effect
from ottla.raft.events import HighWatermarkReceived, LogReplaced
from ottla.raft.replica import Replica
from ottla.raft.retention import new_start
from ottla.raft.snapshots import SnapshotId
from ottla.raft.store import Download

logger = logging.getLogger("ottla.raft.driver")

_ROLL_BYTES = 4 * 1024 * 1024
_T = TypeVar("_T")


class SnapshotLifecycle(Generic[_T]):
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: DriverConfig,
        storage: LogStorage,
        replica: Replica,
        delivery: Delivery[_T],
        decode: Callable[[bytes], _T],
        act: Callable[[Iterable[Effect]], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._config = config
        self._storage = storage
        self._journal = storage.journal
        self._store = storage.journal.store
        self._replica = replica
        self._delivery = delivery
        self._decode = decode
        self._act = act

    async def load(self) -> None:
        """Deliver the newest snapshot; the records after it follow once they are known as committed."""
        snapshot_id = self._store.latest
        snapshot, batches = await self._disk.offload(self._journal.read_all, self._decode)
        if snapshot_id is not None and snapshot is not None:
            values = [self._decode(value) for value in snapshot.values]
            self._delivery.load(snapshot_id, snapshot.last_contained_ms or 0, values)
        self._delivery.add(batches)

    async def write(self, snapshot_id: SnapshotId, values: Iterable[bytes], last_contained_ms: int) -> None:
        """Write a snapshot of what is committed before its offset. A thread reads `values`."""
        latest, replica = self._store.latest, self._replica
        if latest is not None and snapshot_id.offset <= latest.offset:
            return
        log = self._journal.log
        if snapshot_id.offset > log.high_watermark:
            raise ValueError(f"{snapshot_id} is ahead of the high watermark ({log.high_watermark}).")
        async with self._storage.turn:
            # The next start takes what a snapshot covers for flushed; the log of a broker may not be.
            if not self._journal.is_open:
                return
            if log.recovery_point < snapshot_id.offset:
                await self._storage.flush()
        batches = snapshots.build(
            values,
            epoch=snapshot_id.epoch,
            now_ms=self._clock.now_ms(),
            last_contained_ms=last_contained_ms,
            kraft_version=replica.kraft_version.at(snapshot_id.offset - 1),
            voters=replica.voters.at(snapshot_id.offset - 1),
        )
        kept = await self._disk.offload(self._store.write_snapshot, snapshot_id, batches, last_contained_ms)
        self._store.add(kept)
        if self._journal.is_open and log.active_segment.size_bytes >= _ROLL_BYTES:
            log.roll()  # so that a start after a crash scans little, and old segments can be deleted
        logger.info("Wrote the snapshot %s of %d bytes.", snapshot_id.file_name, kept.size_bytes)

    async def adopt(self, download: Download, leader_id: int, epoch: int) -> None:
        """Replace the log by a newer snapshot of the leader, if that leader is still followed."""
        snapshot, kept = await self._disk.offload(self._store.finish_download, download)
        values = [self._decode(value) for value in snapshot.values]
        replica, offset = self._replica, kept.id.offset
        async with self._storage.turn:
            if not replica.is_following(leader_id, epoch) or offset <= replica.high_watermark:
                return
            self._store.add(kept)
            try:
                self._storage.write(self._journal.restart_at_snapshot)
            except OSError as error:
                if self._storage.log.is_truncation_unfinished:
                    # It already ends at the snapshot, and nothing fetches what is before. A start repairs it.
                    self._storage.log.fail(error)
                self._store.withdraw(kept)  # so that the follower fetches it again
                raise
            replica.step(LogReplaced(offset, kept.id.epoch))
            for event in snapshot.voter_events(offset - 1):
                replica.step(event)
            self._delivery.load(kept.id, snapshot.last_contained_ms or 0, values)
            self._act(replica.step(HighWatermarkReceived(offset, offset)))

    async def clean(self) -> None:
        """Delete what `metadata.max.retention.*` no longer keeps."""
        now_ms, log, replica = self._clock.now_ms(), self._journal.log, self._replica
        await self._disk.offload(self._storage.space.reserve.fill)
        await self._disk.offload(self._store.remove_retired)
        log.delete_due(now_ms)
        start = new_start(
            self._store.kept,
            log.size_bytes,
            now_ms,
            retention_bytes=self._config.retention_bytes,
            retention_ms=self._config.retention_ms,
        )
        if start is None or not self._journal.is_open:
            return
        log.increase_log_start_offset(start.offset, "a snapshot covers the records before it")
        log.delete_old_segments(now_ms)
        replica.voters.forget_before(start.offset - 1)
        replica.kraft_version.forget_before(start.offset - 1)
        await self._disk.offload(self._store.retire_before, start)
