"""Logs by partition, with those of each topic, and a count of those in each log directory.

A new log goes to the directory with the fewest: counting all logs for each new one would take minutes. So
would looking at all of them for each topic whose settings change.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ottla.log.checkpoints import Partition
from ottla.log.compaction.cleaner import directory_of
from ottla.log.log import Log

_MISSING: Any = object()


class LogTable(dict[Partition, Log]):
    """A dict that keeps `counts`, by log directory, and `by_topic`. A log stays in its directory."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.by_topic: dict[str, dict[int, Log]] = {}

    def __setitem__(self, partition: Partition, log: Log) -> None:
        self.pop(partition, None)
        super().__setitem__(partition, log)
        self.counts[directory_of(log)] += 1
        self.by_topic.setdefault(partition[0], {})[partition[1]] = log

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
        of_topic = self.by_topic[partition[0]]
        del of_topic[partition[1]]
        if not of_topic:
            del self.by_topic[partition[0]]
        return log

    def clear(self) -> None:
        super().clear()
        self.counts.clear()
        self.by_topic.clear()
