"""Deletes old segments of all logs of a node, and expires idle producers."""

from __future__ import annotations

import asyncio

from ottla.log.compaction.cleaner import Cleaner
from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import HostedLogs
from ottla.ports import Clock


class Retention:
    """See the module."""

    def __init__(self, clock: Clock, hosted: HostedLogs, cleaner: Cleaner, errors: DiskErrors) -> None:
        self._clock = clock
        self._hosted = hosted
        self._cleaner = cleaner
        self._errors = errors

    async def delete_old_segments(self) -> int:
        """Delete old segments of logs that are not compacted (the cleaner does the others); how many.

        Copies of moves keep theirs: one that starts after its log would have to be copied again.
        """
        deleted = 0
        for log in list(self._hosted.logs.values()):
            try:
                if log.failure is None and not (log.config.is_compacted and self._cleaner.config.enabled):
                    deleted += log.delete_old_segments(self._clock.now_ms())
            except Exception as error:  # noqa: BLE001 - it affects this log alone
                self._errors.contain("retention", log, error)
            await asyncio.sleep(0)
        return deleted

    def expire_producers(self) -> None:
        now_ms = self._clock.now_ms()
        for log in self._hosted.everything():
            try:
                log.expire_producers(now_ms)
            except Exception as error:  # noqa: BLE001 - it affects this log alone
                self._errors.contain("expiry of producers", log, error)
