"""A connection from this node to another: sends requests and receives responses in order.

It negotiates versions once with ApiVersions and then sends each request in the highest version that both
sides know. Rule: a response belongs to the oldest request in flight, and its correlation id must match;
otherwise the connection is closed, since nothing that follows could be trusted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
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


Repeat = Callable[[bytes, int], bytes | None]
"""Handles the frame of a response with this correlation id: the frame of the next request of the same API and
version, whose id is the next one. Or None: the response is decoded, and is the answer."""


class InFlight:
    """A request that waits for its response, or the last one of several that are repeated."""

    __slots__ = ("answer", "correlation_id", "key", "repeat", "sent_at", "version")

    def __init__(
        self, key: int, version: int, correlation_id: int, answer: asyncio.Future[Any], repeat: Repeat | None
    ) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.answer = answer
        self.repeat = repeat
        self.sent_at = 0.0  # by the clock of the event loop; only of requests that are repeated


class Channel(asyncio.Protocol):
    """The client's end of one connection. Create it with `Channel.open`."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(ANSWER_BYTES_MAX)
        self._unanswered: deque[InFlight] = deque()
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
        return await self._send(request, key, version, None).answer

    def ask_repeatedly(self, request: Message, version: int, repeat: Repeat) -> InFlight:
        """Send a request, and others after it for as long as `repeat` handles the responses. The first one
        that it does not handle is the answer.
        """
        if self._transport is None or self.is_closed:
            raise ChannelLost("The connection is closed.")
        assert request.API_KEY is not None, f"{request.NAME} is not a request"
        return self._send(request, request.API_KEY, version, repeat)

    def _send(self, request: Message, key: int, version: int, repeat: Repeat | None) -> InFlight:
        assert self._transport is not None
        self._correlation_id += 1
        loop = asyncio.get_running_loop()
        frame = request_frame(request, version, self._correlation_id, self._client_id)
        sent = InFlight(key, version, self._correlation_id, loop.create_future(), repeat)
        if repeat is not None:
            sent.sent_at = loop.time()
        self._unanswered.append(sent)
        self._transport.write(frame)
        return sent

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
        if asked.repeat is not None and len(self._unanswered) == 1 and not asked.answer.done():
            following = asked.repeat(frame, self._correlation_id)
            if following is not None:
                self._correlation_id += 1
                asked.correlation_id = self._correlation_id
                asked.sent_at = asyncio.get_running_loop().time()
                if self._transport is not None and not self.is_closed:
                    self._transport.write(following)
                return
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
