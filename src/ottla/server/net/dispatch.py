"""From a frame to its handler and back: api key -> handler.

The table consists of the `API` values of the handler modules; ApiVersions is derived from it, so every
advertised API is handled. Decoders and encoders are looked up once per API version and kept.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct as Layout
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from ottla.log.file_slice import FileSlice
from ottla.ports import Buffer
from ottla.server.net.connection import Connection
from ottla.server.net.forwarding import (
    CONTROLLER_TRIES,
    Forward,
    Forwarding,
    Handle,
    Handler,
    Refuse,
    response_of,
)
from ottla.server.net.long_requests import LongRequests, Steps
from ottla.server.net.step_runner import UNFINISHED
from ottla.server.peers.controller_channel import ControllerIsHere
from ottla.waiting.pending_response import PendingResponse
from ottla.waiting.tasks import response_of_task
from ottla.wire import apis, codec
from ottla.wire import frame as frames
from ottla.wire.errors import (
    InvalidRequest,
    KafkaError,
    MalformedMessage,
    NotController,
    RequestTimedOut,
    UnencodableMessage,
    UnsupportedVersion,
)
from ottla.wire.message import Struct

if TYPE_CHECKING:
    from ottla.server.broker import Broker

logger = logging.getLogger("ottla.server.net.dispatch")

SLICED_BYTES_MIN = 16 * 1024
"""A frame below this size is decoded in few milliseconds, whatever it contains."""

MESSAGE_LETTERS_MAX = 1000
"""The maximum length of error messages in a response that could not be encoded."""

_PREFIX = Layout(">ii")
_PREFIX_FLEXIBLE = Layout(">iix")


class Express(Protocol):
    """A fast path from frame to frame, now or later.

    If it returns None, the dispatcher gets the request at once. Nothing has happened then, unless `begun` is
    set: it says what has, for the handler that goes on.
    """

    begun: Any

    def answer(self, data: memoryview, start: int, end: int) -> bytes | PendingResponse | None:
        """The answer to the request that lies in a buffer from `start` to `end`."""

    def answer_read(self, data: memoryview, count: int) -> bytes | PendingResponse | None:
        """The same, if the first `count` bytes are one request with its size before it."""


class FastPath(Protocol):
    """A fast path of one API, which may respond later."""

    def take(self, connection: Connection, frame: memoryview, version: int, correlation_id: int) -> bool:
        """Handle a request. False: nothing has happened."""


class Routes(Protocol):
    """The general way, for a fast path that continues there."""

    def decoded(
        self, connection: Connection, frame: memoryview, key: int, version: int, correlation_id: int
    ) -> tuple[Any, RequestContext]:
        """The request in a frame, with its context."""

    def frame(self, key: int, version: int, response: Any, correlation_id: int) -> list[Buffer | FileSlice]:
        """The parts of a response's frame."""

    def answer(
        self, connection: Connection, key: int, version: int, outcome: Any, correlation_id: int
    ) -> None:
        """Send what a handler returned."""


class NoExpress:
    """No request has a fast path."""

    def __init__(self) -> None:
        self.begun: Any = None

    def answer(self, data: memoryview, start: int, end: int) -> bytes | None:
        return None

    def answer_read(self, data: memoryview, count: int) -> bytes | None:
        return None


@dataclass(frozen=True, slots=True)
class Api:
    """One API as its handler module declares it.

    `handle(parts, request, context)` returns the response; a `PendingResponse` or a coroutine for one that
    comes later; a generator that returns one of these, and runs in slices; or None if the protocol has no
    response. `handle_at_controller`: on controller listeners the key belongs to another request.
    `express(broker, listener)` returns the fast path from frame to frame, which one API has. `fast_path(
    broker, routes)`: one that may respond later. `amplifies`: a small request may have a large response, and
    is read-only (`response_memory.py`). `refuse(request, error, version)` returns the response for a
    KafkaError that `handle` raises. `answer_unsupported`: the response, in version 0, to a request of an
    unsupported version; without it the connection is closed.
    """

    key: int
    handle: Handle
    express: Callable[[Broker, str], Express] | None = None
    fast_path: Callable[[Broker, Routes], FastPath] | None = None
    forwarding: Forwarding = Forwarding.NONE
    handle_at_controller: Handle | None = None
    amplifies: bool = False
    refuse: Refuse | None = None
    answer_unsupported: Callable[[Broker], Struct] | None = None


class RequestContext:
    """The client and connection of a request, for handlers that need more than the request.

    `begun`: what the fast path has done of the request.
    """

    __slots__ = ("begun", "client_id", "connection", "correlation_id", "listener", "principal", "version")

    def __init__(
        self, version: int, correlation_id: int, client_id: str | None, connection: Connection, listener: str
    ):
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.begun: Any = None


class _Route:
    """Everything needed to serve one version of one API."""

    __slots__ = (
        "amplifies",
        "decode",
        "encode",
        "fast_path",
        "handle",
        "has_flexible_header",
        "prefix",
        "request",
        "response",
        "version",
    )

    def __init__(self, handle: Handle, key: int, version: int) -> None:
        entry = apis.API_BY_KEY[key]
        self.handle = handle
        self.amplifies = False
        self.fast_path: FastPath | None = None
        self.has_flexible_header = apis.request_header_version(key, version) >= 2
        self.request, self.version = entry.request_class(), version
        self.decode = codec.decoder(self.request, version)
        self.response = entry.response_class()
        self.prefix = _PREFIX_FLEXIBLE if apis.response_header_version(key, version) >= 1 else _PREFIX
        self.encode = codec.parts_encoder(self.response, version)

    def decode_in_steps(self, frame: memoryview, position: int) -> Steps[tuple[Any, int]]:
        """Decode a large frame, using memory of about its size, or fail."""
        return codec.sliced_decoder(self.request, self.version)(frame, position)

    def frame(self, response: Any, correlation_id: int) -> list[Buffer | FileSlice]:
        """The parts of the response frame; one part if it has no records."""
        try:
            parts: list[Buffer | FileSlice] = self.encode(response)
        except UnencodableMessage:
            shorten_messages(response)
            parts = self.encode(response)
        return self._with_prefix(parts, correlation_id)

    def frame_in_steps(self, response: Any, correlation_id: int) -> Steps[list[Buffer | FileSlice]]:
        """The same, in steps: a large response has one part per step."""
        encode = codec.sliced_encoder(self.response, self.version)
        try:
            parts: list[Buffer | FileSlice] = yield from encode(response)
        except UnencodableMessage:
            shorten_messages(response)
            parts = yield from encode(response)
        return self._with_prefix(parts, correlation_id)

    def _with_prefix(self, parts: list[Buffer | FileSlice], correlation_id: int) -> list[Buffer | FileSlice]:
        prefix = self.prefix
        size = prefix.size - 4
        if len(parts) == 1:
            body: Any = parts[0]
            return [prefix.pack(size + len(body), correlation_id) + body]
        for part in parts:
            size += len(part)
        first: Any = parts[0]
        parts[0] = prefix.pack(size, correlation_id) + first
        return parts


def shorten_messages(response: Struct) -> None:
    """Truncate error messages that quote a long string of the request: they may exceed the maximum string."""
    for name in type(response).__slots__:
        value = getattr(response, name)
        if name == "error_message" and value is not None and len(value) > MESSAGE_LETTERS_MAX:
            setattr(response, name, value[:MESSAGE_LETTERS_MAX] + "...")
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, Struct):
                    shorten_messages(part)


class _Forwarded:
    """A request that is forwarded to the controller unchanged; it is decoded too, to validate it."""

    __slots__ = ("frame", "request")

    def __init__(self, frame: bytes, request: Any) -> None:
        self.frame = frame
        self.request = request


class _ForwardingRoute(_Route):
    """The route of an API that another node answers. Its response bytes go to the client unchanged."""

    __slots__ = ()

    def __init__(self, handler: Handler, key: int, version: int, forward: Forward) -> None:
        super().__init__(handler.handle, key, version)
        decode = self.decode

        def decode_and_keep(frame: memoryview, position: int) -> tuple[Any, int]:
            request, end = decode(frame, position)
            return _Forwarded(bytes(frame), request), end

        async def hand_on(broker: Broker, forwarded: _Forwarded, context: RequestContext) -> Any:
            for _ in range(CONTROLLER_TRIES):
                try:
                    if broker.quorum.is_remote:
                        return await forward(forwarded.frame, context.principal, context.connection.peer_host)
                except ControllerIsHere:
                    pass
                except RequestTimedOut as error:
                    logger.warning("Failed to forward %s: %s", apis.API_BY_KEY[key].name, error)
                    break
                except KafkaError as error:
                    context.connection.close(f"its {apis.API_BY_KEY[key].name} request was rejected: {error}")
                    return None
                try:
                    return await response_of(broker, handler, forwarded.request, context, is_forwarded=True)
                except NotController:
                    continue  # another node may be the active controller by now
            return await response_of(broker, handler, forwarded.request, context)

        self.decode = decode_and_keep  # type: ignore[assignment]
        self.handle = hand_on

    def decode_in_steps(self, frame: memoryview, position: int) -> Steps[tuple[Any, int]]:
        request, end = yield from super().decode_in_steps(frame, position)
        return _Forwarded(bytes(frame), request), end

    def frame_in_steps(self, response: Any, correlation_id: int) -> Steps[list[Buffer | FileSlice]]:
        if isinstance(response, bytes):
            return self.frame(response, correlation_id)
        return (yield from super().frame_in_steps(response, correlation_id))

    def frame(self, response: Any, correlation_id: int) -> list[Buffer | FileSlice]:
        if isinstance(response, bytes):
            return [len(response).to_bytes(4, "big") + response]
        return super().frame(response, correlation_id)


class Dispatcher:
    """The APIs that one kind of listener ("broker" or "controller") serves.

    `forward` sends requests that only a controller on another node can answer; None if the controller is
    here.
    """

    def __init__(
        self,
        broker: Broker,
        handlers: list[Api],
        listener_name: str,
        listener_kind: str,
        *,
        forward: Forward | None = None,
    ) -> None:
        self._broker = broker
        self._lateness = broker.lateness
        self._listener_name = listener_name
        self._forward = forward
        self._steps = broker.step_runner
        self._long = LongRequests(broker)
        self._routes: dict[int, _Route] = {}
        self._handlers: dict[int, Handler] = {}
        self.express: Express = NoExpress()
        self._makers: dict[int, Callable[[Broker, Routes], FastPath]] = {}
        self._fast_paths: dict[int, FastPath] = {}
        self._forwarding: dict[int, Forwarding] = {}
        self._unsupported_answers = {
            api.key: api.answer_unsupported for api in handlers if api.answer_unsupported is not None
        }
        self._amplifying = {api.key for api in handlers if api.amplifies}
        for api in handlers:
            if listener_kind in apis.API_BY_KEY[api.key].listeners:
                handle = api.handle
                if listener_kind == "controller" and api.handle_at_controller is not None:
                    handle = api.handle_at_controller
                self._handlers[api.key] = Handler(handle, api.refuse)
                if api.express is not None:
                    self.express = api.express(broker, listener_name)
                if api.fast_path is not None and handle is api.handle:
                    self._makers[api.key] = api.fast_path
                if api.forwarding is not Forwarding.NONE:
                    self._forwarding[api.key] = api.forwarding

    @property
    def api_keys(self) -> list[int]:
        return sorted(self._handlers)

    def dispatch(self, connection: Connection, frame: memoryview) -> bool | None:
        """Decode a request, handle it, and send the response in order.

        True: earlier requests must finish first, and the connection keeps it.
        """
        express = self.express
        begun, express.begun = express.begun, None
        try:
            key, version, correlation_id = frames.read_request_start(frame)
            api = self._lateness.latest_api = key << 16 | version
            route = self._routes.get(api)
            if route is None:
                route = self._make_route(connection, key, version, correlation_id)
                if route is None:
                    return None
            fast_path = route.fast_path
            if fast_path is not None and fast_path.take(connection, frame, version, correlation_id):
                return None
            if route.amplifies and not connection.begin_alone(frame):
                return True
            client_id, position = frames.read_client_id(frame, route.has_flexible_header)
            context = RequestContext(version, correlation_id, client_id, connection, self._listener_name)
            context.begun = begun
            if len(frame) < SLICED_BYTES_MIN or begun is not None:
                request, _ = route.decode(frame, position)  # Kafka ignores bytes after the request too
            else:
                decoded = self._steps.first_slice(route.decode_in_steps(frame, position))
                if decoded is UNFINISHED:
                    self._long.read(route, context, frame, position)
                    return None
                request, _ = decoded
        except MalformedMessage as error:
            connection.close(f"its request is malformed: {error}")
            return None
        except Exception as error:  # noqa: BLE001  the last line of defence
            self.request_failed(connection, error)
            return None
        try:
            outcome = route.handle(self._broker, request, context)
        except Exception as error:  # noqa: BLE001  the last line of defence
            self._long.close_failed(route, context, error)
            return None
        if outcome is None:
            return None
        kind = type(outcome)
        if kind is GeneratorType or len(frame) >= SLICED_BYTES_MIN:
            self._long.finish(route, context, request, outcome, position)
            return None
        self._answer(connection, route, outcome, correlation_id)
        return None

    def _answer(self, connection: Connection, route: _Route, outcome: Any, correlation_id: int) -> None:
        kind = type(outcome)
        if kind is not PendingResponse and kind is not CoroutineType and connection.owes_nothing:
            try:
                parts = route.frame(outcome, correlation_id)
            except Exception as error:  # noqa: BLE001  whatever it is, the client must not wait
                connection.close_unwritable(error)
                return
            connection.answer_now(parts)
            return
        self._answer_later(connection, route, outcome, correlation_id)

    # Routes

    def decoded(
        self, connection: Connection, frame: memoryview, key: int, version: int, correlation_id: int
    ) -> tuple[Any, RequestContext]:
        route = self._routes[key << 16 | version]
        client_id, position = frames.read_client_id(frame, route.has_flexible_header)
        context = RequestContext(version, correlation_id, client_id, connection, self._listener_name)
        return route.decode(frame, position)[0], context

    def frame(self, key: int, version: int, response: Any, correlation_id: int) -> list[Buffer | FileSlice]:
        return self._routes[key << 16 | version].frame(response, correlation_id)

    def answer(
        self, connection: Connection, key: int, version: int, outcome: Any, correlation_id: int
    ) -> None:
        self._answer(connection, self._routes[key << 16 | version], outcome, correlation_id)

    def request_failed(self, connection: Connection, error: Exception) -> None:
        """Close a connection whose request met a bug of ours."""
        self._broker.failures.note("dispatch", "", error)
        connection.close(f"unexpected error in its request: {error}")

    async def answer_embedded(self, frame: bytes, context: RequestContext, principal: str) -> bytes:
        """The frame, without its size, of the answer to a request that another node handed on.

        NotController: this node is not the active controller any more. InvalidRequest: the request is not one
        that is handed on. UnsupportedVersion: it cannot be read.
        """
        try:
            key, version, correlation_id, client_id, position = frames.read_request_header(frame)
            if key not in self._forwarding:
                raise InvalidRequest(f"{apis.API_BY_KEY[key].name} requests cannot be forwarded.")
            if version not in apis.API_BY_KEY[key].stable_versions:
                raise UnsupportedVersion(f"{apis.API_BY_KEY[key].name} version {version} is not supported.")
            route = self._routes.get(key << 16 | version)
            if route is None:
                route = self._routes[key << 16 | version] = self._direct_route(key, version)
            request, _ = await self._steps.run(route.decode_in_steps(memoryview(frame), position))
        except MalformedMessage as error:
            raise UnsupportedVersion(f"The request in the envelope is malformed: {error}") from error
        inner = RequestContext(version, correlation_id, client_id, context.connection, self._listener_name)
        inner.principal = principal
        handler = self._handlers[key]
        response = await response_of(self._broker, handler, request, inner, is_forwarded=True)
        parts = await self._steps.run(route.frame_in_steps(response, correlation_id))
        return b"".join(bytes(part) for part in parts if not isinstance(part, FileSlice))[4:]

    def _answer_later(self, connection: Connection, route: _Route, outcome: Any, correlation_id: int) -> None:
        if type(outcome) is PendingResponse:
            answer = outcome
        elif inspect.iscoroutine(outcome):
            answer = response_of_task(asyncio.ensure_future(outcome))
        else:
            answer = PendingResponse()
            answer.complete(outcome)
        connection.answer_later(answer, lambda response: route.frame(response, correlation_id))

    def _direct_route(self, key: int, version: int) -> _Route:
        """The route of an API version that this node answers itself."""
        route = _Route(self._handlers[key].direct, key, version)
        route.amplifies = key in self._amplifying
        if key in self._makers and key not in self._fast_paths:
            self._fast_paths[key] = self._makers[key](self._broker, self)
        route.fast_path = self._fast_paths.get(key)
        return route

    def _make_route(
        self, connection: Connection, key: int, version: int, correlation_id: int
    ) -> _Route | None:
        """Create the route of an API version on first use; None if the connection was already answered."""
        handler = self._handlers.get(key)
        if handler is None:
            name = apis.API_BY_KEY[key].name if key in apis.API_BY_KEY else "unknown"
            connection.close(
                f"it sent API key {key} ({name}), which listener {self._listener_name} does not support"
            )
            return None
        unstable = self._broker.config.bool_of("unstable.api.versions.enable")
        versions = apis.API_BY_KEY[key].served_versions(unstable=unstable)
        if version in versions:
            if self._forward is not None and self._forwarding.get(key) is Forwarding.WHOLE:
                route: _Route = _ForwardingRoute(handler, key, version, self._forward)
                route.amplifies = key in self._amplifying
            else:
                route = self._direct_route(key, version)
            self._routes[key << 16 | version] = route
            return route
        answer_unsupported = self._unsupported_answers.get(key)
        if answer_unsupported is not None:
            self._answer_later(
                connection, _Route(handler.handle, key, 0), answer_unsupported(self._broker), correlation_id
            )
            return None
        connection.close(
            f"it sent {apis.API_BY_KEY[key].name} version {version}; versions {versions.start} to "
            f"{versions.stop - 1} are supported"
        )
        return None
