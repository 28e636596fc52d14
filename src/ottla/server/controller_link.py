"""The way from a broker to the active controller on another node: one connection, asked again until answered.

Where the controller is, the follower of the metadata log knows. Rule: a request is sent again when its
connection broke or its receiver is not the controller any more, as Kafka's brokers do; so it may be carried
out twice, and whatever is asked here must bear that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.ports import Clock, Network
from ottla.server.channel import Channel
from ottla.server.forwarding import mentions_error
from ottla.wire.errors import ErrorCode, RequestTimedOut, for_code
from ottla.wire.message import Message

Address = tuple[str, int]


class ControllerLink:
    """Asks whoever is the active controller now."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        find_controller: Callable[[], Address | None],
        *,
        client_id: str,
        retry_seconds: float,
        socket_timeout_ms: int,
    ) -> None:
        """`socket_timeout_ms`: a controller that is silent for so long is taken for gone."""
        self._network = network
        self._clock = clock
        self._find_controller = find_controller
        self._client_id = client_id
        self._retry_seconds = retry_seconds
        self._socket_timeout_s = socket_timeout_ms / 1000
        self._channel: Channel | None = None
        self._address: Address | None = None
        self._opening: asyncio.Lock = asyncio.Lock()

    async def ask(self, request: Message, *, timeout_ms: int) -> Any:
        """The controller's answer. RequestTimedOut: there was none in time; else the error that it gave."""
        response = await self.exchange(request, timeout_ms=timeout_ms)
        code = getattr(response, "error_code", 0)
        if code:
            raise for_code(code)(getattr(response, "error_message", None))
        return response

    async def exchange(self, request: Message, *, timeout_ms: int) -> Any:
        """The controller's answer, errors and all, but never NOT_CONTROLLER."""
        deadline = self._clock.monotonic() + timeout_ms / 1000
        problem = "no active controller is known"
        while True:
            remaining = deadline - self._clock.monotonic()
            if remaining <= 0:
                raise RequestTimedOut(
                    f"The active controller did not answer {request.NAME} within {timeout_ms} ms: {problem}."
                )
            address = self._find_controller()
            if address is not None:
                where = f"{address[0]}:{address[1]}"
                try:
                    async with asyncio.timeout(min(remaining, self._socket_timeout_s)):
                        response = await self._ask_once(address, request)
                except TimeoutError:
                    problem = f"{where} is silent"
                    self._drop()
                except OSError as error:
                    problem = f"{where} cannot be reached: {error}"
                    self._drop()
                else:
                    if not mentions_error(response, ErrorCode.NOT_CONTROLLER):
                        return response
                    problem = f"{where} is not the active controller"
                    self._drop()
            await asyncio.sleep(self._retry_seconds)

    def close(self) -> None:
        self._drop()

    async def _ask_once(self, address: Address, request: Message) -> Any:
        async with self._opening:
            channel = self._channel
            if channel is None or channel.is_closed or address != self._address:
                self._drop()
                channel = await Channel.open(self._network, *address, client_id=self._client_id)
                self._channel, self._address = channel, address
        return await channel.ask(request)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
