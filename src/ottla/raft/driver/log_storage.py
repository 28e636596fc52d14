"""The metadata log on disk: writes that may use the reserve, and flushes on a thread of their own.

A record counts for this replica only after it is on stable storage. A failed flush is never retried: after it
the log accepts no appends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.log.flush import NotOpened
from ottla.log.log import Log
from ottla.ports import Clock, Disk
from ottla.raft.driver.disk_space import DiskSpace
from ottla.raft.driver.replica_timer import monotonic_ms
from ottla.raft.effects import Effect
from ottla.raft.events import LogFlushed
from ottla.raft.metadata_log import Journal
from ottla.raft.replica import Replica
from ottla.rare_paths import rarely

_T = TypeVar("_T")


class LogStorage:
    """`turn` is the lock under which the log is flushed, truncated or replaced."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        journal: Journal,
        space: DiskSpace,
        replica: Replica,
        act: Callable[[Iterable[Effect]], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self.journal = journal
        self.space = space
        self._replica = replica
        self._act = act
        self.turn = asyncio.Lock()

    @property
    def log(self) -> Log:
        return self.journal.log

    def write(self, write: Callable[[], _T]) -> _T:
        """Call `write`, and again with a block of the reserve as long as the disk is full.

        A truncation that failed halfway is completed before: until then the log accepts no appends.
        """

        def attempt() -> _T:
            self.log.finish_truncation()
            return write()

        return self.space.reserve.attempt(attempt)

    async def flush_and_report(self) -> None:
        """Flush the log, and let the replica count its records. The caller holds the turn."""
        end = self.journal.end
        await self.flush()
        self._act(self._replica.step(LogFlushed(end.end_offset, end.epoch, monotonic_ms(self._clock))))

    async def flush(self) -> None:
        log = self.log
        flush = self.write(log.prepare_flush)
        if flush is not None:
            try:
                await self._disk.offload_urgent(flush.run)
            except NotOpened:
                log.postpone_flush(flush)
                raise
            except OSError as error:
                log.fail(error)
                raise
            if rarely("metadata are flushed slowly"):
                await asyncio.sleep(1.0)
            log.complete_flush(flush)
