"""Connections from this broker to others, on the inter-broker listener: one per broker, opened on demand.

A request is sent once. The caller decides whether to retry after a failure, since the request may have been
processed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from ottla.server.parts import HasConfig, HasImage, HasNodeId
from ottla.server.peers.channel import Channel
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.ports import Network

_Address = tuple[str, int]


class ChannelParts(HasNodeId, HasConfig, HasImage, Protocol):
    """The parts of a node that `BrokerChannels` uses."""


class Repeater(Protocol):
    """Handles responses of one API without messages, and sends the next requests."""

    def begin(self, request: Any, version: int, client_id: str) -> bool:
        """Whether the responses to this request may be handled that way."""

    def take(self, frame: bytes, correlation_id: int) -> bytes | None:
        """See `channel.Repeat`."""


class BrokerUnknown(ConnectionError):
    """The broker is unknown to the cluster, or not alive."""


class BrokerChannels:
    """Sends requests to other brokers."""

    def __init__(
        self,
        parts: ChannelParts,
        network: Network,
        *,
        client_id: str | None = None,
        timeout_setting: str = "request.timeout.ms",
    ) -> None:
        self._parts = parts
        self._network = network
        self._timeout_setting = timeout_setting
        self._client_id = client_id or f"broker-{parts.node_id}-txn-marker-sender"
        self._channels: dict[int, tuple[_Address, Channel]] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    def address_of(self, broker_id: int) -> _Address | None:
        """The address of a live broker on the inter-broker listener."""
        registration = self._parts.image.brokers.get(broker_id)
        if registration is None or registration.fenced:
            return None
        endpoint = registration.endpoint(self._parts.config.inter_broker_listener_name)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    async def ask(self, broker_id: int, request: Message) -> Any:
        """The response of one broker. Raises OSError (also on a timeout) if there is none."""
        timeout_ms = self._parts.config.int_of(self._timeout_setting)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                channel = await self._channel(broker_id)
                return await channel.ask(request)
        except TimeoutError:
            self._drop(broker_id)
            raise TimeoutError(
                f"broker {broker_id} did not answer for {timeout_ms} ms ({self._timeout_setting})"
            ) from None

    async def ask_repeatedly(self, broker_id: int, request: Message, repeater: Repeater) -> Any:
        """The same, and `repeater` may handle responses and send more requests. The timeout is that of each
        of them.
        """
        timeout_ms = self._parts.config.int_of(self._timeout_setting)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                channel = await self._channel(broker_id)
            key = request.API_KEY
            assert key is not None, f"{request.NAME} is not a request"
            version = channel.version_for(key)
            if not repeater.begin(request, version, self._client_id):
                async with asyncio.timeout(timeout_ms / 1000):
                    return await channel.ask(request, version=version)
            return await self._answer_within(
                timeout_ms / 1000, broker_id, channel, request, version, repeater
            )
        except TimeoutError:
            self._drop(broker_id)
            raise TimeoutError(
                f"broker {broker_id} did not answer for {timeout_ms} ms ({self._timeout_setting})"
            ) from None

    async def _answer_within(
        self,
        timeout_s: float,
        broker_id: int,
        channel: Channel,
        request: Message,
        version: int,
        repeater: Repeater,
    ) -> Any:
        loop = asyncio.get_running_loop()
        parts = self._parts
        registration = parts.image.brokers.get(broker_id)
        take = repeater.take

        def repeat(frame: bytes, correlation_id: int) -> bytes | None:
            # A broker that is fenced or has moved is not asked again on this connection.
            return take(frame, correlation_id) if parts.image.brokers.get(broker_id) is registration else None

        sent = channel.ask_repeatedly(request, version, repeat)

        def check() -> None:
            due = sent.sent_at + timeout_s
            if due > loop.time():
                timers[0] = loop.call_at(due, check)
            elif not sent.answer.done():
                sent.answer.set_exception(TimeoutError())

        timers = [loop.call_at(sent.sent_at + timeout_s, check)]
        try:
            return await sent.answer
        finally:
            timers[0].cancel()

    def close(self) -> None:
        for broker_id in list(self._channels):
            self._drop(broker_id)

    async def _channel(self, broker_id: int) -> Channel:
        channel = self._open_channel(broker_id)
        if channel is not None:
            return channel
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            channel = self._open_channel(broker_id)  # another task may have opened it meanwhile
            if channel is None:
                address = self.address_of(broker_id)
                if address is None:
                    raise BrokerUnknown(f"Broker {broker_id} is not alive.")
                self._drop(broker_id)
                channel = await Channel.open(self._network, *address, client_id=self._client_id)
                self._channels[broker_id] = (address, channel)
            return channel

    def _open_channel(self, broker_id: int) -> Channel | None:
        known = self._channels.get(broker_id)
        if known is None or known[1].is_closed or known[0] != self.address_of(broker_id):
            return None
        return known[1]

    def _drop(self, broker_id: int) -> None:
        known = self._channels.pop(broker_id, None)
        if known is not None:
            known[1].close()
