"""Flushes the logs of a node, on request and when it is due.

The rules: a failed fsync is never retried, and the directory of a new log is synced, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ottla.log import checkpoints
from ottla.log.directories.checkpoint_writer import CheckpointWriter
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import HostedLogs
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.properties import PARTITION_METADATA
from ottla.log.flush import Flush, NotOpened, sync_directory, sync_file
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.ports import Clock, Disk
from ottla.wire.errors import KafkaStorageError

logger = logging.getLogger("ottla.log.directories.log_directories")

MANY_SEGMENTS = 32
_ROOM_BYTES = 1024 * 1024
"""A disk that was full counts as full until it has this much free space."""


class LogFlusher:
    """See the module."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        hosted: HostedLogs,
        checkpoint_writer: CheckpointWriter,
        errors: DiskErrors,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._hosted = hosted
        self._checkpoint_writer = checkpoint_writer
        self._errors = errors

    async def flush(self, log: Log, offset: int | None = None) -> None:
        """Bring everything below `offset` (the end) to stable storage; KafkaStorageError if that fails."""
        try:
            flush = log.prepare_flush(offset)
        except OSError as error:
            raise self._errors.storage_error(log, error) from error
        try:
            while log.directory in self._hosted.unsynced:
                await self._sync_new(log.directory)
            if flush is not None:
                await self._run(flush)
        except NotOpened as error:
            if flush is not None:
                log.postpone_flush(flush)
            raise self._errors.storage_error(log, error) from error
        except OSError as error:
            # What was not written may be lost from memory too: a retry that succeeds would prove nothing.
            log.fail(error)
            raise self._errors.storage_error(log, error) from error
        if flush is not None:
            log.complete_flush(flush)

    async def flush_side_by_side(self, logs: list[Log]) -> None:
        """Flush those that have many files to sync. A log whose flush fails is not closed cleanly."""
        for log in logs:
            if log.unflushed_segments < MANY_SEGMENTS or log.truncations_pending or log.failure is not None:
                continue
            flush: Flush | None = None
            try:
                flush = log.prepare_flush()
                if flush is not None:
                    await self._run(flush)
                    log.complete_flush(flush)
            except NotOpened:
                if flush is not None:
                    log.postpone_flush(flush)
            except OSError as error:
                log.fail(error)

    async def _run(self, flush: Flush) -> None:
        shares = flush.shares()
        if len(shares) == 1:
            await outlast(self._disk, flush.run)
            return
        syncs = (outlast(self._disk, share) for share in shares)
        failures = [one for one in await asyncio.gather(*syncs, return_exceptions=True) if one is not None]
        if failures:  # one that failed is final, though others were not even tried
            raise min(failures, key=lambda failure: isinstance(failure, NotOpened))
        await outlast(self._disk, flush.sync_names)

    async def secure(self, log: Log, offset: int) -> None:
        """Bring everything below `offset` to stable storage, and write the recovery point.

        A cleaning waits for this. A power loss must not destroy the records that supersede those it drops,
        and its gaps must be below the recovery point: recovery treats a gap above it as a loss.
        """
        if log.scan_offset < offset:
            await self.flush(log, offset)
        directory = self._hosted.directory_of(log)
        await self._checkpoint_writer.write(directory, checkpoints.RECOVERY_POINTS)
        if not directory.online:
            raise KafkaStorageError(f"{directory.path} is offline.")
        # The write may have failed, or another running flush holds the recovery point back.
        on_disk = directory.files[checkpoints.RECOVERY_POINTS].known.get((log.topic, log.partition), 0)
        if on_disk < offset:
            raise KafkaStorageError(
                f"The recovery point of {log.name} on disk is {on_disk}, below offset {offset}."
            )

    async def _sync_new(self, path: str) -> None:
        """Sync a new log, so that it survives a power loss."""
        try:
            await outlast(self._disk, sync_created, self._disk, [path])
        except FileNotFoundError:
            if path in self._hosted.unsynced:
                raise
            return  # it was renamed in the meantime
        self._hosted.unsynced.discard(path)

    async def flush_due(self) -> None:
        """Flush logs that are due by `flush.ms`, and rolled segments. Check whether full disks have room."""
        now_ms = self._clock.now_ms()
        for log in self._hosted.everything():
            try:
                if log.failure is not None:
                    continue
                if log.is_timed_flush_due(now_ms):
                    await self.flush(log)
                elif log.is_background_flush_due:
                    await self.flush(log, log.active_segment.base_offset)
            except Exception as error:  # noqa: BLE001 - it affects this log alone
                self._errors.contain("flush", log, error)
        for directory in self._hosted.directories:
            if directory.full and directory.online:
                self._look_for_room(directory)

    def _look_for_room(self, directory: LogDirectory) -> None:
        try:
            _, usable = self._disk.space(directory.path)
        except OSError as error:
            self._errors.note_failure(directory, error)
            return
        if usable >= _ROOM_BYTES:
            directory.full = False
            logger.info("The disk of %s has free space again: %d bytes", directory.path, usable)

    async def sync_new_logs(self) -> None:
        """Sync all new logs, so that they survive a power loss."""
        for path in sorted(self._hosted.unsynced):
            if path not in self._hosted.unsynced:
                continue  # synced or deleted since
            try:
                await self._sync_new(path)
            except NotOpened as error:
                self._errors.note_failure(self._hosted.by_path(path.rpartition("/")[0]), error)
            except OSError as error:
                self._hosted.unsynced.discard(path)
                if not any(log.directory == path for log in self._hosted.everything()):
                    continue  # the log was removed: the error is no fault of the disk
                self._errors.take_offline(self._hosted.by_path(path.rpartition("/")[0]), error)


def sync_created(disk: Disk, paths: Iterable[str]) -> None:
    """Block until new directories of logs and their topic ids are on stable storage."""
    chosen = sorted(paths)
    for path in chosen:
        sync_file(disk, f"{path}/{PARTITION_METADATA}")
        sync_directory(disk, path)
    for parent in sorted({path.rpartition("/")[0] for path in chosen}):
        sync_directory(disk, parent)
