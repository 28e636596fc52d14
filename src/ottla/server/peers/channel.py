"""A connection from this node to another: sends requests and receives responses in order.

It negotiates versions once with ApiVersions and then sends each request in the highest version that both
sides know. Rule: a response belongs to the oldest request in flight, and its correlation id must match;
otherwise the connection is closed, since nothing that follows could be trusted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from ottla.ports import Network
from ottla.version import __version__
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import MalformedMessage, UnsupportedVersion
from ottla.wire.frame import FrameReader, read_response, request_frame
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest

ANSWER_BYTES_MAX = 512 * 1024 * 1024


class ChannelLost(ConnectionError):
    """The connection closed before the response arrived: the request may have been processed or not."""


@dataclass(frozen=True, slots=True)
class _InFlight:
    key: int
    version: int
    correlation_id: int
    answer: asyncio.Future[Any]


class Channel(asyncio.Protocol):
    """The client's end of one connection. Create it with `Channel.open`."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(ANSWER_BYTES_MAX)
        self._unanswered: deque[_InFlight] = deque()
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self.is_closed = False

    @classmethod
    async def open(cls, network: Network, host: str, port: int, *, client_id: str) -> Channel:
        """Connect and learn the peer's API versions. Raises OSError if it cannot be reached."""
        channel = cls(client_id)
        await network.connect(lambda: channel, host, port)
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
        try:
            response = await channel.ask(request, version=3)
            if response.error_code:
                raise UnsupportedVersion(f"{host}:{port} does not support ApiVersions version 3.")
        except BaseException:
            channel.close()
            raise
        channel._versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        return channel

    def version_for(self, key: int) -> int:
        """The highest version of an API that both sides know."""
        ours = API_BY_KEY[key].stable_versions
        first, last = self._versions.get(key, (0, -1))
        if last < ours[0] or first > ours[-1]:
            raise UnsupportedVersion(
                f"The peer supports no version of {API_BY_KEY[key].name} that this node supports."
            )
        return min(ours[-1], last)

    async def ask(self, request: Message, *, version: int | None = None) -> Any:
        """Send a request and return the response."""
        if self._transport is None or self.is_closed:
            raise ChannelLost("The connection is closed.")
        key = request.API_KEY
        assert key is not None, f"{request.NAME} is not a request"
        if version is None:
            version = self.version_for(key)
        self._correlation_id += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        frame = request_frame(request, version, self._correlation_id, self._client_id)
        self._unanswered.append(_InFlight(key, version, self._correlation_id, answer))
        self._transport.write(frame)
        return await answer

    def close(self) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.close()

    # Callbacks from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._take(frame)
        except MalformedMessage as error:
            self._end(ChannelLost(f"The connection was closed: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self._end(ChannelLost(f"The peer closed the connection{f': {error}' if error else ''}."))

    def _take(self, frame: bytes) -> None:
        if not self._unanswered:
            raise MalformedMessage("received an unexpected response.")
        asked = self._unanswered[0]
        correlation_id, response = read_response(frame, asked.key, asked.version)
        if correlation_id != asked.correlation_id:
            raise MalformedMessage("received responses out of order.")
        self._unanswered.popleft()
        if not asked.answer.done():
            asked.answer.set_result(response)

    def _end(self, error: ChannelLost) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()
        while self._unanswered:
            answer = self._unanswered.popleft().answer
            if not answer.done():
                answer.set_exception(error)
