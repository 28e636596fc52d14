"""Finds the log of a partition, or creates it in the most suitable directory."""

from __future__ import annotations

import logging

from ottla.log.checkpoints import Partition
from ottla.log.compaction.cleaner import directory_of
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import HostedLogs
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.log_factory import LogFactory
from ottla.log.directories.moves import Moves
from ottla.log.directories.names import name_of
from ottla.log.log import Log
from ottla.wire import uuid
from ottla.wire.errors import InconsistentTopicId, KafkaStorageError

logger = logging.getLogger("ottla.log.directories.log_directories")

_UNCHOSEN = (None, uuid.DIRECTORY_MIGRATING, uuid.DIRECTORY_UNASSIGNED, uuid.DIRECTORY_LOST)


class LogCreation:
    """See the module."""

    def __init__(self, hosted: HostedLogs, factory: LogFactory, moves: Moves, errors: DiskErrors) -> None:
        self._hosted = hosted
        self._factory = factory
        self._moves = moves
        self._errors = errors

    def create(self, key: Partition, topic_id: bytes, *, directory_id: bytes | None, is_new: bool) -> Log:
        """See `LogDirectories.create`."""
        log = self._hosted.logs.get(key)
        if log is None:
            self._hosted.refuse_offline(key)
            offline = ", ".join(
                directory.path for directory in self._hosted.directories if not directory.online
            )
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
        """The unfinished copy of a move, if the log itself is missing: no other data of it is left."""
        future = self._hosted.futures.get(key)
        if future is None or future.topic_id not in (None, uuid.ZERO, topic_id):
            return None
        try:
            self._hosted.rename(future, f"{directory_of(future)}/{name_of(key)}")
        except OSError as error:
            raise self._errors.storage_error(future, error) from error
        self._hosted.unsynced.add(future.directory)
        self._moves.cancel(key)
        self._hosted.logs[key] = future
        logger.error(
            "The log of %s is missing: its copy in %s, up to offset %d, replaces it",
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
            self._hosted.preferred.pop(key, None)
            self._hosted.logs[key] = log
            logger.info("Created log for partition %s in %s", name_of(key), log.directory)
            return log
        raise KafkaStorageError(
            f"No log directory can host {name_of(key)}. Tried: {', '.join(tried) or 'none'}."
        )

    def _candidates(self, key: Partition, directory_id: bytes | None) -> list[LogDirectory]:
        """The directories for a new log, the best first."""
        online = [directory for directory in self._hosted.directories if directory.online]
        preferred = self._hosted.preferred.get(key)
        for directory in online:
            if directory.path == preferred:
                return [directory]
        if directory_id not in _UNCHOSEN:
            for directory in online:
                if directory.id == directory_id:
                    return [directory]
        usable = [directory for directory in online if not directory.cordoned]
        if not usable:
            # The controller assigned the replica before it knew that every directory is cordoned.
            return online[:1]
        if len(usable) == 1:
            return usable

        def load(directory: LogDirectory) -> tuple[bool, int]:
            path = directory.path
            return directory.full, self._hosted.logs.counts[path] + self._hosted.futures.counts[path]

        return sorted(usable, key=load)
