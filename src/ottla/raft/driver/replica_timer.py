"""Wakes the replica at its deadline. What delays this process does not count as silence of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.ports import Clock
from ottla.raft.contact_deadlines import DeadlineExtensions, FollowerWork
from ottla.raft.replica import Replica
from ottla.raft.roles import Follower

logger = logging.getLogger("ottla.raft.driver")

LATE_WARNING_MS = 500
"""A timer of the quorum that is so late deserves a warning: a leader may lose its leadership."""
RECHECK_MS = 100
"""How often a paused timer checks whether it may continue: a follower flushes, or an election waits."""


def monotonic_ms(clock: Clock) -> int:
    return int(clock.monotonic() * 1000)


class ReplicaTimer:
    def __init__(
        self,
        clock: Clock,
        replica: Replica,
        extension_ms_max: int,
        *,
        can_run: Callable[[], bool],
        is_paused: Callable[[], bool],
        on_time: Callable[[int], None],
    ) -> None:
        """`on_time` gets the time when the deadline of the replica has passed, unless `is_paused`."""
        self._clock = clock
        self._replica = replica
        self._can_run = can_run
        self._is_paused = is_paused
        self._on_time = on_time
        self._extensions = DeadlineExtensions(extension_ms_max)
        self._work_count = 0
        self._handle: asyncio.TimerHandle | None = None
        self._due_ms = 0

    def set(self) -> None:
        """Fire at the deadline of the replica, which may have changed."""
        if not self._can_run():
            return
        deadline_ms = self._replica.deadline_ms
        if deadline_ms is None:
            return
        now_ms = monotonic_ms(self._clock)
        due_ms = max(deadline_ms, now_ms)
        if self._handle is not None:
            if self._due_ms <= due_ms:
                return
            self._handle.cancel()
        self._fire_at(due_ms, now_ms)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _fire_at(self, due_ms: int, now_ms: int) -> None:
        self._due_ms = due_ms
        delay_seconds = (due_ms - now_ms) / 1000
        self._handle = asyncio.get_running_loop().call_later(delay_seconds, self._fire)

    def _fire(self) -> None:
        self._handle = None
        now_ms, role = monotonic_ms(self._clock), self._replica.role
        late_ms = now_ms - self._due_ms
        if late_ms >= LATE_WARNING_MS:
            logger.warning(
                "A timer of the quorum fired %d ms late: the process was suspended or its event loop was "
                "blocked. Extending the timeouts of the other replicas.",
                late_ms,
            )
        is_working = self._work_count > 0 and isinstance(role, Follower)
        if (self._is_paused() or is_working) and self._can_run():
            self._fire_at(now_ms + RECHECK_MS, now_ms)
            return
        self._extensions.extend(role, self._due_ms, now_ms)
        self._on_time(now_ms)
        self.set()

    @contextmanager
    def follower_work(self) -> Iterator[None]:
        """The time in which a follower works on records of its leader is no silence of the leader."""
        work = FollowerWork(self._replica.role, monotonic_ms(self._clock))
        self._work_count += 1
        try:
            yield
        finally:
            self._work_count -= 1
            work.end(self._replica.role, monotonic_ms(self._clock))
