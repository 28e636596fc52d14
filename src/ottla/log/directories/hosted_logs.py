"""What every part of `LogDirectories` shares: tables of logs and directories, and what a disk error means.

The rules. A disk that fails takes its directory offline: its partitions answer KAFKA_STORAGE_ERROR and the
others go on. A full disk only refuses writes, until there is room. Bytes that are damaged concern their log.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.failures import Failures
from ottla.log.compaction.cleaner import Cleaner, CleanerConfig, directory_of
from ottla.log.config import LogConfig
from ottla.log.directories import checkpoints
from ottla.log.directories.checkpoints import Partition
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.log_table import LogTable
from ottla.log.directories.names import Kind, name_of
from ottla.log.log import Log
from ottla.log.open_files import OpenFiles
from ottla.log.segment import LogDamaged
from ottla.log.segments import SegmentsInconsistent
from ottla.ports import DISK_FULL, OUT_OF_RESOURCES, Clock, Disk, Random
from ottla.wire.errors import KafkaError, KafkaStorageError

logger = logging.getLogger("ottla.log.directories.log_directories")

_OPEN_FILES_MIN = 16


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


class Damaged(NamedTuple):
    """A log that was found but cannot be served. What the checkpoints said of it must not be forgotten:
    without its recovery point the next start would take the damage for a torn end, and cut."""

    directory: str
    offsets: Mapping[str, int]
    """Checkpoint name -> offset"""


class Doomed(NamedTuple):
    """A `-delete` directory, and the log whose files are still open in it."""

    due_ms: int
    path: str
    log: Log | None


class Hosting(ABC):
    """The shared part of `LogDirectories`; see the module."""

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
        """`log_config` gives a topic's settings as they are now. `on_moved` is told when another `Log` object
        takes a partition over; it must put it in the place of the old one at once. `on_cut` is told when a
        log that was truncated takes records again."""
        self.disk = disk
        self.clock = clock
        self.random = random
        self.config = config
        self.log_config = log_config
        self.on_moved = on_moved
        self.on_cut = on_cut
        self.failures = failures if failures is not None else Failures()
        self._on_offline = on_offline
        self.directories = [LogDirectory(path.rstrip("/")) for path in config.paths]
        by_path = {directory.path: directory for directory in self.directories}
        metadata_path = (config.metadata_path or config.paths[0]).rstrip("/")
        self.metadata_directory = by_path.get(metadata_path) or LogDirectory(metadata_path)
        self.cordon(config.cordoned)
        most = max(disk.open_files_max() // 4, _OPEN_FILES_MIN)  # active segments and connections need more
        self.open_files = OpenFiles(min(config.open_files_max, most))
        self.logs = LogTable()
        self.futures = LogTable()
        """Copies on their way from another directory."""
        self.offline_partitions: dict[Partition, str] = {}
        """Partitions that are here but cannot be served, and why."""
        self.damaged: dict[Partition, Damaged] = {}
        self.preferred: dict[Partition, str] = {}
        """Where a partition that comes later is to be put."""
        self.doomed: list[Doomed] = []
        self.unsynced: set[str] = set()
        """Directories of new logs that may not survive a power loss yet."""
        self.cleaner = Cleaner(
            disk, clock, random, config.cleaner, self.logs, self.storage_error, self.secure
        )

    @abstractmethod
    async def secure(self, log: Log, offset: int) -> None:
        """Have everything below `offset` on stable storage, and a checkpoint that says so.

        A cleaning waits for this: what it drops must not be superseded by records that a power loss takes,
        and the gaps that it leaves lie below the recovery point, so that one above it is known for a loss.
        """

    def cordon(self, paths: Collection[str]) -> None:
        """Let the directories of `paths`, and no others, refuse new replicas."""
        cordoned = {path.rstrip("/") for path in paths}
        for directory in self.directories:
            directory.cordoned = directory.path in cordoned

    # ---- look-ups

    def by_path(self, path: str) -> LogDirectory:
        return next(directory for directory in self.directories if directory.path == path)

    def directory_of(self, log: Log) -> LogDirectory:
        return self.by_path(directory_of(log))

    def directory_id_of(self, log: Log) -> bytes:
        return self.directory_of(log).id

    def everything(self) -> Iterator[Log]:
        """All logs, those on their way too."""
        yield from list(self.logs.values())
        yield from list(self.futures.values())

    def logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self.everything() if directory_of(log) == directory.path]

    def marked_path(self, log: Log, kind: Kind) -> str:
        """A new name for the directory of a log."""
        return f"{directory_of(log)}/{self.marked_name((log.topic, log.partition), kind)}"

    def marked_name(self, partition: Partition, kind: Kind) -> str:
        return name_of(partition, kind, self.random.bytes(16).hex())

    # ---- leaving

    def rename(self, log: Log, path: str) -> None:
        """Give the directory of a log that stays another name. May raise OSError."""
        old = log.directory
        log.rename_directory(path)
        if old in self.unsynced:
            self.unsynced.discard(old)
            self.unsynced.add(path)

    def doom(self, log: Log, kind: Kind = Kind.DELETED) -> None:
        """Rename a log that is no longer served; its files go later, when readers are done with them."""
        self.cleaner.abort((log.topic, log.partition))
        self.unsynced.discard(log.directory)
        path = self.marked_path(log, kind)
        try:
            log.rename_directory(path)
        except OSError as error:
            self.note_failure(self.directory_of(log), error)
            log.close(clean=False)
            return
        if kind is Kind.DELETED:
            logger.info("Log for partition %s is renamed to %s and is scheduled for deletion", log.name, path)
            self.doomed.append(Doomed(self.clock.now_ms() + self.config.delete_delay_ms, path, log))
        else:
            logger.warning("Log for partition %s is stray and renamed to %s", log.name, path)
            log.close(clean=False)

    # ---- failures

    def storage_error(self, log: Log, error: OSError) -> KafkaError:
        """What to answer when `log` met `error`, after doing what must be done about it."""
        partition = (log.topic, log.partition)
        if self.logs.get(partition) is not log and self.futures.get(partition) is not log:
            return KafkaStorageError(f"The log of {log.name} is no longer served here: {error}.")
        directory = self.directory_of(log)
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
                f"The disk of {directory.path} is full, so {log.name} takes no records until there is room."
            )
        return KafkaStorageError(f"Disk error in {log.directory}: {error}.")

    def contain(self, duty: str, log: Log, error: Exception) -> None:
        """Whatever a duty raised over one log concerns that log alone, or its disk."""
        if isinstance(error, OSError):
            logger.error("%s: %s", log.name, self.storage_error(log, error))
        elif isinstance(error, KafkaError):
            logger.error("%s: %s", log.name, error)
        else:
            self.failures.note(duty, log.name, error)

    def note_failure(self, directory: LogDirectory, error: OSError) -> None:
        """A full disk or a lack of descriptors passes; anything else ends the directory."""
        if error.errno in DISK_FULL:
            if not directory.full:
                logger.error("The disk of %s is full: writes are refused until there is room", directory.path)
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
        for log in self.logs_in(directory):
            partition = (log.topic, log.partition)
            self.cleaner.abort(partition)
            if self.logs.get(partition) is log:
                del self.logs[partition]
                self.offline_partitions[partition] = f"its log directory {directory.path} is offline"
                lost.append(partition)
            else:
                del self.futures[partition]
                self.cleaner.resume(partition)
            log.fail(error)
            log.close(clean=False)
        prefix = f"{directory.path}/"
        self.doomed = [doomed for doomed in self.doomed if not doomed.path.startswith(prefix)]
        self.unsynced = {path for path in self.unsynced if not path.startswith(prefix)}
        for partition in lost:
            self._rename_copy(partition)
        if self._on_offline is not None:
            self._on_offline(directory, lost)

    def _take_log_offline(self, log: Log, error: SegmentsInconsistent) -> None:
        """Stop serving one log until a start has loaded it again. The others in its directory go on."""
        partition = (log.topic, log.partition)
        logger.error("Stopping serving %s: %s", log.name, error)
        self.cleaner.abort(partition)
        if self.logs.get(partition) is not log:
            del self.futures[partition]
            self.cleaner.resume(partition)
            self.doom(log)
            return
        del self.logs[partition]
        self.offline_partitions[partition] = str(error)
        offsets = {
            checkpoints.RECOVERY_POINTS: log.scan_offset,
            checkpoints.LOG_STARTS: log.log_start_offset,
            checkpoints.HIGH_WATERMARKS: log.high_watermark,
        }
        self.damaged[partition] = Damaged(log.directory, offsets)
        directory = self.directory_of(log)
        directory.has_damage = True
        log.close(clean=False)
        self._rename_copy(partition)
        if self._on_offline is not None:
            self._on_offline(directory, [partition])

    def _rename_copy(self, partition: Partition) -> None:
        """A log's directory failed at the end of a move. The copy may lack its last records, so a start must
        not take it for the log."""
        future = self.futures.get(partition)
        if future is None or not future.directory.endswith(f"/{name_of(partition)}"):
            return
        try:
            self.rename(future, self.marked_path(future, Kind.FUTURE))
        except OSError as error:
            self.note_failure(self.directory_of(future), error)
