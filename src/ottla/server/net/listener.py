"""One listener: a bound port, its connections, and their limits.

Rule: a connection counts from `admit` to `forget`, however it ends (`connection_quotas.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.ports import Clock, Network
from ottla.server.net.connection import READ_BUFFER_BYTES, Connection
from ottla.server.net.connection_quotas import Admission, ConnectionQuotas
from ottla.server.net.loop_lag import LoopLateness
from ottla.server.net.request_memory import RequestMemory
from ottla.server.net.response_memory import ResponseMemory
from ottla.server.net.turns import Turns

if TYPE_CHECKING:
    from ottla.server.net.dispatch import Dispatcher
    from ottla.waiting.pending_response import PendingResponse

logger = logging.getLogger("ottla.server.net.listener")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """The settings of a listener."""

    name: str
    host: str
    port: int
    frame_bytes_max: int
    idle_max_ms: int
    backlog: int = 50


class Listener:
    """A bound port. After `serve`, `dispatch` gets each frame that `express` does not answer."""

    dispatch: Callable[[Connection, memoryview], bool | None]
    express: Callable[[memoryview, int, int], bytes | PendingResponse | None]
    answer_read: Callable[[memoryview, int], bytes | PendingResponse | None]
    request_failed: Callable[[Connection, Exception], None]

    def __init__(
        self,
        settings: ListenerSettings,
        *,
        clock: Clock,
        memory: RequestMemory,
        answers: ResponseMemory,
        quotas: ConnectionQuotas,
        lateness: LoopLateness,
        turns: Turns,
    ) -> None:
        self.name = settings.name
        self.clock = clock
        self.memory = memory
        self.answers = answers
        self.lateness = lateness
        self.turns = turns
        self.frame_bytes_max = settings.frame_bytes_max
        self.read_buffer = memoryview(bytearray(READ_BUFFER_BYTES))
        self.connections: dict[Connection, None] = {}
        self.port = settings.port
        self.host_shown = settings.host or "0.0.0.0"
        self._settings = settings
        self._quotas = quotas
        self._server: asyncio.AbstractServer | None = None
        self.make_room: Callable[[], None] = lambda: None  # closes a connection of another listener

    async def bind(self, network: Network) -> None:
        """Bind the port; afterwards `port` is the real one, also if 0 requested a free one."""
        settings = self._settings
        self._server = await network.listen(
            lambda: Connection(self), settings.host, settings.port, backlog=settings.backlog
        )
        sockets = getattr(self._server, "sockets", None)
        if sockets:
            self.port = sockets[0].getsockname()[1]

    async def serve(self, dispatcher: Dispatcher) -> None:
        """Accept connections, and pass their frames to the dispatcher."""
        assert self._server is not None, "bind comes first"
        self.dispatch = dispatcher.dispatch
        self.express = dispatcher.express.answer
        self.answer_read = dispatcher.express.answer_read
        self.request_failed = dispatcher.request_failed
        await self._server.start_serving()

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Close the port and every connection."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    def admit(self, connection: Connection) -> Admission:
        """Count a new connection, and decide about it."""
        self.connections[connection] = None
        admission = self._quotas.add(self.name, connection.peer_host)
        if self._quotas.is_exceeded and self._quotas.is_protected(self.name):
            self.make_room()
        return admission

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._quotas.drop(self.name, connection.peer_host)

    def close_idle(self) -> None:
        """Close connections silent for `connections.max.idle.ms`, unless they wait for an answer."""
        if self._settings.idle_max_ms < 0:
            return
        oldest = self.clock.monotonic() - self._settings.idle_max_ms / 1000
        for connection in [one for one in self.connections if one.last_active < oldest]:
            if not connection.has_unanswered:
                logger.debug("Closed idle connection from %s:%d", connection.peer_host, connection.peer_port)
                connection.close()
