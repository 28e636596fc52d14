"""One connection to one server: TLS, ApiVersions, SASL, then requests and responses in order.

Rule: a response belongs to the oldest unanswered request, which its correlation id must confirm. Anything
else, and a response that does not arrive in time, closes the connection: later responses could not be
trusted. A large response is received straight into its own buffer, and `records` in it are views on that.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.client.connection_options import ConnectionOptions
from ottla.client.errors import (
    AuthenticationFailed,
    ClientError,
    Closed,
    ConnectionRefused,
    ConnectTimedOut,
    Disconnected,
    LinkLost,
    NameNotResolved,
    ProtocolMismatch,
    RequestTimedOut,
    TlsFailed,
)
from ottla.ports import Clock, NameNotFound, Network
from ottla.records import kernel
from ottla.version import __version__
from ottla.wire.apis import API_BY_KEY, API_VERSIONS
from ottla.wire.errors import ErrorCode, KafkaError, MalformedMessage, UnsupportedVersion
from ottla.wire.frame import SIZE_BYTES, read_response, read_size, request_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

RECEIVE_BYTES = 64 * 1024
_NO_ROOM = memoryview(b"")
"""The receive buffer before a connection is made, and after it: failed attempts use little memory."""
_TLS_ALERT = b"\x15\x03"


class _PendingRequest:
    """A request in flight, or one that waits until this link may send."""

    __slots__ = ("answer", "correlation_id", "key", "then", "timer", "version")

    def __init__(
        self, key: int, version: int, answer: asyncio.Future[Any], then: Callable[[Any], Any] | None
    ) -> None:
        self.key = key
        self.version = version
        self.correlation_id = 0
        self.answer = answer
        self.then = then
        self.timer: asyncio.TimerHandle | None = None


class Link(asyncio.BufferedProtocol):
    """Create it with `Link.open`."""

    def __init__(self, connection_options: ConnectionOptions, clock: Clock, name: str) -> None:
        self.name = name
        self.is_closed = False
        self.features: dict[str, int] = {}
        """The cluster's finalized features that this server reported when the connection was made."""
        self.features_epoch = -1
        self.last_used = clock.monotonic()
        self._connection_options = connection_options
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._chosen: dict[tuple[int, int | None], int] = {}
        self._unanswered: deque[_PendingRequest] = deque()
        self._held: deque[tuple[_PendingRequest, list[Any], float | None, bool]] | None = None
        self._correlation_id = 0
        self._small = _NO_ROOM
        self._small_filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._renewal: asyncio.Task[None] | None = None
        self._end_error: ClientError | None = None
        self._is_ready = False

    @classmethod
    async def open(
        cls,
        network: Network,
        clock: Clock,
        connection_options: ConnectionOptions,
        host: str,
        port: int,
        *,
        timeout_ms: float,
    ) -> Link:
        """Connect, learn versions and features, authenticate. An error's class says which step failed."""
        name = f"{host}:{port}"
        link = cls(connection_options, clock, name)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await link._connect(network, host, port)
                await link._learn_versions()
                if connection_options.conversation is not None:
                    await link._authenticate(host)
        except BaseException as error:
            link.close()
            if isinstance(error, TimeoutError):
                raise ConnectTimedOut(
                    f"{name} did not accept the connection within {timeout_ms / 1000:g} s."
                ) from error
            raise
        link._is_ready = True
        return link

    @property
    def in_flight(self) -> int:
        return len(self._unanswered) + (len(self._held) if self._held is not None else 0)

    def versions(self, key: int) -> range | None:
        """The versions of an API that both sides support, None if there are none."""
        ours = API_BY_KEY[key].versions
        first, last = self._versions.get(key, (0, -1))
        first, last = max(first, ours[0]), min(last, ours[-1])
        return range(first, last + 1) if first <= last else None

    def version_for(self, key: int, version_max: int | None = None) -> int:
        """The highest version of an API that both sides support."""
        found = self._chosen.get((key, version_max))
        if found is None:
            common = self.versions(key)
            if common is None or (version_max is not None and version_max < common[0]):
                raise UnsupportedVersion(
                    f"{self.name} supports no version of {API_BY_KEY[key].name} that this client supports."
                )
            ours = API_BY_KEY[key].stable_versions
            found = max(common[0], min(common[-1], ours[-1]))
            if version_max is not None:
                found = min(found, version_max)
            self._chosen[key, version_max] = found
        return found

    def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None,
        version: int | None = None,
        version_max: int | None = None,
        answered: bool = True,
        then: Callable[[Any], Any] | None = None,
    ) -> asyncio.Future[Any]:
        """Send in the order of the calls. The future gets the response, or a `Disconnected`.

        `answered=False`: the server sends no response (acks=0); the future is done once the request is
        written. `then` is called with the response as soon as it is read, not in a later turn of the loop,
        and the future gets what it returns or raises.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.send_for(
            future,
            request,
            timeout_ms=timeout_ms,
            version=version,
            version_max=version_max,
            answered=answered,
            then=then,
        )
        return future

    def send_for(
        self,
        future: asyncio.Future[Any],
        request: Message,
        *,
        timeout_ms: float | None,
        version: int | None = None,
        version_max: int | None = None,
        answered: bool = True,
        then: Callable[[Any], Any] | None = None,
    ) -> None:
        """`send` with an existing future."""
        if self._transport is None or self.is_closed:
            future.set_exception(self._end_error or LinkLost(f"The connection to {self.name} is closed."))
            return
        key = request.API_KEY
        assert key is not None, f"{request.NAME} is not a request"
        try:
            if version is None:
                version = self.version_for(key, version_max)
            self._correlation_id += 1
            parts = request_parts(request, version, self._correlation_id, self._connection_options.client_id)
        except (KafkaError, ValueError, TypeError) as error:
            # The caller gets the error, and the link stays as it was.
            future.set_exception(error)
            return
        asked = _PendingRequest(key, version, future, then)
        asked.correlation_id = self._correlation_id
        if self._held is not None:
            self._held.append((asked, parts, timeout_ms, answered))
        else:
            self._write(asked, parts, timeout_ms, answered)

    def _write(
        self, asked: _PendingRequest, parts: list[Any], timeout_ms: float | None, answered: bool
    ) -> None:
        assert self._transport is not None
        self.last_used = self._clock.monotonic()
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)
        if not answered:
            if not asked.answer.done():
                asked.answer.set_result(None)
            return
        self._unanswered.append(asked)
        if timeout_ms is not None:
            asked.timer = self._loop.call_later(timeout_ms / 1000, self._expired, asked, timeout_ms)

    def _expired(self, asked: _PendingRequest, timeout_ms: float) -> None:
        late = RequestTimedOut(
            f"{self.name} did not answer {API_BY_KEY[asked.key].name} within {timeout_ms / 1000:g} s."
        )
        if not asked.answer.done():
            asked.answer.set_exception(late)
        self._end(LinkLost(f"Closed the connection to {self.name}, which did not answer in time."))

    def close(self, error: ClientError | None = None) -> None:
        """Close the connection; requests in flight fail with `error`."""
        self._end(error or Closed(f"The client closed the connection to {self.name}."))

    # Set-up

    async def _connect(self, network: Network, host: str, port: int) -> None:
        connection_options = self._connection_options
        try:
            context = connection_options.tls() if connection_options.tls is not None else None
        except (OSError, ValueError) as error:
            raise TlsFailed(f"Cannot use the TLS settings: {error}") from error
        try:
            await network.connect(
                lambda: self,
                host,
                port,
                ssl=context,
                server_hostname=connection_options.server_hostname if context is not None else None,
                send_buffer_bytes=connection_options.send_buffer_bytes,
                receive_buffer_bytes=connection_options.receive_buffer_bytes,
            )
        except NameNotFound as error:
            raise NameNotResolved(f"Cannot resolve host name {host}: {error.strerror}.") from error
        except ssl.SSLError as error:
            raise TlsFailed(f"The TLS handshake with {self.name} failed: {error}") from error
        except TimeoutError:
            raise
        except ConnectionRefusedError as error:
            raise ConnectionRefused(
                f"{self.name} refused the connection: nothing listens on that port."
            ) from error
        except OSError as error:
            if context is not None and isinstance(error, ConnectionError):
                raise LinkLost(
                    f"{self.name} closed the connection during the TLS handshake. Is it a TLS listener?"
                ) from error
            if "refused" in str(error).lower():  # several addresses, each of which refused
                raise ConnectionRefused(f"{self.name} refused the connection: {error}") from error
            raise Disconnected(f"Cannot connect to {self.name}: {error}") from error

    async def _learn_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
        version = ApiVersionsRequest.VERSIONS[-1]
        try:
            while True:
                answer: ApiVersionsResponse = await self.send(request, timeout_ms=None, version=version)
                if answer.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                    break
                offered = [one.max_version for one in answer.api_keys if one.api_key == API_VERSIONS]
                version = min(version - 1, offered[0]) if offered else 0
        except LinkLost as error:
            hint = (
                ""
                if self._connection_options.tls is not None
                else ", or does the listener require TLS or SASL"
            )
            raise LinkLost(
                f"{self.name} closed the connection before it answered. Is it stopping{hint}? ({error})"
            ) from error
        if answer.error_code:
            raise ProtocolMismatch(f"{self.name} answered ApiVersions with error {answer.error_code}.")
        self._versions = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        self.features = {one.name: one.max_version_level for one in answer.finalized_features}
        self.features_epoch = answer.finalized_features_epoch

    async def _authenticate(self, host: str) -> None:
        assert self._connection_options.conversation is not None
        conversation = await self._connection_options.conversation(host)
        mechanism = self._connection_options.sasl_mechanism or "?"
        handshake = await self._send_first(SaslHandshakeRequest(mechanism=mechanism))
        if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            plain = "PLAINTEXT" if self._connection_options.tls is None else "SSL"
            raise AuthenticationFailed(
                f"{self.name} does not use SASL on this listener. Set security.protocol={plain}."
            )
        if handshake.error_code:
            raise AuthenticationFailed(
                f"{self.name} does not support the SASL mechanism {mechanism}; it supports "
                f"{', '.join(handshake.mechanisms) or 'none'}."
            )
        token: bytes | None = conversation.start()
        lifetime_ms = 0
        while token is not None:
            answer = await self._send_first(SaslAuthenticateRequest(auth_bytes=token))
            if answer.error_code:
                raise AuthenticationFailed(
                    f"{self.name} rejected the credentials: {answer.error_message or 'no reason given'}"
                )
            lifetime_ms = answer.session_lifetime_ms
            token = conversation.step(answer.auth_bytes)
        if lifetime_ms > 0:
            # The server ends a session that is over its time: renew it with some of it left.
            handle = self._loop.call_later(lifetime_ms * 0.85 / 1000, self._renew, host)
            self._timers.append(handle)

    def _send_first(self, request: Message) -> asyncio.Future[Any]:
        """Send before requests that are held."""
        held, self._held = self._held, None
        try:
            return self.send(request, timeout_ms=None)
        finally:
            self._held = held

    def _renew(self, host: str) -> None:
        if not self.is_closed:
            self._renewal = self._loop.create_task(self._authenticate_again(host))

    async def _authenticate_again(self, host: str) -> None:
        self._hold()
        try:
            await self._authenticate(host)
        except ClientError as error:
            self._end(LinkLost(f"Re-authentication with {self.name} failed: {error}"))
        else:
            self._release()

    def _hold(self) -> None:
        if self._held is None:
            self._held = deque()

    def _release(self) -> None:
        held, self._held = self._held, None
        while held and not self.is_closed:
            asked, parts, timeout_ms, answered = held.popleft()
            self._write(asked, parts, timeout_ms, answered)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._small = memoryview(bytearray(RECEIVE_BYTES))

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._small[self._small_filled :]

    def buffer_updated(self, count: int) -> None:
        try:
            if self._large is None:
                self._small_filled += count
                self._take_small()
                return
            self._large_filled += count
            if self._large_filled == len(self._large):
                frame, self._large = self._large, None
                self._take(frame)
        except MalformedMessage as error:
            mismatch = ProtocolMismatch(f"{self.name} does not speak Kafka's protocol: {error}")
            self._end(mismatch if not self._is_ready else LinkLost(str(mismatch)))

    def _take_small(self) -> None:
        small, position, filled = self._small, 0, self._small_filled
        if not self._is_ready and bytes(small[:2]) == _TLS_ALERT:
            raise MalformedMessage("the listener uses TLS: set security.protocol to SSL or SASL_SSL.")
        while filled - position >= SIZE_BYTES:
            size = read_size(small, position, self._connection_options.answer_bytes_max)
            start = position + SIZE_BYTES
            if filled - start < size:
                if size > RECEIVE_BYTES - SIZE_BYTES:
                    self._large = memoryview(kernel.room(size))
                    self._large_filled = filled - start
                    self._large[: filled - start] = small[start:filled]
                    position = filled
                break
            position = start + size
            self._take(memoryview(bytes(small[start:position])))
        rest = filled - position
        if rest and position:
            small[:rest] = bytes(small[position:filled])
        self._small_filled = rest

    def _take(self, frame: memoryview) -> None:
        if not self._unanswered:
            raise MalformedMessage("received an unexpected response.")
        asked = self._unanswered[0]
        version = asked.version
        if asked.key == API_VERSIONS and len(frame) >= 6:
            # A server that does not know the version answers in version 0, with this code first.
            code = int.from_bytes(frame[4:6], "big", signed=True)
            version = 0 if code == ErrorCode.UNSUPPORTED_VERSION else version
        correlation_id, answer = read_response(frame, asked.key, version)
        if correlation_id != asked.correlation_id:
            raise MalformedMessage("received responses out of order.")
        self._unanswered.popleft()
        if asked.timer is not None:
            asked.timer.cancel()
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0 and self._is_ready and self._held is None:
            # The server is muted for so long: what is sent meanwhile would only wait there.
            self._hold()
            self._timers = [timer for timer in self._timers if timer.when() > self._loop.time()]
            self._timers.append(self._loop.call_later(throttle_ms / 1000, self._release))
        if asked.answer.done():
            return
        if asked.then is not None:
            try:
                answer = asked.then(answer)
            except Exception as error:  # noqa: BLE001 - whoever sent the request gets it
                asked.answer.set_exception(error)
                return
            if asked.answer.done():  # `then` has cancelled it
                return
        asked.answer.set_result(answer)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._small = _NO_ROOM
        if isinstance(error, ssl.SSLError):
            self._end(TlsFailed(f"TLS with {self.name} failed: {error}"))
        else:
            self._end(LinkLost(f"{self.name} closed the connection{f': {error}' if error else ''}."))

    def _end(self, error: ClientError) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._end_error = error
        if self._transport is not None:
            self._transport.abort()
        for timer in self._timers:
            timer.cancel()
        unanswered = [*self._unanswered, *(entry[0] for entry in self._held or ())]
        self._unanswered.clear()
        self._held = None
        for asked in unanswered:
            if asked.timer is not None:
                asked.timer.cancel()
            if not asked.answer.done():
                asked.answer.set_exception(error)
        if self._renewal is not None and self._renewal is not asyncio.current_task(self._loop):
            self._renewal.cancel()
