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
