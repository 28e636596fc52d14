"""Loads the logs of one log directory when the node starts.

After a clean stop that is quick. After an unclean one the unflushed segments are scanned, several logs at a
time, with a log line about the progress every few seconds. The rule: a log that cannot be loaded does not
affect others. Damage takes that log alone offline, with the reason; only a failing disk takes the directory
offline.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ottla import properties
from ottla.log import checkpoints
from ottla.log.checkpoints import CheckpointError, Partition
from ottla.log.config import LogConfig
from ottla.log.directories.names import METADATA_LOG, Kind, parse_name
from ottla.log.directories.properties import (
    CLEAN_SHUTDOWN,
    NO_BROKER_EPOCH,
    PARTITION_METADATA,
    DirectoryError,
    parse_clean_shutdown,
    parse_partition_metadata,
)
from ottla.log.log import Log
from ottla.log.open_files import OpenFiles
from ottla.log.segment import COMPACTED_MARK, LogDamaged
from ottla.ports import OUT_OF_RESOURCES, Clock, Disk, Random
from ottla.wire import uuid

logger = logging.getLogger("ottla.log.directories.log_loader")

_REPORT_SECONDS = 5.0
_OTHERS = (METADATA_LOG, "remote-log-index-cache", "nodes")
"""Directories without logs of this node; `nodes` is for further nodes of this machine (`ottla.cluster`)."""


@dataclass(slots=True)
class SurveyedDirectory:
    """What is in a log directory, before and after its logs are loaded."""

    path: str
    is_clean: bool = False
    broker_epoch: int = NO_BROKER_EPOCH
    """From the clean-shutdown marker"""
    recovery_points: dict[Partition, int] = field(default_factory=dict)
    is_contiguous: bool = False
    """Whether a gap between two segments above the recovery points is a loss (`checkpoints.CONTIGUOUS`)."""
    log_starts: dict[Partition, int] = field(default_factory=dict)
    high_watermarks: dict[Partition, int] = field(default_factory=dict)
    cleaned: dict[Partition, int] = field(default_factory=dict)
    to_load: deque[tuple[Partition, Kind, str]] = field(default_factory=deque)
    """(partition, current or future, directory name)"""
    to_delete: list[str] = field(default_factory=list)
    logs: list[tuple[Kind, Log]] = field(default_factory=list)
    damaged: list[tuple[Partition, Kind, str, str]] = field(default_factory=list)
    """(partition, current or future, directory name, why it cannot be served)"""
    failure: OSError | None = None

    @property
    def has_unknown(self) -> bool:
        """Whether a log was accepted, after a clean stop, beyond the recovery point in the checkpoint: it was
        copied here. Once its gaps are below a recovery point, recovery knows that compaction made them."""
        return self.is_clean and any(
            self.recovery_points.get((log.topic, log.partition), -1) < log.scan_offset for _, log in self.logs
        )

    def offsets_of(self, partition: Partition) -> dict[str, int]:
        """The offsets of a partition in the checkpoints, by checkpoint."""
        tables = {
            checkpoints.RECOVERY_POINTS: self.recovery_points,
            checkpoints.LOG_STARTS: self.log_starts,
            checkpoints.HIGH_WATERMARKS: self.high_watermarks,
        }
        return {name: table[partition] for name, table in tables.items() if partition in table}


def survey(disk: Disk, found: SurveyedDirectory) -> SurveyedDirectory:
    """List a directory, and remove its clean-shutdown marker: a crash from now on is unclean. Blocks.

    After an OSError it may be called again with the same `found`, which remembers the marker.
    """
    path = found.path
    marker = f"{path}/{CLEAN_SHUTDOWN}"
    if disk.exists(marker):
        found.broker_epoch = _read_broker_epoch(disk, marker)
        found.is_clean = True
        disk.remove(marker)
    if found.is_clean:
        disk.sync_directory(
            path
        )  # or a power loss could bring it back, and torn segments would not be scanned
    found.recovery_points = _read(
        disk, f"{path}/{checkpoints.RECOVERY_POINTS}", "All segments of all logs are scanned"
    )
    found.is_contiguous = found.recovery_points.pop(checkpoints.CONTIGUOUS, None) is not None
    found.log_starts = _read(disk, f"{path}/{checkpoints.LOG_STARTS}", "Deleted records may come back")
    found.high_watermarks = _read(disk, f"{path}/{checkpoints.HIGH_WATERMARKS}", "High watermarks start low")
    found.cleaned = _read(disk, f"{path}/{checkpoints.CLEANED}", "Cleaning restarts in this directory")
    found.to_load.clear()
    found.to_delete.clear()
    for name in disk.list(path):
        directory = f"{path}/{name}"
        if name in _OTHERS or not disk.is_directory(directory):
            continue
        named = parse_name(name)
        if named is None:
            logger.warning("Ignoring %s, which is not a partition directory", directory)
        elif named.kind is Kind.DELETED:
            found.to_delete.append(directory)
        elif named.kind is Kind.STRAY:
            logger.warning(
                "%s is stray: no topic contains it. Inspect it, then delete it or rename it back", directory
            )
        else:
            found.to_load.append((named.partition, named.kind, name))
    return found


def _read_broker_epoch(disk: Disk, marker: str) -> int:
    try:
        return parse_clean_shutdown(disk.read(marker))
    except OSError as error:
        if error.errno in OUT_OF_RESOURCES:
            raise
        return NO_BROKER_EPOCH


def _read(disk: Disk, path: str, consequence: str) -> dict[Partition, int]:
    try:
        return checkpoints.read(disk, path)
    except CheckpointError as error:
        logger.warning("%s %s.", error, consequence)
        return {}


@dataclass(slots=True)
class Loading:
    """Loads the logs of one directory, on one or more threads that share the list of logs to load."""

    disk: Disk
    clock: Clock
    random: Random
    found: SurveyedDirectory
    configs: dict[str, LogConfig]
    producer_id_expiration_ms: int
    open_files: OpenFiles
    count: int = 0
    reported: float = 0.0

    def run(self) -> None:
        """Load logs until none is left. Blocks; several threads may run it."""
        found = self.found
        while found.failure is None:
            try:
                partition, kind, name = found.to_load.popleft()
            except IndexError:
                return
            directory = f"{found.path}/{name}"
            try:
                log = self._load(partition, directory)
            except (LogDamaged, DirectoryError) as error:
                logger.error("Cannot serve %s: %s", directory, error)
                found.damaged.append((partition, kind, name, str(error)))
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    why = f"{error}. Raise the limit of open files of this process, and start it again."
                    logger.error("Cannot serve %s: %s", directory, why)
                    found.damaged.append((partition, kind, name, why))
                    continue
                found.failure = error
                found.to_load.append((partition, kind, name))
                return
            except Exception as error:
                logger.exception("Cannot serve %s", directory)
                why = f"loading it failed unexpectedly: {error!r}"
                found.damaged.append((partition, kind, name, why))
            else:
                found.logs.append((kind, log))

    def _load(self, partition: Partition, directory: str) -> Log:
        found = self.found
        topic_id = read_topic_id(self.disk, directory)
        config = self.configs[partition[0]]
        # A compacted log without a recovery point was copied here, with its gaps.
        mark = f"{directory}/{COMPACTED_MARK}"
        is_known = partition in found.recovery_points or not self.disk.exists(mark)
        log = Log.open(
            self.disk,
            self.clock,
            directory,
            config,
            topic=partition[0],
            partition=partition[1],
            topic_id=topic_id,
            recovery_point=found.recovery_points.get(partition, 0),
            log_start_offset=found.log_starts.get(partition, 0),
            cleaned_offset=found.cleaned.get(partition, 0),
            is_contiguous=found.is_contiguous and is_known,
            keeps_dropped=config.is_compacted and partition not in found.recovery_points,
            clean=found.is_clean,
            progress=self._report,
            random=self.random,
            open_files=self.open_files,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
        )
        log.set_high_watermark(found.high_watermarks.get(partition, 0))
        return log

    def _report(self, directory: str, bytes_done: int, bytes_total: int) -> None:
        now = self.clock.monotonic()
        if now - self.reported < _REPORT_SECONDS:
            return
        if self.reported:
            logger.info(
                "Recovering %s: %d of %d MB scanned; %d of %d logs of this directory are ready",
                directory,
                bytes_done >> 20,
                bytes_total >> 20,
                len(self.found.logs),
                self.count,
            )
        self.reported = now


def read_topic_id(disk: Disk, directory: str) -> bytes:
    """The topic id of a log, zero if none was written, or none survived a crash."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not disk.exists(path):
        return uuid.ZERO
    text = properties.decode(disk.read(path))
    return parse_partition_metadata(text, path) if text else uuid.ZERO


def configs_of(
    found: Iterable[SurveyedDirectory], log_config: Callable[[str], LogConfig]
) -> dict[str, LogConfig]:
    """The settings of every topic that has a log."""
    topics = {partition[0] for one in found for partition, _, _ in one.to_load}
    return {topic: log_config(topic) for topic in topics}
