"""What a disk error means for the logs of a node.

The rules. A failing disk takes its directory offline: its partitions respond with KAFKA_STORAGE_ERROR, the
others are not affected. A full disk only refuses writes, until there is room. Damaged bytes affect their log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.failures import Failures
from ottla.log import checkpoints
from ottla.log.checkpoints import Partition
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.directories.hosted_logs import DamagedLog, HostedLogs
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.names import Kind, name_of
from ottla.log.directories.pending_deletions import PendingDeletions
from ottla.log.log import Log
from ottla.log.segment import LogDamaged
from ottla.log.segments import SegmentsInconsistent
from ottla.ports import DISK_FULL, OUT_OF_RESOURCES
from ottla.wire.errors import KafkaError, KafkaStorageError

logger = logging.getLogger("ottla.log.directories.log_directories")


class DiskErrors:
    """See the module. `failures` counts unexpected exceptions."""

    def __init__(
        self,
        hosted: HostedLogs,
        cleaner: Cleaner,
        deletions: PendingDeletions,
        failures: Failures,
        on_offline: Callable[[LogDirectory, list[Partition]], None] | None,
    ) -> None:
        self._hosted = hosted
        self._cleaner = cleaner
        self._deletions = deletions
        self.failures = failures
        self._on_offline = on_offline

    def storage_error(self, log: Log, error: OSError) -> KafkaError:
        """Handle an error of `log`; the error to respond with."""
        partition = (log.topic, log.partition)
        if self._hosted.logs.get(partition) is not log and self._hosted.futures.get(partition) is not log:
            return KafkaStorageError(f"The log of {log.name} is no longer hosted here: {error}.")
        directory = self._hosted.directory_of(log)
        if isinstance(error, LogDamaged):
            logger.error("%s: %s", log.name, error)
        elif isinstance(error, SegmentsInconsistent):
            self._take_log_offline(log, error)
        elif log.failure is not None:
            self.take_offline(directory, error)
        else:
            self.note_failure(directory, error)
        if directory.online and error.errno in DISK_FULL:
            return KafkaStorageError(
                f"The disk of {directory.path} is full: {log.name} rejects appends until space is free."
            )
        return KafkaStorageError(f"Disk error in {log.directory}: {error}.")

    def contain(self, task: str, log: Log, error: Exception) -> None:
        """Handle what a periodic task raised for one log: it affects that log alone, or its disk."""
        if isinstance(error, OSError):
            logger.error("%s: %s", log.name, self.storage_error(log, error))
        elif isinstance(error, KafkaError):
            logger.error("%s: %s", log.name, error)
        else:
            self.failures.note(task, log.name, error)

    def note_failure(self, directory: LogDirectory, error: OSError) -> None:
        """A full disk or a lack of descriptors passes; any other error takes the directory offline."""
        if error.errno in DISK_FULL:
            if not directory.full:
                logger.error("The disk of %s is full: rejecting appends until space is free", directory.path)
            directory.full = True
        elif error.errno in OUT_OF_RESOURCES:
            logger.error("%s: %s (raise the limit of open files of this process)", directory.path, error)
        else:
            self.take_offline(directory, error)

    def take_offline(self, directory: LogDirectory, error: OSError) -> None:
        if not directory.online:
            return
        directory.fail(str(error))
        logger.error("Stopping serving logs in dir %s: %s", directory.path, error)
        lost = []
        for log in self._hosted.logs_in(directory):
            partition = (log.topic, log.partition)
            self._cleaner.abort(partition)
            if self._hosted.logs.get(partition) is log:
                del self._hosted.logs[partition]
                self._hosted.offline_partitions[partition] = f"its log directory {directory.path} is offline"
                lost.append(partition)
            else:
                del self._hosted.futures[partition]
                self._cleaner.resume(partition)
            log.fail(error)
            log.close(clean=False)
        prefix = f"{directory.path}/"
        self._deletions.forget_under(prefix)
        unsynced = self._hosted.unsynced
        unsynced -= {path for path in unsynced if path.startswith(prefix)}
        for partition in lost:
            self._rename_copy(partition)
        if self._on_offline is not None:
            self._on_offline(directory, lost)

    def _take_log_offline(self, log: Log, error: SegmentsInconsistent) -> None:
        """Stop serving one log until a restart loads it again. The others in its directory are not
        affected."""
        partition = (log.topic, log.partition)
        logger.error("Stopping serving %s: %s", log.name, error)
        self._cleaner.abort(partition)
        if self._hosted.logs.get(partition) is not log:
            del self._hosted.futures[partition]
            self._cleaner.resume(partition)
            log.close(clean=False)
            return
        del self._hosted.logs[partition]
        self._hosted.offline_partitions[partition] = str(error)
        offsets = {
            checkpoints.RECOVERY_POINTS: log.scan_offset,
            checkpoints.LOG_STARTS: log.log_start_offset,
            checkpoints.HIGH_WATERMARKS: log.high_watermark,
        }
        self._hosted.damaged[partition] = DamagedLog(log.directory, offsets)
        directory = self._hosted.directory_of(log)
        directory.has_damage = True
        log.close(clean=False)
        self._rename_copy(partition)
        if self._on_offline is not None:
            self._on_offline(directory, [partition])

    def _rename_copy(self, partition: Partition) -> None:
        """A log's directory failed at the end of a move. The copy may lack its last records, so it must not
        have the name of the log at the next start."""
        future = self._hosted.futures.get(partition)
        if future is None or not future.directory.endswith(f"/{name_of(partition)}"):
            return
        try:
            self._hosted.rename(future, self._hosted.marked_path(future, Kind.FUTURE))
        except OSError as error:
            self.note_failure(self._hosted.directory_of(future), error)
