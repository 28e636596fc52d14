"""The `log.dirs` of a node: all its logs, from the first look at the disk to the last flush.

Logs are loaded at the start, created in the directory that has the fewest, and leave through `-delete`
directories. What a disk error does is in `hosted_logs.py`, periodic work in `maintenance.py`, moves between
directories in `moves.py`, truncations in `truncations.py`.

The rule: the clean-shutdown marker of a directory is taken away before anything in it is loaded, and comes
back only when everything in it was flushed and closed without an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from ottla.log.compaction.cleaner import directory_of
from ottla.log.directories import checkpoints
from ottla.log.directories.checkpoints import Partition
from ottla.log.directories.hosted_logs import Damaged, DirectoriesConfig, Doomed
from ottla.log.directories.log_directory import LogDirectory, open_directories, previous_broker_epoch
from ottla.log.directories.log_loader import Found, Loading, configs_of, survey
from ottla.log.directories.maintenance import Duties, sync_created
from ottla.log.directories.moves import Moves
from ottla.log.directories.names import Kind, name_of
from ottla.log.directories.properties import (
    CLEAN_SHUTDOWN,
    NO_BROKER_EPOCH,
    PARTITION_METADATA,
    DirectoryError,
    format_clean_shutdown,
    format_partition_metadata,
)
from ottla.log.directories.truncations import Cut, Cuts
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.ports import OUT_OF_RESOURCES
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode, InconsistentTopicId, KafkaStorageError

__all__ = [
    "DirectoriesConfig",
    "DirectoryReport",
    "LogDirectories",
    "LogDirectory",
    "ReplicaReport",
]

logger = logging.getLogger("ottla.log.directories.log_directories")

_SURVEYS_MAX = 10
_SURVEY_PAUSE_S = 0.5
_UNCHOSEN = (None, uuid.DIRECTORY_MIGRATING, uuid.DIRECTORY_UNASSIGNED, uuid.DIRECTORY_LOST)
_CHECKPOINTS = (checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS, checkpoints.HIGH_WATERMARKS)

StrayCheck = Callable[[Log], str | None]
"""Says why a log does not belong on this node, None if it does."""


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


class LogDirectories(Duties):
    """See the module."""

    previous_broker_epoch = NO_BROKER_EPOCH
    """The broker epoch of the last stop, if it was clean everywhere."""

    # ---- start

    def open(self, *, node_id: int, cluster_id: str | None = None) -> str:
        """Make, lock and identify the directories; the cluster's id. Blocks. Raises DirectoryError."""
        try:
            cluster_id = open_directories(
                self.disk,
                self.clock,
                self.random,
                self.directories,
                self.metadata_directory,
                node_id=node_id,
                cluster_id=cluster_id,
            )
        except (DirectoryError, OSError):
            self._release()
            raise
        self.previous_broker_epoch = previous_broker_epoch(self.disk, self.directories)
        return cluster_id

    @cached_property
    def _moves(self) -> Moves:
        return Moves(self)

    @cached_property
    def _cuts(self) -> Cuts:
        return Cuts(self)

    @property
    def metadata_directory_id(self) -> bytes:
        return self.metadata_directory.id

    async def load(self, *, is_stray: StrayCheck | None = None) -> None:
        """Load every log, scanning what may be torn."""
        started = self.clock.monotonic()
        founds = await self._survey_all()
        configs = configs_of(founds, self.log_config)
        runs = []
        for found in founds:
            loading = Loading(
                self.disk,
                self.clock,
                self.random,
                found,
                configs,
                self.config.producer_id_expiration_ms,
                self.open_files,
                count=len(found.to_load),
            )
            if loading.count and not found.is_clean:
                logger.info(
                    "Recovering %d logs from %s since no clean shutdown file was found",
                    loading.count,
                    found.path,
                )
            # A clean load is short work that one thread does best; scans wait for the disk.
            threads = 1 if found.is_clean else self.config.recovery_threads
            runs += [outlast(self.disk, loading.run) for _ in range(threads)]
        await asyncio.gather(*runs)
        for found in founds:
            self._take(found, is_stray)
        await self._moves.align()
        for found in founds:
            if not found.is_contiguous or found.has_unknown:
                await self.write_checkpoint(self.by_path(found.path), checkpoints.RECOVERY_POINTS)
        if not any(directory.online for directory in self.directories):
            raise DirectoryError(f"No log directory is left: {self.directories[-1].failure}.")
        elapsed_ms = (self.clock.monotonic() - started) * 1000
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
                await outlast(self.disk, survey, self.disk, found)
                await outlast(self.disk, self.cleaner.load_checkpoint, directory.path)
                return found
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    self.take_offline(directory, error)
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
        directory = self.by_path(found.path)
        if found.failure is not None:
            lost = [(log.topic, log.partition) for kind, log in found.logs if kind is Kind.CURRENT]
            lost += [partition for partition, kind, _ in found.to_load if kind is Kind.CURRENT]
            for partition in lost:
                self.offline_partitions[partition] = f"its log directory {found.path} is offline"
            for _, log in found.logs:
                log.close(clean=False)
            self.take_offline(directory, found.failure)
            return
        for partition, kind, name, why in found.damaged:
            if kind is Kind.CURRENT:
                self.offline_partitions[partition] = why
                self.damaged[partition] = Damaged(f"{found.path}/{name}", found.offsets_of(partition))
        due_ms = self.clock.now_ms() + self.config.delete_delay_ms
        self.doomed += [Doomed(due_ms, path, None) for path in found.to_delete]
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
                self.doom(log, Kind.STRAY)

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
            self.doom(loser, Kind.STRAY)
        elif kind is Kind.FUTURE:
            self.cleaner.pause(partition)

    # ---- partitions

    def get(self, topic: str, partition: int) -> Log | None:
        """The log of a partition, None if it is not here; KafkaStorageError if it cannot be served."""
        log = self.logs.get((topic, partition))
        if log is None:
            self._refuse_offline((topic, partition))
        return log

    def _refuse_offline(self, partition: Partition) -> None:
        reason = self.offline_partitions.get(partition)
        if reason is not None:
            raise KafkaStorageError(f"{name_of(partition)} cannot be served: {reason}")

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
            self._refuse_offline(key)
            offline = ", ".join(directory.path for directory in self.directories if not directory.online)
            if offline and not is_new:
                raise KafkaStorageError(
                    f"Can not create log for {name_of(key)} because log directories {offline} are offline"
                )
            log = self._adopt_copy(key, topic_id) or self._create_somewhere(key, topic_id, directory_id)
        if log.topic_id in (None, uuid.ZERO):
            self._write_topic_id(log, topic_id)
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
            self.rename(future, f"{directory_of(future)}/{name_of(key)}")
        except OSError as error:
            raise self.storage_error(future, error) from error
        self.unsynced.add(future.directory)
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
                log = self.create_in(directory, name_of(key), key, topic_id)
            except OSError as error:
                self.note_failure(directory, error)
                continue
            self.preferred.pop(key, None)
            self.logs[key] = log
            logger.info("Created log for partition %s in %s", name_of(key), log.directory)
            return log
        raise KafkaStorageError(
            f"No log directory can take {name_of(key)}. Tried: {', '.join(tried) or 'none'}."
        )

    def _candidates(self, key: Partition, directory_id: bytes | None) -> list[LogDirectory]:
        """The directories that a new log may go to, the best first."""
        online = [directory for directory in self.directories if directory.online]
        preferred = self.preferred.get(key)
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

    def create_in(self, directory: LogDirectory, name: str, key: Partition, topic_id: bytes) -> Log:
        """A new, empty log; nothing is left of it if that fails. May raise OSError."""
        path = f"{directory.path}/{name}"
        try:
            log = Log.open(
                self.disk,
                self.clock,
                path,
                self.log_config(key[0]),
                topic=key[0],
                partition=key[1],
                topic_id=uuid.ZERO,
                clean=True,
                random=self.random,
                open_files=self.open_files,
                producer_id_expiration_ms=self.config.producer_id_expiration_ms,
            )
            self._write_topic_id(log, topic_id)
        except OSError:
            self.disk.remove_tree(path)
            raise
        return log

    def _write_topic_id(self, log: Log, topic_id: bytes) -> None:
        if topic_id != uuid.ZERO:
            content = format_partition_metadata(topic_id).encode()
            self.disk.replace(f"{log.directory}/{PARTITION_METADATA}", content, sync=False)
            log.topic_id = topic_id
            self.unsynced.add(log.directory)

    async def delete(self, partitions: Iterable[Partition], *, stray: bool = False) -> None:
        """Take logs out: renamed to -delete and removed after the delay, or if stray, renamed to -stray."""
        await self.settle(self.detach(partitions, stray=stray))

    def detach(self, partitions: Iterable[Partition], *, stray: bool = False) -> set[str]:
        """As `delete`, up to what must be waited for: `settle` what it returns."""
        touched: set[str] = set()
        for partition in partitions:
            self.preferred.pop(partition, None)
            self.offline_partitions.pop(partition, None)
            damaged = self.damaged.pop(partition, None)
            if damaged is not None:
                touched.add(self._delete_damaged(partition, damaged))
            for log in (self.logs.pop(partition, None), self._moves.cancel(partition)):
                if log is not None:
                    touched.add(directory_of(log))
                    self.doom(log, Kind.STRAY if stray else Kind.DELETED)
        return touched

    def _delete_damaged(self, partition: Partition, damaged: Damaged) -> str:
        """Take out a log that was never opened; the log directory it was in."""
        parent = damaged.directory.rpartition("/")[0]
        path = f"{parent}/{self.marked_name(partition, Kind.DELETED)}"
        try:
            self.disk.rename(damaged.directory, path)
        except OSError as error:
            self.note_failure(self.by_path(parent), error)
        else:
            self.doomed.append(Doomed(self.clock.now_ms() + self.config.delete_delay_ms, path, None))
        return parent

    async def remove_strays(self, is_stray: StrayCheck) -> list[Partition]:
        """Set aside the logs that do not belong here; which they are."""
        strays = {partition: reason for partition, log in self.logs.items() if (reason := is_stray(log))}
        for partition, reason in strays.items():
            logger.warning("%s: %s", name_of(partition), reason)
        await self.delete(strays, stray=True)
        return list(strays)

    def reconfigure(self, topic: str) -> None:
        """The settings of a topic changed."""
        config = self.log_config(topic)
        for log in self.everything():
            if log.topic == topic:
                was_compacted = log.config.is_compacted
                log.reconfigure(config)
                if was_compacted and not config.is_compacted:
                    self.cleaner.abort((log.topic, log.partition))

    async def truncate_to(self, log: Log, offset: int) -> bool:
        """Cut a log, and all that speaks of its end, before anything is appended again."""
        return await self._cuts.cut(log, lambda one: one.truncate_to(offset))

    async def cut_copy(self, partition: Partition, log: Log, cut: Cut) -> None:
        """Shorten the copy of a log that is being moved. If that fails, the log goes on."""
        await self._cuts.cut_copy(partition, log, cut)

    async def start_over(self, log: Log, offset: int) -> None:
        """Drop all of a log: its next record gets `offset`."""
        await self._cuts.cut(log, lambda one: one.truncate_fully_and_start_at(offset))

    async def flush_due(self) -> None:
        await self._cuts.finish_due()
        await super().flush_due()

    def move(self, topic: str, partition: int, path: str) -> None:
        """Begin to move a replica to another directory; to where it is already: call a move off."""
        self._moves.begin((topic, partition), path.rstrip("/"))

    def limit_moves(self, bytes_per_second: float) -> None:
        """How fast replicas are copied to other directories."""
        self._moves.set_limit(bytes_per_second)

    async def copy_futures(self) -> bool:
        """One round of all moves; whether there is more to do at once."""
        return await self._moves.advance()

    # ---- description

    def describe(self) -> list[DirectoryReport]:
        """Every directory with its replicas, as DescribeLogDirs shows them."""
        return [self._describe(directory) for directory in self.directories]

    def _describe(self, directory: LogDirectory) -> DirectoryReport:
        total = usable = -1
        if directory.online:
            try:
                total, usable = self.disk.space(directory.path)
            except OSError as error:
                self.note_failure(directory, error)
        code = ErrorCode.NONE if directory.online else ErrorCode.KAFKA_STORAGE_ERROR
        replicas = []
        for log in self.logs_in(directory):
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
        await self._cuts.close()
        await self.cleaner.close()
        self.open_files.close()
        try:
            online = [directory for directory in self.directories if directory.online]
            await asyncio.gather(*(self._close(directory, broker_epoch) for directory in online))
            for doomed in self.doomed:
                if doomed.log is not None:
                    doomed.log.close(clean=False)
        finally:
            self.logs.clear()
            self.futures.clear()
            self._release()

    async def _close(self, directory: LogDirectory, broker_epoch: int) -> None:
        logs = self.logs_in(directory)
        for log in logs:
            log.is_closed = True  # what came behind the last flush would be lost
        failures: list[Exception]
        new = self.unsynced.intersection(log.directory for log in logs)
        try:
            await outlast(self.disk, sync_created, self.disk, new)
            threads = self.config.recovery_threads
            shares = [logs[number::threads] for number in range(threads)]
            closings = [outlast(self.disk, _close_logs, share) for share in shares]
            failures = [failure for failure in await asyncio.gather(*closings) if failure is not None]
        except OSError as error:
            failures = [error]
        if failures:
            logger.error("%s is not left clean: %s", directory.path, failures[0])
            return
        are_written = [await self.write_checkpoint(directory, name) for name in _CHECKPOINTS]
        if not all(are_written):
            return
        if not directory.online or directory.full or not directory.is_loaded or directory.has_damage:
            return
        try:
            marker = f"{directory.path}/{CLEAN_SHUTDOWN}"
            await outlast(self.disk, self.disk.replace, marker, format_clean_shutdown(broker_epoch))
        except OSError as error:
            logger.error("%s is not left clean: %s", directory.path, error)

    def _release(self) -> None:
        for directory in (*self.directories, self.metadata_directory):
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
