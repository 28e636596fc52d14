"""The `log.dirs` of a node: all its logs, from the start to the last flush.

Logs are loaded at the start, created in the directory that has the fewest, and leave through `-delete`
directories. The node calls `LogDirectories`, whose parts do the work: `hosted_logs.py` has the tables,
`disk_errors.py` decides what a disk error means, and there is a part each for the start, creation, flushes,
checkpoints, retention, removal, moves between directories and truncations. Nothing here has a timer: the node
decides when each periodic task runs. No task raises: a failure is logged, and a failing disk takes its
directory offline.

The rule: the clean-shutdown marker of a directory is removed before anything in it is loaded, and written
again only when everything in it was flushed and closed without an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ottla.failures import Failures
from ottla.log import checkpoints
from ottla.log.checkpoints import Partition
from ottla.log.compaction.cleaner import Cleaner, CleanerConfig, directory_of
from ottla.log.config import LogConfig
from ottla.log.directories.checkpoint_writer import CheckpointWriter
from ottla.log.directories.description import DirectoryReport, describe
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import HostedLogs
from ottla.log.directories.log_creation import LogCreation
from ottla.log.directories.log_directory import LogDirectory, open_directories
from ottla.log.directories.log_factory import LogFactory
from ottla.log.directories.log_flusher import LogFlusher, sync_created
from ottla.log.directories.log_removal import LogRemoval
from ottla.log.directories.moves import Moves
from ottla.log.directories.names import Kind, name_of
from ottla.log.directories.pending_deletions import PendingDeletions
from ottla.log.directories.properties import (
    CLEAN_SHUTDOWN,
    NO_BROKER_EPOCH,
    DirectoryError,
    format_clean_shutdown,
)
from ottla.log.directories.retention import Retention
from ottla.log.directories.startup import Startup, StrayCheck
from ottla.log.directories.truncations import Truncations
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.log.open_files import OpenFiles
from ottla.ports import Clock, Disk, Random
from ottla.wire.errors import KafkaError, KafkaStorageError

logger = logging.getLogger("ottla.log.directories.log_directories")

_OPEN_FILES_MIN = 16
_CHECKPOINTS = (checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS, checkpoints.HIGH_WATERMARKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoriesConfig:
    paths: tuple[str, ...]
    """`log.dirs`, absolute"""
    metadata_path: str = ""
    """`metadata.log.dir`; empty: the first of `paths`"""
    recovery_threads: int = 2
    delete_delay_ms: int = 60_000
    cordoned: frozenset[str] = frozenset()
    producer_id_expiration_ms: int = 86_400_000
    copy_bytes_per_second: float = float("inf")
    """`replica.alter.log.dirs.io.max.bytes.per.second`"""
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)
    open_files_max: int = 1024
    """How many inactive segments may have their files open"""


class LogDirectories:
    """See the module."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        config: DirectoriesConfig,
        *,
        log_config: Callable[[str], LogConfig],
        on_offline: Callable[[LogDirectory, list[Partition]], None] | None = None,
        on_moved: Callable[[Partition, Log], None] | None = None,
        on_truncated: Callable[[Partition, Log], None] | None = None,
        failures: Failures | None = None,
    ) -> None:
        """`log_config` gives a topic's settings as they are now. `on_moved` is called when another `Log`
        object replaces the one of a partition; it must replace it in its own tables at once. `on_truncated`
        is called when a truncated log accepts records again."""
        self._disk = disk
        self._clock = clock
        self._random = random
        self._config = config
        self._log_config = log_config
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """The broker epoch of the last stop, if it was clean everywhere; known after `load`."""
        self.directories = [LogDirectory(path.rstrip("/")) for path in config.paths]
        by_path = {directory.path: directory for directory in self.directories}
        metadata_path = (config.metadata_path or config.paths[0]).rstrip("/")
        self._metadata_directory = by_path.get(metadata_path) or LogDirectory(metadata_path)
        self.cordon(config.cordoned)
        most = max(disk.open_files_max() // 4, _OPEN_FILES_MIN)  # active segments and connections need more
        self._open_files = OpenFiles(min(config.open_files_max, most))
        self.hosted = hosted = HostedLogs(self.directories, random)
        self.logs = hosted.logs
        self.futures = hosted.futures
        self.cleaner = cleaner = Cleaner(
            disk, clock, random, config.cleaner, hosted.logs, self.storage_error, self.secure
        )
        self._deletions = PendingDeletions(clock, config.delete_delay_ms)
        self._errors = errors = DiskErrors(
            hosted,
            cleaner,
            self._deletions,
            failures if failures is not None else Failures(),
            on_offline,
        )
        self._removal = LogRemoval(disk, clock, hosted, cleaner, self._deletions, errors)
        self._checkpoint_writer = CheckpointWriter(disk, hosted, cleaner, errors)
        self._flusher = LogFlusher(disk, clock, hosted, self._checkpoint_writer, errors)
        self._retention = Retention(clock, hosted, cleaner, errors)
        self._truncations = Truncations(disk, hosted, cleaner, self._checkpoint_writer, errors, on_truncated)
        self._factory = LogFactory(
            disk,
            clock,
            random,
            log_config=log_config,
            open_files=self._open_files,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            unsynced=hosted.unsynced,
        )
        self._moves = Moves(
            disk,
            clock,
            hosted,
            cleaner=cleaner,
            factory=self._factory,
            flusher=self._flusher,
            checkpoint_writer=self._checkpoint_writer,
            truncations=self._truncations,
            removal=self._removal,
            errors=errors,
            bytes_per_second=config.copy_bytes_per_second,
            on_moved=on_moved,
        )
        self._creation = LogCreation(hosted, self._factory, self._moves, errors)
        self._startup = Startup(
            disk,
            clock,
            random,
            hosted,
            log_config=log_config,
            open_files=self._open_files,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            recovery_threads=config.recovery_threads,
            cleaner=cleaner,
            deletions=self._deletions,
            removal=self._removal,
            errors=errors,
        )

    # ---- start

    def open(self, *, node_id: int, cluster_id: str | None = None) -> str:
        """Create, lock and identify the directories; the cluster's id. Blocks. Raises DirectoryError."""
        try:
            return open_directories(
                self._disk,
                self._clock,
                self._random,
                self.directories,
                self._metadata_directory,
                node_id=node_id,
                cluster_id=cluster_id,
            )
        except (DirectoryError, OSError):
            self._release()
            raise

    @property
    def metadata_directory_id(self) -> bytes:
        return self._metadata_directory.id

    async def load(self, *, is_stray: StrayCheck | None = None) -> None:
        """Load every log, scanning what may be torn."""
        started = self._clock.monotonic()
        surveyed = await self._startup.load(is_stray)
        epochs = {found.broker_epoch for found in surveyed}
        if len(surveyed) == len(self.directories) and len(epochs) == 1:
            self.previous_broker_epoch = epochs.pop()
        await self._moves.align()
        for found in surveyed:
            if not found.is_contiguous or found.has_unknown:
                await self._checkpoint_writer.write(
                    self.hosted.by_path(found.path), checkpoints.RECOVERY_POINTS
                )
        if not any(directory.online for directory in self.directories):
            raise DirectoryError(f"All log directories are offline: {self.directories[-1].failure}.")
        elapsed_ms = (self._clock.monotonic() - started) * 1000
        logger.info("Loaded %d logs in %d ms", len(self.logs) + len(self.futures), elapsed_ms)

    # ---- partitions

    def get(self, topic: str, partition: int) -> Log | None:
        """The log of a partition, None if it is not here; KafkaStorageError if it cannot be served."""
        return self.hosted.get((topic, partition))

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        *,
        directory_id: bytes | None = None,
        is_new: bool = True,
    ) -> Log:
        """The log of a partition. If it is not here, it is created: in the directory of this id, or else the
        one with the fewest logs.

        A log that is not `is_new` is not created while a directory is offline: it may be in there.
        """
        return self._creation.create((topic, partition), topic_id, directory_id=directory_id, is_new=is_new)

    async def delete(self, partitions: Iterable[Partition], *, stray: bool = False) -> None:
        """Remove logs: rename them to -delete and remove them after the delay, or if stray, rename them to
        -stray."""
        await self.forget_removed(self.detach(partitions, stray=stray))

    def detach(self, partitions: Iterable[Partition], *, stray: bool = False) -> set[str]:
        """The part of `delete` that does not wait: pass the paths that it returns to `forget_removed`."""
        touched: set[str] = set()
        for partition in partitions:
            self.hosted.preferred.pop(partition, None)
            self.hosted.offline_partitions.pop(partition, None)
            damaged = self.hosted.damaged.pop(partition, None)
            if damaged is not None:
                touched.add(self._removal.mark_damaged(partition, damaged))
            for log in (self.logs.pop(partition, None), self._moves.cancel(partition)):
                if log is not None:
                    touched.add(directory_of(log))
                    self._removal.mark(log, Kind.STRAY if stray else Kind.DELETED)
        return touched

    async def remove_strays(self, is_stray: StrayCheck) -> list[Partition]:
        """Rename the logs that do not belong here to -stray; their partitions."""
        strays = {partition: reason for partition, log in self.logs.items() if (reason := is_stray(log))}
        for partition, reason in strays.items():
            logger.warning("%s: %s", name_of(partition), reason)
        await self.delete(strays, stray=True)
        return list(strays)

    def reconfigure(self, topic: str) -> None:
        """The settings of a topic changed."""
        config = self._log_config(topic)
        for log in self.hosted.logs_of(topic):
            was_compacted = log.config.is_compacted
            log.reconfigure(config)
            if was_compacted and not config.is_compacted:
                self.cleaner.abort((log.topic, log.partition))

    async def truncate_to(self, log: Log, offset: int) -> bool:
        """Truncate a log and its checkpoints, before anything is appended again."""
        return await self._truncations.truncate(log, lambda one: one.truncate_to(offset))

    async def start_over(self, log: Log, offset: int) -> None:
        """Drop all records of a log: its next record gets `offset`."""
        await self._truncations.truncate(log, lambda one: one.truncate_fully_and_start_at(offset))

    def move(self, topic: str, partition: int, path: str) -> None:
        """Begin to move a replica to another directory. If it is there already, cancel its move."""
        self._moves.begin((topic, partition), path.rstrip("/"))

    def limit_moves(self, bytes_per_second: float) -> None:
        """How fast replicas are copied to other directories."""
        self._moves.set_limit(bytes_per_second)

    async def copy_futures(self) -> bool:
        """One round of all moves; whether there is more to do at once."""
        return await self._moves.advance()

    # ---- disk errors

    def storage_error(self, log: Log, error: OSError) -> KafkaError:
        """Handle an error of `log`; the error to respond with."""
        return self._errors.storage_error(log, error)

    def take_offline(self, directory: LogDirectory, error: OSError) -> None:
        self._errors.take_offline(directory, error)

    # ---- periodic tasks

    async def flush(self, log: Log, offset: int | None = None) -> None:
        """Bring everything below `offset` (the end) to stable storage; KafkaStorageError if that fails."""
        await self._flusher.flush(log, offset)

    async def secure(self, log: Log, offset: int) -> None:
        """Flush up to `offset`, and write the recovery point; KafkaStorageError if that fails."""
        await self._flusher.secure(log, offset)

    async def flush_due(self) -> None:
        """Flush what is due, complete failed truncations, and check whether full disks have room."""
        await self._truncations.finish_due()
        await self._flusher.flush_due()

    async def checkpoint_recovery_points(self) -> None:
        await self._flusher.sync_new_logs()
        await self._checkpoint_writer.write_everywhere(checkpoints.RECOVERY_POINTS)

    async def checkpoint_log_starts(self) -> None:
        await self._checkpoint_writer.write_everywhere(checkpoints.LOG_STARTS)

    async def checkpoint_high_watermarks(self) -> None:
        await self._checkpoint_writer.write_everywhere(checkpoints.HIGH_WATERMARKS)

    async def forget_removed(self, paths: Iterable[str]) -> None:
        """After logs were removed: remove them from the checkpoints, before a topic of the same name is
        created."""
        await self._checkpoint_writer.forget_removed(paths)

    async def retain(self) -> int:
        """Delete old segments of logs that are not compacted; how many."""
        return await self._retention.delete_old_segments()

    async def delete_due(self) -> float:
        """Remove files whose delay has passed; return the seconds until there is more to do."""
        return await self._removal.delete_due()

    def expire_producers(self) -> None:
        self._retention.expire_producers()

    # ---- look-ups

    def everything(self) -> Iterator[Log]:
        """All logs, also copies that are being moved."""
        return self.hosted.everything()

    def directory_of(self, log: Log) -> LogDirectory:
        return self.hosted.directory_of(log)

    def directory_id_of(self, log: Log) -> bytes:
        return self.hosted.directory_of(log).id

    def cordon(self, paths: Collection[str]) -> None:
        """Let the directories of `paths`, and no others, refuse new replicas."""
        cordoned = {path.rstrip("/") for path in paths}
        for directory in self.directories:
            directory.cordoned = directory.path in cordoned

    def describe(self) -> list[DirectoryReport]:
        """Every directory with its replicas, as DescribeLogDirs shows them."""
        return describe(self._disk, self.hosted, self._errors)

    # ---- stop

    async def close(self, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close everything; directories without an error get the clean-shutdown marker."""
        await self._truncations.close()
        await self.cleaner.close()
        self._open_files.close()
        try:
            online = [directory for directory in self.directories if directory.online]
            await asyncio.gather(*(self._close(directory, broker_epoch) for directory in online))
            self._deletions.close()
        finally:
            self.logs.clear()
            self.futures.clear()
            self._release()

    async def _close(self, directory: LogDirectory, broker_epoch: int) -> None:
        logs = self.hosted.logs_in(directory)
        for log in logs:
            log.stop_appends()  # a record after the last flush would be lost
        failures: list[Exception]
        new = self.hosted.unsynced.intersection(log.directory for log in logs)
        try:
            await outlast(self._disk, sync_created, self._disk, new)
            await self._flusher.flush_side_by_side(logs)
            threads = self._config.recovery_threads
            shares = [logs[number::threads] for number in range(threads)]
            closings = [outlast(self._disk, _close_logs, share) for share in shares]
            failures = [failure for failure in await asyncio.gather(*closings) if failure is not None]
        except OSError as error:
            failures = [error]
        if failures:
            logger.error("Cannot mark %s as cleanly shut down: %s", directory.path, failures[0])
            return
        are_written = [await self._checkpoint_writer.write(directory, name) for name in _CHECKPOINTS]
        if not all(are_written):
            return
        if not directory.online or directory.full or not directory.is_loaded or directory.has_damage:
            return
        try:
            marker = f"{directory.path}/{CLEAN_SHUTDOWN}"
            await outlast(self._disk, self._disk.replace, marker, format_clean_shutdown(broker_epoch))
        except OSError as error:
            logger.error("Cannot mark %s as cleanly shut down: %s", directory.path, error)

    def _release(self) -> None:
        for directory in (*self.directories, self._metadata_directory):
            if directory.release is not None:
                directory.release()
                directory.release = None


def _close_logs(logs: list[Log]) -> Exception | None:
    """Flush and close all, even if one fails; the first failure."""
    failure: Exception | None = None
    for log in logs:
        try:
            if log.truncations_pending:
                raise KafkaStorageError(f"A truncation of {log.name} is not on stable storage.")
            log.flush()
            log.close(clean=True)
        except Exception as error:  # noqa: BLE001 - the other logs are still closed cleanly
            failure = failure or error
            log.close(clean=False)
    return failure
