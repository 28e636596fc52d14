"""Surveys the log directories of a node at its start, loads their logs and adds them to `HostedLogs`.

The rule: a lack of descriptors or memory passes, so a survey that meets one is retried. Any other error of a
disk takes its directory offline, and the other directories go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.log.compaction.cleaner import Cleaner
from ottla.log.config import LogConfig
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import DamagedLog, HostedLogs
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.log_loader import Loading, SurveyedDirectory, configs_of, survey
from ottla.log.directories.log_removal import LogRemoval
from ottla.log.directories.names import Kind
from ottla.log.directories.pending_deletions import PendingDeletions
from ottla.log.directories.properties import DirectoryError
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.log.open_files import OpenFiles
from ottla.ports import OUT_OF_RESOURCES, Clock, Disk, Random

logger = logging.getLogger("ottla.log.directories.log_directories")

_SURVEYS_MAX = 10
_SURVEY_PAUSE_S = 0.5

StrayCheck = Callable[[Log], str | None]
"""Says why a log does not belong on this node, None if it does."""


class Startup:
    """See the module."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        hosted: HostedLogs,
        *,
        log_config: Callable[[str], LogConfig],
        open_files: OpenFiles,
        producer_id_expiration_ms: int,
        recovery_threads: int,
        cleaner: Cleaner,
        deletions: PendingDeletions,
        removal: LogRemoval,
        errors: DiskErrors,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._random = random
        self._hosted = hosted
        self._log_config = log_config
        self._open_files = open_files
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._recovery_threads = recovery_threads
        self._cleaner = cleaner
        self._deletions = deletions
        self._removal = removal
        self._errors = errors

    async def load(self, is_stray: StrayCheck | None) -> list[SurveyedDirectory]:
        """Load every log, scanning what may be torn; what was found in each online directory."""
        surveyed = await self._survey_all()
        configs = configs_of(surveyed, self._log_config)
        runs = []
        for found in surveyed:
            loading = Loading(
                self._disk,
                self._clock,
                self._random,
                found,
                configs,
                self._producer_id_expiration_ms,
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
            threads = 1 if found.is_clean else self._recovery_threads
            runs += [outlast(self._disk, loading.run) for _ in range(threads)]
        await asyncio.gather(*runs)
        for found in surveyed:
            self._take(found, is_stray)
        return surveyed

    async def _survey_all(self) -> list[SurveyedDirectory]:
        """List the directories. DirectoryError: the process lacks descriptors or memory for it."""
        online = [directory for directory in self._hosted.directories if directory.online]
        surveys = await asyncio.gather(*map(self._survey, online), return_exceptions=True)
        for found in surveys:
            if isinstance(found, BaseException):
                raise found
        return [found for found in surveys if isinstance(found, SurveyedDirectory)]

    async def _survey(self, directory: LogDirectory) -> SurveyedDirectory | None:
        found = SurveyedDirectory(directory.path)
        for attempt in range(1, _SURVEYS_MAX + 1):
            try:
                await outlast(self._disk, survey, self._disk, found)
                await outlast(self._disk, self._cleaner.load_checkpoint, directory.path)
                return found
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    self._errors.take_offline(directory, error)
                    return None
                logger.error("Failed to list the logs of %s (attempt %d): %s", directory.path, attempt, error)
                failure = error
            await asyncio.sleep(_SURVEY_PAUSE_S)
        raise DirectoryError(
            f"Cannot read {directory.path}: {failure}. Raise the limit of open files of this process, and "
            "start it again."
        )

    def _take(self, found: SurveyedDirectory, is_stray: StrayCheck | None) -> None:
        """Add the logs that were loaded from one directory to the tables."""
        directory = self._hosted.by_path(found.path)
        if found.failure is not None:
            lost = [(log.topic, log.partition) for kind, log in found.logs if kind is Kind.CURRENT]
            lost += [partition for partition, kind, _ in found.to_load if kind is Kind.CURRENT]
            for partition in lost:
                self._hosted.offline_partitions[partition] = f"its log directory {found.path} is offline"
            for _, log in found.logs:
                log.close(clean=False)
            self._errors.take_offline(directory, found.failure)
            return
        for partition, kind, name, why in found.damaged:
            if kind is Kind.CURRENT:
                self._hosted.offline_partitions[partition] = why
                self._hosted.damaged[partition] = DamagedLog(
                    f"{found.path}/{name}", found.offsets_of(partition)
                )
        for path in found.to_delete:
            self._deletions.add(path)
        directory.is_loaded = True
        # A damaged log may have gaps.
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
        table = self._hosted.futures if kind is Kind.FUTURE else self._hosted.logs
        other = table.setdefault(partition, log)
        if other is not log:
            # A crash at the end of a move leaves two with the same records, one perhaps with more. The copy
            # may have been truncated after it replaced the log, in a later epoch.
            is_longer = _extent(log) > _extent(other)
            winner, loser = (log, other) if is_longer else (other, log)
            logger.error(
                "%s and %s contain the same partition; keeping the first", winner.directory, loser.directory
            )
            table[partition] = winner
            self._removal.mark(loser, Kind.STRAY)
        elif kind is Kind.FUTURE:
            self._cleaner.pause(partition)


def _extent(log: Log) -> tuple[int, int]:
    return log.epochs.latest_epoch, log.log_end_offset
