"""Creates empty logs in a log directory.

The rule: a new log may not survive a power loss until it is synced, so it is added to `unsynced`.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.log.checkpoints import Partition
from ottla.log.config import LogConfig
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.properties import PARTITION_METADATA, format_partition_metadata
from ottla.log.log import Log
from ottla.log.open_files import OpenFiles
from ottla.ports import Clock, Disk, Random
from ottla.wire import uuid


class LogFactory:
    """See the module."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        *,
        log_config: Callable[[str], LogConfig],
        open_files: OpenFiles,
        producer_id_expiration_ms: int,
        unsynced: set[str],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._random = random
        self._log_config = log_config
        self._open_files = open_files
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._unsynced = unsynced

    def create(self, directory: LogDirectory, name: str, key: Partition, topic_id: bytes) -> Log:
        """A new, empty log. May raise OSError, and then removes its directory."""
        path = f"{directory.path}/{name}"
        try:
            log = Log.open(
                self._disk,
                self._clock,
                path,
                self._log_config(key[0]),
                topic=key[0],
                partition=key[1],
                topic_id=uuid.ZERO,
                clean=True,
                random=self._random,
                open_files=self._open_files,
                producer_id_expiration_ms=self._producer_id_expiration_ms,
            )
            self.write_topic_id(log, topic_id)
        except OSError:
            self._disk.remove_tree(path)
            raise
        return log

    def write_topic_id(self, log: Log, topic_id: bytes) -> None:
        """Write the topic id of a log to `partition.metadata`. May raise OSError."""
        if topic_id != uuid.ZERO:
            content = format_partition_metadata(topic_id).encode()
            self._disk.replace(f"{log.directory}/{PARTITION_METADATA}", content, sync=False)
            log.topic_id = topic_id
            self._unsynced.add(log.directory)
