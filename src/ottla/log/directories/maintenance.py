"""What is done for all logs of a node from time to time: flushes, checkpoints, retention, removal of files.

The node decides when; nothing here has a timer. None of the duties raises: what fails is logged, and a disk
that fails takes its directory offline. The rules: a failed fsync is never tried again, and a checkpoint is
written after what it speaks of, so it may be old but not wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ottla.log.directories import checkpoints
from ottla.log.directories.checkpoints import CheckpointFile, Partition
from ottla.log.directories.hosted_logs import Hosting
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.properties import PARTITION_METADATA
from ottla.log.flush import NotOpened, sync_directory, sync_file
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.ports import Disk
from ottla.wire.errors import KafkaStorageError

logger = logging.getLogger("ottla.log.directories.log_directories")

_ROOM_BYTES = 1024 * 1024
"""A disk that was full and has this much free again is no longer called full."""


class Duties(Hosting):
    """The part of `LogDirectories` that keeps logs in order; see the module."""

    # ---- flushing

    async def flush(self, log: Log, offset: int | None = None) -> None:
        """Bring everything below `offset` (the end) to stable storage; KafkaStorageError if that fails."""
        try:
            flush = log.prepare_flush(offset)
        except OSError as error:
            raise self.storage_error(log, error) from error
        try:
            while log.directory in self.unsynced:
                await self._sync_new(log.directory)
            if flush is not None:
                await outlast(self.disk, flush.run)
        except NotOpened as error:
            if flush is not None:
                log.postpone_flush(flush)
            raise self.storage_error(log, error) from error
        except OSError as error:
            # What did not reach the disk now may be gone from memory too: a second try would prove nothing.
            log.fail(error)
            raise self.storage_error(log, error) from error
        if flush is not None:
            log.complete_flush(flush)

    async def secure(self, log: Log, offset: int) -> None:
        if log.scan_offset < offset:
            await self.flush(log, offset)
        directory = self.directory_of(log)
        await self.write_checkpoint(directory, checkpoints.RECOVERY_POINTS)
        if not directory.online:
            raise KafkaStorageError(f"{directory.path} is offline.")
        # The write may have failed, or another flush is still under way and holds the recovery point back.
        on_disk = directory.files[checkpoints.RECOVERY_POINTS].known.get((log.topic, log.partition), 0)
        if on_disk < offset:
            raise KafkaStorageError(
                f"The recovery point of {log.name} on disk is {on_disk}, below offset {offset}."
            )

    async def _sync_new(self, path: str) -> None:
        """Make sure that a new log is still there after a power loss."""
        try:
            await outlast(self.disk, sync_created, self.disk, [path])
        except FileNotFoundError:
            if path in self.unsynced:
                raise
            return  # it has another name by now
        self.unsynced.discard(path)

    async def flush_due(self) -> None:
        """Flush what `flush.ms` asks for, and segments that were rolled. See whether full disks have room."""
        now_ms = self.clock.now_ms()
        for log in self.everything():
            try:
                if log.failure is not None:
                    continue
                if log.is_timed_flush_due(now_ms):
                    await self.flush(log)
                elif log.is_background_flush_due:
                    await self.flush(log, log.active_segment.base_offset)
            except Exception as error:  # noqa: BLE001 - the other logs have their turn
                self.contain("flush", log, error)
        for directory in self.directories:
            if directory.full and directory.online:
                self._look_for_room(directory)

    def _look_for_room(self, directory: LogDirectory) -> None:
        try:
            _, usable = self.disk.space(directory.path)
        except OSError as error:
            self.note_failure(directory, error)
            return
        if usable >= _ROOM_BYTES:
            directory.full = False
            logger.info("The disk of %s has room again: %d bytes", directory.path, usable)

    # ---- checkpoints

    async def checkpoint_recovery_points(self) -> None:
        for path in sorted(self.unsynced):
            if path not in self.unsynced:
                continue  # synced or deleted since
            try:
                await self._sync_new(path)
            except NotOpened as error:
                self.note_failure(self.by_path(path.rpartition("/")[0]), error)
            except OSError as error:
                self.unsynced.discard(path)
                if not any(log.directory == path for log in self.everything()):
                    continue  # no log is there any more: that it is not found is no fault of the disk
                self.take_offline(self.by_path(path.rpartition("/")[0]), error)
        await self._write_everywhere(checkpoints.RECOVERY_POINTS)

    async def checkpoint_log_starts(self) -> None:
        await self._write_everywhere(checkpoints.LOG_STARTS)

    async def checkpoint_high_watermarks(self) -> None:
        await self._write_everywhere(checkpoints.HIGH_WATERMARKS)

    async def _write_everywhere(self, name: str) -> None:
        for directory in self.directories:
            await self.write_checkpoint(directory, name)

    async def write_checkpoint(self, directory: LogDirectory, name: str) -> bool:
        """Have one checkpoint of one directory on stable storage; False: it could not be written."""
        if not directory.online or not directory.is_loaded:
            return False
        file = directory.files.get(name)
        if file is None:
            file = directory.files[name] = CheckpointFile(self.disk, f"{directory.path}/{name}")
        try:
            await file.write(lambda: self._offsets(directory, name))
        except OSError as error:
            logger.error("Could not write %s/%s: %s", directory.path, name, error)
            self.note_failure(directory, error)
            return False
        return True

    def _offsets(self, directory: LogDirectory, name: str) -> dict[Partition, int]:
        offsets = {}
        if name == checkpoints.RECOVERY_POINTS and directory.is_contiguous:
            offsets[checkpoints.CONTIGUOUS] = 0
        for partition, damaged in self.damaged.items():
            if name in damaged.offsets and damaged.directory.startswith(f"{directory.path}/"):
                offsets[partition] = damaged.offsets[name]
        for log in self.logs_in(directory):
            partition = (log.topic, log.partition)
            try:
                offset = _offset_of(log, name)
            except Exception as error:  # noqa: BLE001 - what the checkpoint said before is old, not wrong
                self.contain(name, log, error)
                offset = directory.files[name].known.get(partition)
            if offset is not None:
                offsets[partition] = offset
        return offsets

    async def settle(self, paths: Iterable[str]) -> None:
        """After logs left directories: no checkpoint may speak of them when a namesake comes."""
        for path in paths:
            directory = self.by_path(path)
            await self.write_checkpoint(directory, checkpoints.RECOVERY_POINTS)
            await self.write_checkpoint(directory, checkpoints.LOG_STARTS)
            if directory.online:
                try:
                    await self.cleaner.set_cleaned(path, {})
                    await outlast(self.disk, self.disk.sync_directory, path)
                except OSError as error:
                    self.note_failure(directory, error)

    # ---- retention and removal

    async def retain(self) -> int:
        """Delete old segments of logs that are not compacted (the cleaner sees to the others); how many.

        Copies of moves stay whole: one that starts behind its log would have to be copied again.
        """
        deleted = 0
        for log in list(self.logs.values()):
            try:
                if log.failure is None and not (log.config.is_compacted and self.cleaner.config.enabled):
                    deleted += log.delete_old_segments(self.clock.now_ms())
            except Exception as error:  # noqa: BLE001 - the other logs have their turn
                self.contain("retention", log, error)
            await asyncio.sleep(0)
        return deleted

    async def delete_due(self) -> float:
        """Remove files and `-delete` directories whose delay is over; seconds until there is more to do."""
        now_ms = self.clock.now_ms()
        due = [doomed for doomed in self.doomed if doomed.due_ms <= now_ms]
        self.doomed = [doomed for doomed in self.doomed if doomed.due_ms > now_ms]
        for doomed in due:
            try:
                if doomed.log is not None:
                    doomed.log.close(clean=False)
                await outlast(self.disk, self.disk.remove_tree, doomed.path)
            except OSError as error:
                self.note_failure(self.by_path(doomed.path.rpartition("/")[0]), error)
            except Exception as error:  # noqa: BLE001 - the other logs have their turn
                self.failures.note("deletion", doomed.path, error)
            else:
                logger.info("Deleted %s", doomed.path)
        upcoming_ms = [doomed.due_ms for doomed in self.doomed]
        for log in self.everything():
            try:
                due_ms = log.delete_due(now_ms)
            except Exception as error:  # noqa: BLE001 - the other logs have their turn
                self.contain("deletion", log, error)
                continue
            if due_ms is not None:
                upcoming_ms.append(due_ms)
        return max(0, min(upcoming_ms, default=now_ms + self.config.delete_delay_ms) - now_ms) / 1000

    def expire_producers(self) -> None:
        now_ms = self.clock.now_ms()
        for log in self.everything():
            try:
                log.expire_producers(now_ms)
            except Exception as error:  # noqa: BLE001 - the other logs have their turn
                self.contain("expiry of producers", log, error)


def _offset_of(log: Log, name: str) -> int | None:
    """What a checkpoint says of a log; None if it has nothing to say."""
    if name == checkpoints.RECOVERY_POINTS:
        return log.scan_offset
    if name == checkpoints.HIGH_WATERMARKS:
        return log.high_watermark
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None


def sync_created(disk: Disk, paths: Iterable[str]) -> None:
    """Block until new directories of logs, their topic ids in them, are on stable storage."""
    chosen = sorted(paths)
    for path in chosen:
        sync_file(disk, f"{path}/{PARTITION_METADATA}")
        sync_directory(disk, path)
    for parent in sorted({path.rpartition("/")[0] for path in chosen}):
        sync_directory(disk, parent)
