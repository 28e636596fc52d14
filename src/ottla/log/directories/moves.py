"""Moves replicas between the log directories of a node (AlterReplicaLogDirs).

A copy grows in a `-future` directory until it has all records of the log. Then it is flushed and renamed to
the log's name, and that name is synced. Finally, in one step of the event loop, it replaces the log, and the
old one is renamed to `-delete`. The rules: in that step both end at the same offset, and the copy is on
stable storage as far as the log was, including its name. The two directories may be on different file
systems, whose writes have no common order, so a power loss at any moment leaves at least one log under the
partition's name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.log import checkpoints
from ottla.log.checkpoints import Partition
from ottla.log.compaction.cleaner import Cleaner, directory_of
from ottla.log.directories.checkpoint_writer import CheckpointWriter
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import HostedLogs
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.log_factory import LogFactory
from ottla.log.directories.log_flusher import LogFlusher
from ottla.log.directories.log_removal import LogRemoval
from ottla.log.directories.names import Kind, name_of
from ottla.log.directories.truncations import Truncations
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.log.segment import LogDamaged
from ottla.ports import Clock, Disk
from ottla.records.batch import read_header
from ottla.wire import uuid
from ottla.wire.errors import (
    InvalidReplicaAssignment,
    KafkaStorageError,
    LogDirNotFound,
    ReplicaNotAvailable,
)

logger = logging.getLogger("ottla.log.directories.moves")

_SLICE_BYTES = 1024 * 1024
_SLICE_BYTES_MIN = 4096
_SLICES_PER_SECOND = 10
_LATE_SECONDS_MAX = 1.0
_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MIN = 0.001


class _SourceError(Exception):
    """The source of a move could not be read."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Moves:
    """The moves of a node. `on_moved` gets the `Log` that replaces the one of a partition, and must replace
    it in its own tables at once."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        hosted: HostedLogs,
        *,
        cleaner: Cleaner,
        factory: LogFactory,
        flusher: LogFlusher,
        checkpoint_writer: CheckpointWriter,
        truncations: Truncations,
        removal: LogRemoval,
        errors: DiskErrors,
        bytes_per_second: float,
        on_moved: Callable[[Partition, Log], None] | None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._hosted = hosted
        self._cleaner = cleaner
        self._factory = factory
        self._flusher = flusher
        self._checkpoint_writer = checkpoint_writer
        self._truncations = truncations
        self._removal = removal
        self._errors = errors
        self._on_moved = on_moved
        self._limit = bytes_per_second
        self._free_at = clock.monotonic()  # when the rate limit allows the next slice
        self._is_idle = True  # nothing is being copied: the rate limit has nothing to catch up

    def set_limit(self, bytes_per_second: float) -> None:
        """Set `replica.alter.log.dirs.io.max.bytes.per.second`, also for running moves."""
        if bytes_per_second != self._limit:
            self._limit = bytes_per_second
            self._free_at = self._clock.monotonic()

    def begin(self, partition: Partition, path: str) -> None:
        """Start a move, change its destination, or cancel it if the replica is in that directory."""
        directory = self._destination(path)
        log = self._hosted.get(partition)
        future = self._hosted.futures.get(partition)
        if log is not None and future is not None and self._hosted.directory_of(future) is not directory:
            self._removal.mark(future)
            self.cancel(partition)
            future = None
        if log is None:
            self._hosted.preferred[partition] = path
            raise ReplicaNotAvailable(
                f"This node does not host {name_of(partition)}; if it is created here, it will be placed in "
                f"{path}."
            )
        if future is not None or self._hosted.directory_of(log) is directory:
            return
        offline = [other.path for other in self._hosted.directories if not other.online]
        if offline:
            raise KafkaStorageError(
                f"Cannot move {name_of(partition)} while {', '.join(offline)} is offline."
            )
        name = self._hosted.marked_name(partition, Kind.FUTURE)
        try:
            future = self._factory.create(directory, name, partition, log.topic_id or uuid.ZERO)
        except OSError as error:
            self._errors.note_failure(directory, error)
            raise KafkaStorageError(f"Could not create {path}/{name}: {error}.") from error
        self._is_idle = self._is_idle or not self._hosted.futures
        self._hosted.futures[partition] = future
        self._cleaner.pause(partition)
        logger.info("Moving %s from %s to %s", log.name, log.directory, future.directory)

    def _destination(self, path: str) -> LogDirectory:
        for directory in self._hosted.directories:
            if directory.path == path:
                if not directory.online:
                    raise KafkaStorageError(f"Log directory {path} is offline")
                if directory.cordoned:
                    raise InvalidReplicaAssignment(
                        f"Log directory {path} is cordoned: it accepts no new replicas."
                    )
                return directory
        raise LogDirNotFound(f"Log dir {path} is not found in the config.")

    def cancel(self, partition: Partition) -> Log | None:
        """Cancel a move; the copy, which the caller removes."""
        future: Log | None = self._hosted.futures.pop(partition, None)
        if future is not None:
            self._cleaner.resume(partition)
        return future

    async def align(self) -> None:
        """After a crash a copy may have more records than its log: truncate it to the log."""
        for partition in list(self._hosted.futures):
            log = self._hosted.logs.get(partition)
            if log is not None:
                await self._fit(partition, log)

    async def _fit(self, partition: Partition, log: Log) -> None:
        """Truncate the copy so that it ends no later than the log, and no earlier than the log starts."""
        future = self._hosted.futures.get(partition)
        if future is None:
            return  # its directory went offline when another copy in it was truncated
        end_offset, start_offset = log.log_end_offset, log.log_start_offset
        if future.log_start_offset > start_offset:
            # A crash destroyed the first segment of the copy, and left another.
            await self._truncations.truncate_copy(
                partition, log, lambda copy: copy.truncate_fully_and_start_at(start_offset)
            )
        elif future.log_end_offset > end_offset:
            await self._truncations.truncate_copy(partition, log, lambda copy: copy.truncate_to(end_offset))
        elif future.log_end_offset < start_offset:
            await self._truncations.truncate_copy(
                partition, log, lambda copy: copy.truncate_fully_and_start_at(start_offset)
            )

    async def advance(self) -> bool:
        """Copy a slice for every move, and complete those that caught up; whether to continue at once."""
        wait_seconds = self._free_at - self._clock.monotonic()
        if wait_seconds > 0 or self._limit <= 0:
            # In short steps: the limit may change.
            pause_seconds = max(min(wait_seconds, _PAUSE_SECONDS), _PAUSE_SECONDS_MIN)
            await asyncio.sleep(pause_seconds if self._limit > 0 else _PAUSE_SECONDS)
            return True
        is_busy = False
        for partition in list(self._hosted.futures):
            log, future = self._hosted.logs.get(partition), self._hosted.futures.get(partition)
            if log is None or future is None or log.failure is not None or future.failure is not None:
                continue
            if log.truncations_pending or future.truncations_pending:
                continue
            try:
                is_busy |= await self._advance(partition, log, future)
            except _SourceError as failed:
                self._errors.storage_error(log, failed.error)
                if isinstance(failed.error, LogDamaged):
                    self._call_off(partition, log, future, failed)
            except OSError as error:
                self._errors.storage_error(future, error)
            except KafkaStorageError as error:  # of a flush, which has handled it
                logger.error("Moving %s to %s failed, will retry: %s", log.name, future.directory, error)
            except Exception as error:  # noqa: BLE001 - it affects this move alone
                self._call_off(partition, log, future, error)
        return is_busy

    def _call_off(self, partition: Partition, log: Log, future: Log, cause: Exception) -> None:
        """Delete the copy, unless it has replaced the log or was deleted in the meantime."""
        if self._hosted.futures.get(partition) is not future or self._hosted.logs.get(partition) is future:
            self._errors.failures.note("move", log.name, cause)
            return
        logger.error("Cannot move %s to %s: %s", log.name, future.directory, cause)
        self.cancel(partition)
        self._removal.mark(future)

    async def _advance(self, partition: Partition, log: Log, future: Log) -> bool:
        copied = await self._copy_slice(partition, log, future)
        if copied:
            self._charge(copied)
            return True
        if not await self._prepare(partition, log, future):
            return False
        # From here on nothing is awaited. Few records were appended in the meantime: copy them now.
        while future.log_end_offset < log.log_end_offset:
            if not self._take(log, future, self._read(log, future.log_end_offset)):
                return False
        if future.recovery_point < log.recovery_point:
            future.flush()
        self._complete(partition, log, future)
        await self._checkpoint_writer.forget_removed((directory_of(future), directory_of(log)))
        return False

    async def _prepare(self, partition: Partition, log: Log, future: Log) -> bool:
        """Bring the copy to stable storage under its final name, and into the checkpoints; False: not now.

        Until the log is renamed both have the partition's name. A start that finds both keeps the longer one.
        """
        future.copy_epochs(log.epochs)
        await self._flusher.flush(future)
        if future.is_flushing or not self._is_current(partition, log, future):
            return False  # the other flush would not find its files after the rename
        directory = self._hosted.directory_of(future)
        final = f"{directory.path}/{name_of(partition)}"
        future.set_high_watermark(log.high_watermark)
        self._move_start(log, future)
        cleaned = self._cleaner.cleaned_offset(partition, log)
        await self._cleaner.set_cleaned(directory.path, {partition: cleaned})
        await self._checkpoint_writer.write(directory, checkpoints.RECOVERY_POINTS)
        await self._checkpoint_writer.write(directory, checkpoints.LOG_STARTS)
        if future.is_flushing or not self._is_current(partition, log, future):
            return False
        if future.directory != final:
            self._hosted.rename(future, final)
        await outlast(self._disk, self._disk.sync_directory, directory.path)
        return self._is_current(partition, log, future)

    def _move_start(self, log: Log, future: Log) -> None:
        offset = min(log.log_start_offset, future.high_watermark)
        if offset > future.log_start_offset:
            future.increase_log_start_offset(offset, "the log it was copied from starts there")

    def _is_current(self, partition: Partition, log: Log, future: Log) -> bool:
        is_same = self._hosted.logs.get(partition) is log and self._hosted.futures.get(partition) is future
        return is_same and not log.truncations_pending and not future.truncations_pending

    async def _copy_slice(self, partition: Partition, log: Log, future: Log) -> int:
        """Copy the next bytes, read off the loop; how many. 0: there are none for now."""
        await self._fit(partition, log)
        if not self._is_current(partition, log, future):
            return 0
        start = future.log_end_offset
        size_max = int(max(min(_SLICE_BYTES, self._limit / _SLICES_PER_SECOND), _SLICE_BYTES_MIN))
        try:
            found = log.locate(start, size_max, limit_offset=log.log_end_offset)
            if not found.length:
                return 0
            found.file.hold()
            try:
                data = await outlast(self._disk, found.file.pread, found.length, found.position)
            finally:
                found.file.release()
        except OSError as error:
            raise _SourceError(error) from error
        if future.log_end_offset != start or not self._is_current(partition, log, future):
            return 0
        return self._take(log, future, data)

    def _read(self, log: Log, offset: int) -> bytes:
        try:
            return log.read(offset, _SLICE_BYTES, limit_offset=log.log_end_offset).records
        except OSError as error:
            raise _SourceError(error) from error

    def _take(self, log: Log, future: Log, data: bytes) -> int:
        """Append batches of the log to its copy; how many bytes."""
        if not data:
            return 0
        first = read_header(data)
        if first.magic >= 2 and first.base_offset < future.log_end_offset and not future.size_bytes:
            # The log start is inside a batch, which is copied completely.
            future.truncate_fully_and_start_at(first.base_offset, log.log_start_offset)
        appended = future.append_as_follower(memoryview(bytearray(data)))
        future.set_high_watermark(log.high_watermark)
        return appended.size_bytes

    def _charge(self, count: int) -> None:
        """Account for copied bytes: the next ones have to wait. A loop that was late may catch up."""
        earliest = self._clock.monotonic() - (0.0 if self._is_idle else _LATE_SECONDS_MAX)
        self._is_idle = False
        self._free_at = max(self._free_at, earliest) + count / self._limit

    def _complete(self, partition: Partition, log: Log, future: Log) -> None:
        """Replace the log by the copy, in one step of the loop.

        An error before the replacement cancels the move. An error after it must not: then the copy is the
        log. `on_moved` is called in any case, and the old log refuses appends.
        """
        future.copy_epochs(log.epochs)
        future.set_high_watermark(log.high_watermark)
        self._move_start(log, future)
        cleaned = self._cleaner.cleaned_offset(partition, log)
        self._hosted.logs[partition] = future
        log.stop_appends()
        try:
            self.cancel(partition)
            if cleaned is not None:
                self._cleaner.cleaned.setdefault(self._hosted.directory_of(future).path, {})[partition] = (
                    cleaned
                )
                self._cleaner.cleaned[self._hosted.directory_of(log).path].pop(partition, None)
            logger.info("Moved %s to %s", log.name, future.directory)
            self._removal.mark(log)
        finally:
            if self._on_moved is not None:
                self._on_moved(partition, future)
