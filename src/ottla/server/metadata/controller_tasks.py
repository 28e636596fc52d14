"""The periodic tasks of the active controller. They do nothing on a node that does not lead."""

from __future__ import annotations

import logging

from ottla.config import BrokerConfig
from ottla.controller.brokers import fence_stale_broker
from ottla.controller.elections import balance_leaders, elect_unclean_leaders
from ottla.controller.result import Decision, Result
from ottla.ports import Clock
from ottla.raft.driver import Driver
from ottla.server.metadata.active_controller import ActiveController
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import NoOpRecord

logger = logging.getLogger("ottla.server.metadata.controller_tasks")

SESSIONS_LATE_MS = 50
"""A session check that is this late extends the sessions."""


class ControllerTasks:
    """Fences silent brokers, elects leaders, and appends no-op records."""

    def __init__(
        self, active: ActiveController, driver: Driver[Message], clock: Clock, config: BrokerConfig
    ) -> None:
        self._active = active
        self._driver = driver
        self._clock = clock
        self.idle_s = config.int_of("metadata.max.idle.interval.ms") / 1000
        self.session_check_s = config.int_of("broker.session.timeout.ms") / 8000
        self.sessions_checked_at = clock.monotonic()

    async def write_no_op(self) -> None:
        """Append a no-op record if nothing else was appended for a while."""
        if self._driver.is_disk_full:
            return  # the room that is left is for what somebody asked for
        active = self._active
        if active.is_active and self._clock.monotonic() - active.last_append_at >= self.idle_s * 0.9:
            await active.decide(lambda _: Result(None, [NoOpRecord()]))

    async def fence_stale_brokers(self) -> None:
        """Fence silent brokers. After a stall of this process, their heartbeats may be unread."""
        now = self._clock.monotonic()
        late_ms = int((now - self.sessions_checked_at - self.session_check_s) * 1000)
        if late_ms >= SESSIONS_LATE_MS and self._active.state is not None:
            logger.warning("Broker session check is %d ms late; extending all sessions accordingly", late_ms)
            self._active.extend_sessions(late_ms)
        try:
            await self._repeat(fence_stale_broker)
        finally:
            self.sessions_checked_at = self._clock.monotonic()

    async def elect_unclean_leaders(self) -> None:
        await self._repeat(elect_unclean_leaders)

    async def balance_leaders(self) -> None:
        await self._repeat(balance_leaders)

    async def _repeat(self, decision: Decision[bool]) -> None:
        """Repeat a decision that does a bounded part of the work, until none is left."""
        while self._active.is_active and await self._active.decide(decision):
            pass
