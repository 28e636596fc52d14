"""A connection to one node that reconnects: opened on the first request, and again after it was lost.

Requests that arrive while there is no connection wait for it, in order; if it cannot be made, all of them
fail with the reason. After a failure the node is not contacted for `reconnect.backoff.ms`, and longer each
time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.client.connection_options import ConnectionOptions
from ottla.client.core.backoff import Backoff
from ottla.client.core.metadata import Node
from ottla.client.errors import ClientError, Closed, Disconnected, LinkLost, NodeUnknown
from ottla.client.net.connection import Link
from ottla.ports import Clock, Network
from ottla.wire.errors import KafkaError
from ottla.wire.message import Message

_T = TypeVar("_T")

log = logging.getLogger(__name__)

_SHORT_LIFE_SECONDS = 1.0


class LaneSettings:
    """The settings and ports shared by all lanes of a client."""

    __slots__ = ("clock", "connection_options", "network", "on_lost", "on_open", "reconnect", "set_up")

    def __init__(
        self,
        *,
        clock: Clock,
        network: Network,
        connection_options: ConnectionOptions,
        reconnect: Backoff,
        set_up: Backoff,
        on_open: Callable[[Link], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.clock = clock
        self.network = network
        self.connection_options = connection_options
        self.reconnect = reconnect
        self.set_up = set_up
        self.on_open = on_open
        self.on_lost = on_lost


class Lane:
    """One connection to one node at a time. `where` returns its current address, None if unknown."""

    def __init__(self, settings: LaneSettings, where: Callable[[], Node | None]) -> None:
        self.where = where
        self.link: Link | None = None
        self._settings = settings
        self._node: Node | None = None
        self._waiting: deque[tuple[asyncio.Future[Any], Message, dict[str, Any]]] = deque()
        self._opening: asyncio.Task[None] | None = None
        self._opened_at = 0.0
        self._blocked_until = 0.0
        self._failures = 0
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return self.link is not None and not self.link.is_closed

    @property
    def is_usable(self) -> bool:
        """Whether it is open to the node's current address."""
        if self.link is None or self.link.is_closed:
            return False
        node = self.where()
        return node is None or (node.host, node.port) == self._address

    @property
    def is_blocked(self) -> bool:
        """Whether the next attempt must wait, because the last one failed recently."""
        return self._blocked_until > self._settings.clock.monotonic()

    @property
    def in_flight(self) -> int:
        return len(self._waiting) + (self.link.in_flight if self.link is not None else 0)

    @property
    def idle_since(self) -> float | None:
        """When the open connection was last used; None while it is in use or closed."""
        if self.link is None or self.link.is_closed or self.in_flight:
            return None
        return self.link.last_used

    def send(self, request: Message, **options: Any) -> asyncio.Future[Any]:
        """`Link.send`, after connecting if necessary."""
        link = self.link
        if link is not None and not link.is_closed and not self._waiting:
            if self.is_usable:
                return link.send(request, **options)
            node = self.where()
            link.close(
                LinkLost(f"{link.name} is no longer the address of this node; the new address is {node}.")
            )
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.set_exception(Closed("The client is closed."))
            future.exception()  # it counts as read: after the end no caller may be left
            return future
        self._waiting.append((future, request, options))
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        return future

    async def connected(self) -> Link:
        """The open connection."""
        while not self.is_usable:
            if self._is_closed:
                raise Closed("The client is closed.")
            if self.link is not None:
                self.link.close(LinkLost(f"{self.link.name} is no longer the address of this node."))
            if self._opening is None:
                self._opening = asyncio.get_running_loop().create_task(self._open())
            await shared(self._opening)
            if not self.is_open and self._failure is not None:
                raise self._failure
        assert self.link is not None
        return self.link

    _failure: Exception | None = None

    @property
    def _address(self) -> tuple[str, int] | None:
        return None if self._node is None else (self._node.host, self._node.port)

    async def _open(self) -> None:
        clock = self._settings.clock
        self._failure = None
        if self.link is not None and clock.monotonic() - self._opened_at < _SHORT_LIFE_SECONDS:
            self._fail_count()  # a server that accepts and closes at once is no better than one that refuses
        if self.link is not None:
            self._settings.on_lost()
            self.link = None
        try:
            wait_seconds = self._blocked_until - clock.monotonic()
            if wait_seconds > 0:
                await asyncio.sleep(wait_seconds)
            node = self._node = self.where()
            if node is None:
                raise NodeUnknown("The cluster has no node with this id now.")
            settings = self._settings
            link = await Link.open(
                settings.network,
                clock,
                settings.connection_options,
                node.host,
                node.port,
                timeout_ms=settings.set_up.delay_ms(self._failures),
            )
        except Exception as error:  # noqa: BLE001 - a lane that is never done with opening is worse
            failure = self._foreseen(error)
            self._fail_count()
            self._opening = None
            self._failure = failure
            self._fail_waiting(failure)
            return
        except asyncio.CancelledError:
            self._opening = None
            self._fail_waiting(Closed("The client is closed."))
            raise
        self._failures = 0
        self._opened_at = clock.monotonic()
        self._opening = None
        self.link = link
        settings.on_open(link)
        while self._waiting:
            future, request, options = self._waiting.popleft()
            if not future.done():
                link.send_for(future, request, **options)

    def _foreseen(self, error: Exception) -> Exception:
        """The same error, or `Disconnected` instead of one that callers do not expect."""
        if isinstance(error, ClientError | KafkaError | OSError):
            return error
        log.error("Unexpected error while opening a connection.", exc_info=error)
        failure = Disconnected(f"Cannot connect to {self._node}: {error!r}")
        failure.__cause__ = error
        return failure

    def _fail_count(self) -> None:
        delay_ms = self._settings.reconnect.delay_ms(self._failures)
        self._blocked_until = self._settings.clock.monotonic() + delay_ms / 1000
        self._failures += 1

    def _fail_waiting(self, error: Exception) -> None:
        while self._waiting:
            future = self._waiting.popleft()[0]
            if not future.done():
                future.set_exception(error)

    def close(self, error: ClientError | None = None) -> None:
        """Close for good."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        self._fail_waiting(error or Closed("The client is closed."))
        self.close_link(error)

    def close_link(self, error: ClientError | None = None) -> None:
        """Close the connection; the next request opens another."""
        if self.link is not None:
            self.link.close(error)
            self.link = None


async def shared(task: asyncio.Task[_T]) -> _T:
    """Wait for a task that others wait for, too. Cancelling one waiter does not cancel the task."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        waiter = asyncio.current_task()
        if task.cancelled() and waiter is not None and not waiter.cancelling():
            raise Closed("The client is closed.") from None
        raise
