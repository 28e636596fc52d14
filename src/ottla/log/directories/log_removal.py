"""Removes logs from a node: renames them at once, so that no start serves them, and deletes them later."""

from __future__ import annotations

import logging

from ottla.log.checkpoints import Partition
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import DamagedLog, HostedLogs
from ottla.log.directories.names import Kind
from ottla.log.directories.pending_deletions import PendingDeletions
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.ports import Clock, Disk

logger = logging.getLogger("ottla.log.directories.log_directories")


class LogRemoval:
    """See the module."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        hosted: HostedLogs,
        cleaner: Cleaner,
        deletions: PendingDeletions,
        errors: DiskErrors,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._hosted = hosted
        self._cleaner = cleaner
        self._deletions = deletions
        self._errors = errors

    def mark(self, log: Log, kind: Kind = Kind.DELETED) -> None:
        """Rename a log that is no longer served; its files are deleted later, since readers may use them."""
        self._cleaner.abort((log.topic, log.partition))
        self._hosted.unsynced.discard(log.directory)
        path = self._hosted.marked_path(log, kind)
        try:
            log.rename_directory(path)
        except OSError as error:
            self._errors.note_failure(self._hosted.directory_of(log), error)
            log.close(clean=False)
            return
        if kind is Kind.DELETED:
            logger.info("Log for partition %s is renamed to %s and is scheduled for deletion", log.name, path)
            self._deletions.add(path, log)
        else:
            logger.warning("Log for partition %s is stray and renamed to %s", log.name, path)
            log.close(clean=False)

    def mark_damaged(self, partition: Partition, damaged: DamagedLog) -> str:
        """Rename a log that was never opened; returns its log directory."""
        parent = damaged.directory.rpartition("/")[0]
        path = f"{parent}/{self._hosted.marked_name(partition, Kind.DELETED)}"
        try:
            self._disk.rename(damaged.directory, path)
        except OSError as error:
            self._errors.note_failure(self._hosted.by_path(parent), error)
        else:
            self._deletions.add(path)
        return parent

    async def delete_due(self) -> float:
        """Remove files and `-delete` directories whose delay has passed; seconds until the next one."""
        now_ms = self._clock.now_ms()
        for deletion in self._deletions.take_due(now_ms):
            try:
                if deletion.log is not None:
                    deletion.log.close(clean=False)
                await outlast(self._disk, self._disk.remove_tree, deletion.path)
            except OSError as error:
                self._errors.note_failure(self._hosted.by_path(deletion.path.rpartition("/")[0]), error)
            except Exception as error:  # noqa: BLE001 - it affects this log alone
                self._errors.failures.note("deletion", deletion.path, error)
            else:
                logger.info("Deleted %s", deletion.path)
        next_ms = self._deletions.next_due_ms()
        upcoming_ms = [] if next_ms is None else [next_ms]
        for log in self._hosted.everything():
            try:
                due_ms = log.delete_due(now_ms)
            except Exception as error:  # noqa: BLE001 - it affects this log alone
                self._errors.contain("deletion", log, error)
                continue
            if due_ms is not None:
                upcoming_ms.append(due_ms)
        return max(0, min(upcoming_ms, default=now_ms + self._deletions.delay_ms) - now_ms) / 1000
