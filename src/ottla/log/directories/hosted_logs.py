"""The logs of a node by partition, and their log directories.

The parts of `LogDirectories` share these tables. Rule: the tables are changed in place, never replaced, since
every part has a reference to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.log.checkpoints import Partition
from ottla.log.compaction.cleaner import directory_of
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.log_table import LogTable
from ottla.log.directories.names import Kind, name_of
from ottla.log.log import Log
from ottla.ports import Random
from ottla.wire.errors import KafkaStorageError


class DamagedLog(NamedTuple):
    """A log that exists but cannot be served. Its checkpoint entries must be kept: without its recovery point
    the next start would treat the damage as a torn end, and truncate."""

    directory: str
    offsets: Mapping[str, int]
    """Checkpoint name -> offset"""


class HostedLogs:
    """See the module."""

    def __init__(self, directories: Sequence[LogDirectory], random: Random) -> None:
        self._random = random
        self.directories = list(directories)
        self.logs = LogTable()
        self.futures = LogTable()
        """Copies that are being moved from another directory."""
        self.offline_partitions: dict[Partition, str] = {}
        """Partitions of this node that cannot be served, and why."""
        self.damaged: dict[Partition, DamagedLog] = {}
        self.preferred: dict[Partition, str] = {}
        """The directories for partitions that may be created later."""
        self.unsynced: set[str] = set()
        """Directories of new logs that are not synced yet: a power loss may remove them."""

    def get(self, partition: Partition) -> Log | None:
        """The log of a partition, None if it is not here; KafkaStorageError if it cannot be served."""
        log = self.logs.get(partition)
        if log is None:
            self.refuse_offline(partition)
        return log

    def refuse_offline(self, partition: Partition) -> None:
        reason = self.offline_partitions.get(partition)
        if reason is not None:
            raise KafkaStorageError(f"{name_of(partition)} cannot be served: {reason}")

    def by_path(self, path: str) -> LogDirectory:
        return next(directory for directory in self.directories if directory.path == path)

    def directory_of(self, log: Log) -> LogDirectory:
        return self.by_path(directory_of(log))

    def everything(self) -> Iterator[Log]:
        """All logs, also copies that are being moved."""
        yield from list(self.logs.values())
        yield from list(self.futures.values())

    def logs_of(self, topic: str) -> list[Log]:
        """The logs of a topic, those on their way too."""
        return [log for table in (self.logs, self.futures) for log in table.by_topic.get(topic, {}).values()]

    def logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self.everything() if directory_of(log) == directory.path]

    # ---- names

    def marked_path(self, log: Log, kind: Kind) -> str:
        """A new name for the directory of a log."""
        return f"{directory_of(log)}/{self.marked_name((log.topic, log.partition), kind)}"

    def marked_name(self, partition: Partition, kind: Kind) -> str:
        return name_of(partition, kind, self._random.bytes(16).hex())

    def rename(self, log: Log, path: str) -> None:
        """Rename the directory of a log that stays. May raise OSError."""
        old = log.directory
        log.rename_directory(path)
        if old in self.unsynced:
            self.unsynced.discard(old)
            self.unsynced.add(path)
