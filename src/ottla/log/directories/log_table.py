"""Logs by partition, with a count of those in each log directory.

A new log goes to the directory with the fewest: counting all logs for each new one would take minutes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ottla.log.compaction.cleaner import directory_of
from ottla.log.directories.checkpoints import Partition
from ottla.log.log import Log

_MISSING: Any = object()


class LogTable(dict[Partition, Log]):
    """A dict whose changes are counted in `counts`, by log directory. A log stays in its directory."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __setitem__(self, partition: Partition, log: Log) -> None:
        self.pop(partition, None)
        super().__setitem__(partition, log)
        self.counts[directory_of(log)] += 1

    def __delitem__(self, partition: Partition) -> None:
        self.pop(partition)

    def setdefault(self, partition: Partition, log: Log) -> Log:
        if partition not in self:
            self[partition] = log
        return self[partition]

    def pop(self, partition: Partition, default: Any = _MISSING) -> Any:
        if default is not _MISSING and partition not in self:
            return default
        log = super().pop(partition)
        self.counts[directory_of(log)] -= 1
        return log

    def clear(self) -> None:
        super().clear()
        self.counts.clear()
