"""The `log.dirs` of a node: all its logs, from the first look at the disk to the last flush.

Logs are loaded at the start, created in the directory that has the fewest, and leave through `-delete`
directories. `LogDirectories` owns the parts that do the rest, and is what the node asks: `hosted_logs.py` has
the tables, `disk_errors.py` what a disk error means, and there is a part each for flushes, checkpoints,
retention, removal, moves between directories and truncations. Nothing here has a timer: the node decides when
each duty runs. No duty raises: what fails is logged, and a disk that fails takes its directory offline.

The rule: the clean-shutdown marker of a directory is taken away before anything in it is loaded, and comes
back only when everything in it was flushed and closed without an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.failures import Failures
from ottla.log.compaction.cleaner import Cleaner, CleanerConfig, directory_of
from ottla.log.config import LogConfig
from ottla.log.directories import checkpoints
from ottla.log.directories.checkpoint_writer import CheckpointWriter
from ottla.log.directories.checkpoints import Partition
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import DamagedLog, HostedLogs
from ottla.log.directories.log_directory import LogDirectory, open_directories, previous_broker_epoch
from ottla.log.directories.log_factory import LogFactory
from ottla.log.directories.log_flusher import LogFlusher, sync_created
from ottla.log.directories.log_loader import Found, Loading, configs_of, survey
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
from ottla.log.directories.truncations import Truncations
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.log.open_files import OpenFiles
from ottla.ports import OUT_OF_RESOURCES, Clock, Disk, Random
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode, InconsistentTopicId, KafkaError, KafkaStorageError

__all__ = [
    "DirectoriesConfig",
    "DirectoryReport",
    "LogDirectories",
    "LogDirectory",
    "ReplicaReport",
]

logger = logging.getLogger("ottla.log.directories.log_directories")

_OPEN_FILES_MIN = 16
_SURVEYS_MAX = 10
_SURVEY_PAUSE_S = 0.5
_UNCHOSEN = (None, uuid.DIRECTORY_MIGRATING, uuid.DIRECTORY_UNASSIGNED, uuid.DIRECTORY_LOST)
_CHECKPOINTS = (checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS, checkpoints.HIGH_WATERMARKS)

StrayCheck = Callable[[Log], str | None]
"""Says why a log does not belong on this node, None if it does."""


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


class ReplicaReport(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class DirectoryReport(NamedTuple):
    path: str
    id: bytes
    error_code: ErrorCode
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    replicas: list[ReplicaReport]


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
        on_cut: Callable[[Partition, Log], None] | None = None,
        failures: Failures | None = None,
    ) -> None:
        """`log_config` gives a topic's settings as they are now. `on_moved` is called when another `Log`
        object takes a partition over; it must put it in the place of the old one at once. `on_cut` is called
        when a log that was truncated takes records again."""
        self._disk = disk
        self._clock = clock
        self._random = random
        self._config = config
        self._log_config = log_config
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """The broker epoch of the last stop, if it was clean everywhere."""
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
        self._truncations = Truncations(disk, hosted, cleaner, self._checkpoint_writer, errors, on_cut)
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

    # ---- start

    def open(self, *, node_id: int, cluster_id: str | None = None) -> str:
        """Make, lock and identify the directories; the cluster's id. Blocks. Raises DirectoryError."""
        try:
            cluster_id = open_directories(
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
        self.previous_broker_epoch = previous_broker_epoch(self._disk, self.directories)
        return cluster_id

    @property
    def metadata_directory_id(self) -> bytes:
        return self._metadata_directory.id

    async def load(self, *, is_stray: StrayCheck | None = None) -> None:
        """Load every log, scanning what may be torn."""
        started = self._clock.monotonic()
        founds = await self._survey_all()
        configs = configs_of(founds, self._log_config)
        runs = []
        for found in founds:
            loading = Loading(
                self._disk,
                self._clock,
                self._random,
                found,
                configs,
                self._config.producer_id_expiration_ms,
                self._open_files,
                count=len(found.to_load),
            )
            if loading.count and not found.is_clean:
                logger.info(
                    "Recovering %d logs from %s since no clean shutdown file was found",
                    loading.count,
                    found.path,
                )
            # A clean load is short work that one thread does best; scans wait for the disk.
            threads = 1 if found.is_clean else self._config.recovery_threads
            runs += [outlast(self._disk, loading.run) for _ in range(threads)]
        await asyncio.gather(*runs)
        for found in founds:
            self._take(found, is_stray)
        await self._moves.align()
        for found in founds:
            if not found.is_contiguous or found.has_unknown:
                await self._checkpoint_writer.write(
                    self.hosted.by_path(found.path), checkpoints.RECOVERY_POINTS
                )
        if not any(directory.online for directory in self.directories):
            raise DirectoryError(f"No log directory is left: {self.directories[-1].failure}.")
        elapsed_ms = (self._clock.monotonic() - started) * 1000
        logger.info("Loaded %d logs in %d ms", len(self.logs) + len(self.futures), elapsed_ms)

    async def _survey_all(self) -> list[Found]:
        """What is in the directories. DirectoryError: the process lacks descriptors or memory to look."""
        online = [directory for directory in self.directories if directory.online]
        surveys = await asyncio.gather(*map(self._survey, online), return_exceptions=True)
        for found in surveys:
            if isinstance(found, BaseException):
                raise found
        return [found for found in surveys if isinstance(found, Found)]

    async def _survey(self, directory: LogDirectory) -> Found | None:
        found = Found(directory.path)
        for attempt in range(1, _SURVEYS_MAX + 1):
            try:
                await outlast(self._disk, survey, self._disk, found)
                await outlast(self._disk, self.cleaner.load_checkpoint, directory.path)
                return found
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    self._errors.take_offline(directory, error)
                    return None
                logger.error("Could not look into %s, attempt %d: %s", directory.path, attempt, error)
                failure = error
            await asyncio.sleep(_SURVEY_PAUSE_S)
        raise DirectoryError(
            f"{directory.path} cannot be read: {failure}. Raise the limit of open files of this process, and "
            "start it again."
        )

    def _take(self, found: Found, is_stray: StrayCheck | None) -> None:
        """Serve what was loaded from one directory."""
        directory = self.hosted.by_path(found.path)
        if found.failure is not None:
            lost = [(log.topic, log.partition) for kind, log in found.logs if kind is Kind.CURRENT]
            lost += [partition for partition, kind, _ in found.to_load if kind is Kind.CURRENT]
            for partition in lost:
                self.hosted.offline_partitions[partition] = f"its log directory {found.path} is offline"
            for _, log in found.logs:
                log.close(clean=False)
            self._errors.take_offline(directory, found.failure)
            return
        for partition, kind, name, why in found.damaged:
            if kind is Kind.CURRENT:
                self.hosted.offline_partitions[partition] = why
                self.hosted.damaged[partition] = DamagedLog(
                    f"{found.path}/{name}", found.offsets_of(partition)
                )
        for path in found.to_delete:
            self._deletions.add(path)
        directory.is_loaded = True
        # Of a damaged log nobody knows whether it has gaps.
        directory.is_contiguous = found.is_contiguous or not found.damaged
        directory.has_damage = bool(found.damaged)
        for kind, log in found.logs:
            reason = is_stray(log) if is_stray is not None else None
            if reason is None:
                self._register(kind, log)
            else:
                logger.warning("%s: %s", log.directory, reason)
                self._removal.mark(log, Kind.STRAY)

    def _register(self, kind: Kind, log: Log) -> None:
        partition = (log.topic, log.partition)
        table = self.futures if kind is Kind.FUTURE else self.logs
        other = table.setdefault(partition, log)
        if other is not log:
            # A crash at the end of a move leaves two: both have the same records, one perhaps some more. The
            # one that took the place of the other may have been truncated since, in a later epoch.
            is_longer = _extent(log) > _extent(other)
            winner, loser = (log, other) if is_longer else (other, log)
            logger.error(
                "%s and %s hold the same partition; the first stays", winner.directory, loser.directory
            )
            table[partition] = winner
            self._removal.mark(loser, Kind.STRAY)
        elif kind is Kind.FUTURE:
            self.cleaner.pause(partition)

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
        """The log of a partition, made if it is not there, in the wanted directory or the least loaded one.

        Unless it `is_new`, it is not made while a directory is offline: it may be in there.
        """
        key = (topic, partition)
        log = self.logs.get(key)
        if log is None:
            self.hosted.refuse_offline(key)
            offline = ", ".join(directory.path for directory in self.directories if not directory.online)
            if offline and not is_new:
                raise KafkaStorageError(
                    f"Can not create log for {name_of(key)} because log directories {offline} are offline"
                )
            log = self._adopt_copy(key, topic_id) or self._create_somewhere(key, topic_id, directory_id)
        if log.topic_id in (None, uuid.ZERO):
            self._factory.write_topic_id(log, topic_id)
        elif topic_id not in (uuid.ZERO, log.topic_id):
            raise InconsistentTopicId(
                f"The log of {name_of(key)} in {log.directory} belongs to another topic of the same name."
            )
        return log

    def _adopt_copy(self, key: Partition, topic_id: bytes) -> Log | None:
        """The copy of a log that was on its way here, if the log itself is gone: all that is left of it."""
        future = self.futures.get(key)
        if future is None or future.topic_id not in (None, uuid.ZERO, topic_id):
            return None
        try:
            self.hosted.rename(future, f"{directory_of(future)}/{name_of(key)}")
        except OSError as error:
            raise self._errors.storage_error(future, error) from error
        self.hosted.unsynced.add(future.directory)
        self._moves.cancel(key)
        self.logs[key] = future
        logger.error(
            "The log of %s is gone: its copy in %s, up to offset %d, takes its place",
            name_of(key),
            future.directory,
            future.log_end_offset,
        )
        return future

    def _create_somewhere(self, key: Partition, topic_id: bytes, directory_id: bytes | None) -> Log:
        tried = []
        for directory in self._candidates(key, directory_id):
            tried.append(directory.path)
            try:
                log = self._factory.create(directory, name_of(key), key, topic_id)
            except OSError as error:
                self._errors.note_failure(directory, error)
                continue
            self.hosted.preferred.pop(key, None)
            self.logs[key] = log
            logger.info("Created log for partition %s in %s", name_of(key), log.directory)
            return log
        raise KafkaStorageError(
            f"No log directory can take {name_of(key)}. Tried: {', '.join(tried) or 'none'}."
        )

    def _candidates(self, key: Partition, directory_id: bytes | None) -> list[LogDirectory]:
        """The directories that a new log may go to, the best first."""
        online = [directory for directory in self.directories if directory.online]
        preferred = self.hosted.preferred.get(key)
        for directory in online:
            if directory.path == preferred:
                return [directory]
        if directory_id not in _UNCHOSEN:
            for directory in online:
                if directory.id == directory_id:
                    return [directory]
        usable = [directory for directory in online if not directory.cordoned]
        if not usable:
            # The controller assigned the replica before it learned that every directory is cordoned.
            return online[:1]
        if len(usable) == 1:
            return usable

        def load(directory: LogDirectory) -> tuple[bool, int]:
            path = directory.path
            return directory.full, self.logs.counts[path] + self.futures.counts[path]

        return sorted(usable, key=load)

    async def delete(self, partitions: Iterable[Partition], *, stray: bool = False) -> None:
        """Take logs out: renamed to -delete and removed after the delay, or if stray, renamed to -stray."""
        await self.forget_removed(self.detach(partitions, stray=stray))

    def detach(self, partitions: Iterable[Partition], *, stray: bool = False) -> set[str]:
        """As `delete`, up to what must be waited for: hand the paths that it returns to `forget_removed`."""
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
        """Set aside the logs that do not belong here; which they are."""
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
        """Truncate a log, and all that speaks of its end, before anything is appended again."""
        return await self._truncations.truncate(log, lambda one: one.truncate_to(offset))

    async def start_over(self, log: Log, offset: int) -> None:
        """Drop all of a log: its next record gets `offset`."""
        await self._truncations.truncate(log, lambda one: one.truncate_fully_and_start_at(offset))

    def move(self, topic: str, partition: int, path: str) -> None:
        """Begin to move a replica to another directory; to where it is already: call a move off."""
        self._moves.begin((topic, partition), path.rstrip("/"))

    def limit_moves(self, bytes_per_second: float) -> None:
        """How fast replicas are copied to other directories."""
        self._moves.set_limit(bytes_per_second)

    async def copy_futures(self) -> bool:
        """One round of all moves; whether there is more to do at once."""
        return await self._moves.advance()

    # ---- disk errors

    def storage_error(self, log: Log, error: OSError) -> KafkaError:
        """What to answer when `log` met `error`, after doing what must be done about it."""
        return self._errors.storage_error(log, error)

    def take_offline(self, directory: LogDirectory, error: OSError) -> None:
        self._errors.take_offline(directory, error)

    # ---- duties

    async def flush(self, log: Log, offset: int | None = None) -> None:
        """Bring everything below `offset` (the end) to stable storage; KafkaStorageError if that fails."""
        await self._flusher.flush(log, offset)

    async def secure(self, log: Log, offset: int) -> None:
        """Flush up to `offset`, and have a checkpoint that says so; KafkaStorageError if that fails."""
        await self._flusher.secure(log, offset)

    async def flush_due(self) -> None:
        """Flush what is due, truncations that failed before included. See whether full disks have room."""
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
        """After logs left directories: no checkpoint may speak of them when a namesake comes."""
        await self._checkpoint_writer.forget_removed(paths)

    async def retain(self) -> int:
        """Delete old segments of logs that are not compacted; how many."""
        return await self._retention.delete_old_segments()

    async def delete_due(self) -> float:
        """Remove files whose delay is over; seconds until there is more to do."""
        return await self._removal.delete_due()

    def expire_producers(self) -> None:
        self._retention.expire_producers()

    # ---- look-ups

    def everything(self) -> Iterator[Log]:
        """All logs, those on their way too."""
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

    # ---- description

    def describe(self) -> list[DirectoryReport]:
        """Every directory with its replicas, as DescribeLogDirs shows them."""
        return [self._describe(directory) for directory in self.directories]

    def _describe(self, directory: LogDirectory) -> DirectoryReport:
        total = usable = -1
        if directory.online:
            try:
                total, usable = self._disk.space(directory.path)
            except OSError as error:
                self._errors.note_failure(directory, error)
        code = ErrorCode.NONE if directory.online else ErrorCode.KAFKA_STORAGE_ERROR
        replicas = []
        for log in self.hosted.logs_in(directory):
            current = self.logs.get((log.topic, log.partition))
            is_future = current is not log
            # A copy lags behind its log's end; a log may lag behind a watermark that it has from a leader.
            goal = log.high_watermark if current is None or not is_future else current.log_end_offset
            lag = max(0, goal - log.log_end_offset)
            replicas.append(ReplicaReport(log.topic, log.partition, log.size_bytes, lag, is_future))
        return DirectoryReport(
            directory.path, directory.id, code, total, usable, directory.cordoned, replicas
        )

    # ---- stop

    async def close(self, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close everything; directories where all went well get the clean-shutdown marker."""
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
            log.is_closed = True  # what came behind the last flush would be lost
        failures: list[Exception]
        new = self.hosted.unsynced.intersection(log.directory for log in logs)
        try:
            await outlast(self._disk, sync_created, self._disk, new)
            threads = self._config.recovery_threads
            shares = [logs[number::threads] for number in range(threads)]
            closings = [outlast(self._disk, _close_logs, share) for share in shares]
            failures = [failure for failure in await asyncio.gather(*closings) if failure is not None]
        except OSError as error:
            failures = [error]
        if failures:
            logger.error("%s is not left clean: %s", directory.path, failures[0])
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
            logger.error("%s is not left clean: %s", directory.path, error)

    def _release(self) -> None:
        for directory in (*self.directories, self._metadata_directory):
            if directory.release is not None:
                directory.release()
                directory.release = None


def _extent(log: Log) -> tuple[int, int]:
    return log.epochs.latest_epoch, log.log_end_offset


def _close_logs(logs: list[Log]) -> Exception | None:
    """Flush and close all, whatever happens to one of them; the first failure."""
    failure: Exception | None = None
    for log in logs:
        try:
            if log.cuts_pending:
                raise KafkaStorageError(f"A truncation of {log.name} is not on stable storage.")
            log.flush()
            log.close(clean=True)
        except Exception as error:  # noqa: BLE001 - the other logs are still closed cleanly
            failure = failure or error
            log.close(clean=False)
    return failure
