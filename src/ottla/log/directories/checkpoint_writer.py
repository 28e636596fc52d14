"""Writes the checkpoints of a node's log directories.

The rule: a checkpoint is written after the files it describes, so it may be old but not wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.log import checkpoints
from ottla.log.checkpoints import CheckpointFile, Partition
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import HostedLogs
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.ports import Disk

logger = logging.getLogger("ottla.log.directories.log_directories")


class CheckpointWriter:
    """See the module. Nothing here raises when a disk fails: its directory goes offline."""

    def __init__(self, disk: Disk, hosted: HostedLogs, cleaner: Cleaner, errors: DiskErrors) -> None:
        self._disk = disk
        self._hosted = hosted
        self._cleaner = cleaner
        self._errors = errors

    async def write_everywhere(self, name: str) -> None:
        for directory in self._hosted.directories:
            await self.write(directory, name)

    async def write(self, directory: LogDirectory, name: str) -> bool:
        """Write one checkpoint of one directory to stable storage; False if that fails."""
        if not directory.online or not directory.is_loaded:
            return False
        file = directory.files.get(name)
        if file is None:
            file = directory.files[name] = CheckpointFile(self._disk, f"{directory.path}/{name}")
        try:
            await file.write(lambda: self._offsets(directory, name))
        except OSError as error:
            logger.error("Could not write %s/%s: %s", directory.path, name, error)
            self._errors.note_failure(directory, error)
            return False
        return True

    def _offsets(self, directory: LogDirectory, name: str) -> dict[Partition, int]:
        offsets = {}
        if name == checkpoints.RECOVERY_POINTS and directory.is_contiguous:
            offsets[checkpoints.CONTIGUOUS] = 0
        for partition, damaged in self._hosted.damaged.items():
            if name in damaged.offsets and damaged.directory.startswith(f"{directory.path}/"):
                offsets[partition] = damaged.offsets[name]
        for log in self._hosted.logs_in(directory):
            partition = (log.topic, log.partition)
            try:
                offset = _offset_of(log, name)
            except Exception as error:  # noqa: BLE001 - the value in the file is old, not wrong
                self._errors.contain(name, log, error)
                offset = directory.files[name].known.get(partition)
            if offset is not None:
                offsets[partition] = offset
        return offsets

    async def forget_removed(self, paths: Iterable[str]) -> None:
        """After logs were removed: remove them from the checkpoints, before a topic of the same name is
        created."""
        for path in paths:
            directory = self._hosted.by_path(path)
            await self.write(directory, checkpoints.RECOVERY_POINTS)
            await self.write(directory, checkpoints.LOG_STARTS)
            if directory.online:
                try:
                    await self._cleaner.set_cleaned(path, {})
                    await outlast(self._disk, self._disk.sync_directory, path)
                except OSError as error:
                    self._errors.note_failure(directory, error)


def _offset_of(log: Log, name: str) -> int | None:
    """The offset of a log for a checkpoint; None for no entry."""
    if name == checkpoints.RECOVERY_POINTS:
        return log.scan_offset
    if name == checkpoints.HIGH_WATERMARKS:
        return log.high_watermark
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None
