"""Truncates logs of a node and brings the truncations to stable storage.

A power loss may bring back truncated records, before or among those written since, and with a checkpoint
above the end, recovery would report what is written next as lost. The rule: from its first change until
files, names and checkpoints are on stable storage a truncation is pending on its log, which accepts no
records and is not moved meanwhile. No cancellation ends it. The next truncation completes a failed one, or
the next periodic flush.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.detached import mark_retrieved
from ottla.log import checkpoints
from ottla.log.checkpoints import Partition
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.directories.checkpoint_writer import CheckpointWriter
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import HostedLogs
from ottla.log.flush import NotOpened, opening_error
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.ports import Disk
from ottla.wire.errors import KafkaStorageError

_NO_DESCRIPTORS_SECONDS = 0.5

Truncate = Callable[[Log], object]
"""Truncates a log; False: there was nothing to drop."""


class _Pending:
    """The truncations of a log that are not on stable storage yet."""

    __slots__ = ("changes", "has_other_start", "running")

    def __init__(self) -> None:
        self.changes = 0
        self.has_other_start = False
        self.running = 0  # tasks that bring them to stable storage


class Truncations:
    """The truncations of a node. `on_done` is called when a log accepts records again."""

    def __init__(
        self,
        disk: Disk,
        hosted: HostedLogs,
        cleaner: Cleaner,
        checkpoint_writer: CheckpointWriter,
        errors: DiskErrors,
        on_done: Callable[[Partition, Log], None] | None,
    ) -> None:
        self._disk = disk
        self._hosted = hosted
        self._cleaner = cleaner
        self._checkpoint_writer = checkpoint_writer
        self._errors = errors
        self._on_done = on_done
        self._pending: dict[Log, _Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def truncate(self, log: Log, truncate: Truncate) -> bool:
        """Truncate a log, and its copy if it is being moved; says whether there was anything to drop."""
        self._cleaner.abort((log.topic, log.partition))
        is_truncated = self._apply(log, truncate)
        copying = self._truncate_copy((log.topic, log.partition), log, truncate)
        finishing = self._begin(log) if log in self._pending else None
        if copying is not None:
            await asyncio.wait([copying])
        if finishing is not None:
            await asyncio.shield(finishing)
        return is_truncated

    async def truncate_copy(self, partition: Partition, log: Log, truncate: Truncate) -> None:
        """Truncate the copy of a log that is being moved. If that fails, the log is not affected."""
        copying = self._truncate_copy(partition, log, truncate)
        if copying is not None:
            await asyncio.wait([copying])

    def _truncate_copy(self, partition: Partition, log: Log, truncate: Truncate) -> asyncio.Task[None] | None:
        copy = self._hosted.futures.get(partition)
        if copy is None or copy is log:
            return None
        try:
            self._apply(copy, truncate)
        except Exception as error:  # noqa: BLE001 - it affects the copy alone
            self._errors.contain("truncation", copy, error)
            return None
        return self._begin(copy, is_asked_for=False) if copy in self._pending else None

    async def finish_due(self) -> None:
        """Retry what failed: there may be room, or a descriptor, now."""
        served = list(self._hosted.everything())
        for log in set(self._pending).difference(served):
            del self._pending[log]
        for log in served:
            pending = self._pending.get(log)
            try:
                is_running = pending is not None and bool(pending.running)
                if not log.truncations_pending or log.failure is not None or is_running:
                    continue
                self._apply(log, lambda one: one.finish_truncation())
            except Exception as error:  # noqa: BLE001 - it affects this log alone
                self._errors.contain("truncation", log, error)
                continue
            self._pending[log].has_other_start = True  # its earlier log start is not known
            await asyncio.wait([self._begin(log, is_asked_for=False)])

    async def close(self) -> None:
        """Wait until all are done."""
        self._is_closing = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.finish_due()

    # ---- one truncation

    def _apply(self, log: Log, truncate: Truncate) -> bool:
        """Truncate in one step of the loop. If that fails after its first change, it stays pending."""
        pending = self._pending.get(log)
        if pending is None:
            pending = self._pending[log] = _Pending()
            log.add_pending_truncation()
        start_offset, was_unmade = log.log_start_offset, log.is_truncation_unfinished
        is_truncated = False
        try:
            is_truncated = truncate(log) is not False
        except OSError as error:
            raise self._errors.storage_error(log, error) from error
        finally:
            if is_truncated or was_unmade or log.is_truncation_unfinished:
                pending.changes += 1
                pending.has_other_start |= log.log_start_offset != start_offset
            elif not pending.changes:
                self._end(log, pending)
        return is_truncated

    def _begin(self, log: Log, *, is_asked_for: bool = True) -> asyncio.Task[None]:
        """Start a task that brings a truncation to stable storage. If it is asked for, the task raises
        errors."""
        pending = self._pending[log]
        pending.running += 1
        task = asyncio.ensure_future(self._finish(log, pending, is_asked_for))
        mark_retrieved(task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, log: Log, pending: _Pending, is_asked_for: bool) -> None:
        changes = pending.changes
        try:
            await self._sync_all(log, pending, is_patient=is_asked_for)
        except Exception as error:
            if is_asked_for:
                raise
            self._errors.contain("truncation", log, error)
        else:
            # If it was truncated again in the meantime, another task completes that.
            if pending.changes == changes:
                self._end(log, pending)
        finally:
            pending.running -= 1

    async def _sync_all(self, log: Log, pending: _Pending, *, is_patient: bool) -> None:
        """Bring it to stable storage: the cleaner's checkpoint, files and names, the other checkpoints."""
        partition = (log.topic, log.partition)
        if self._hosted.futures.get(partition) is not log:
            try:
                await self._cleaner.truncated(partition, log)
            except OSError as error:
                raise self._errors.storage_error(log, error) from error
        await self._sync(log, is_patient=is_patient)
        directory = self._hosted.directory_of(log)
        names = [checkpoints.RECOVERY_POINTS]
        if pending.has_other_start:
            # Or a start after a crash would treat what is appended now as deleted, and drop it.
            names.append(checkpoints.LOG_STARTS)
        for name in names:
            if not await self._checkpoint_writer.write(directory, name):
                raise KafkaStorageError(f"Truncated {log.name}, but could not write {directory.path}/{name}.")

    async def _sync(self, log: Log, *, is_patient: bool) -> None:
        while True:
            try:
                return await outlast(self._disk, _sync, log)
            except NotOpened as error:
                if not is_patient or self._is_closing:
                    raise self._errors.storage_error(log, error) from error
                self._errors.note_failure(self._hosted.directory_of(log), error)
                await asyncio.sleep(_NO_DESCRIPTORS_SECONDS)
            except OSError as error:
                log.fail(error)
                raise self._errors.storage_error(log, error) from error

    def _end(self, log: Log, pending: _Pending) -> None:
        """Accept records again: it is on stable storage, or there was nothing to drop."""
        partition = (log.topic, log.partition)
        if self._pending.get(log) is not pending or log.is_truncation_unfinished:
            return
        del self._pending[log]
        log.remove_pending_truncation()
        if self._on_done is not None and self._hosted.logs.get(partition) is log:
            self._on_done(partition, log)


def _sync(log: Log) -> None:
    try:
        flush = log.prepare_truncation_flush()
    except OSError as error:
        raise opening_error(error) from error
    flush.run()
