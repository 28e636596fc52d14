"""The connection from a node to the active controller on another node, with retries.

The follower of the metadata log knows which node the controller is. Rule: a request is sent again if its
connection broke or its receiver is no longer the controller, as Kafka's brokers do; so it may be processed
twice, and every request sent here must be safe to repeat. If this node is a controller itself, the active one
may turn out to be local: `ControllerIsHere`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.detached import mark_retrieved
from ottla.ports import Clock, Network
from ottla.server.peers.channel import Channel
from ottla.wire import codec
from ottla.wire.errors import ErrorCode, RequestTimedOut, for_code
from ottla.wire.message import Message, Struct
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.protocol_data import DefaultPrincipalData

Address = tuple[str, int]

FORWARD_TIMEOUT_MS = 60_000
LINK_RETRY_SECONDS = 0.05


class ControllerIsHere(Exception):
    """The active controller is on this node: call it directly."""


class _NotController(Exception):
    """The node is no longer the active controller."""


class ControllerChannel:
    """Sends requests to the active controller."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        find_controller: Callable[[], Address | None],
        *,
        client_id: str,
        retry_seconds: float,
        socket_timeout_ms: int,
        is_here: Callable[[], bool] = lambda: False,
    ) -> None:
        """A controller that is silent for `socket_timeout_ms` is considered dead."""
        self._is_here = is_here
        self._network = network
        self._clock = clock
        self._find_controller = find_controller
        self._client_id = client_id
        self._retry_seconds = retry_seconds
        self._socket_timeout_s = socket_timeout_ms / 1000
        self._channel: Channel | None = None
        self._address: Address | None = None
        self._opening: asyncio.Lock = asyncio.Lock()
        self._in_flight: dict[asyncio.Future[Any], Address] = {}  # request: address

    async def ask(self, request: Message, *, timeout_ms: int) -> Any:
        """The controller's response. Raises RequestTimedOut, or the error in the response."""
        response = await self.exchange(request, timeout_ms=timeout_ms)
        code = getattr(response, "error_code", 0)
        if code:
            raise for_code(code)(getattr(response, "error_message", None))
        return response

    async def exchange(self, request: Message, *, timeout_ms: int) -> Any:
        """The controller's response, errors included, but never NOT_CONTROLLER."""
        deadline = self._clock.monotonic() + timeout_ms / 1000
        problem = "no active controller is known"
        while True:
            if self._is_here():
                raise ControllerIsHere
            remaining = deadline - self._clock.monotonic()
            if remaining <= 0:
                raise RequestTimedOut(
                    f"The active controller did not answer {request.NAME} within {timeout_ms} ms: {problem}."
                )
            address = self._find_controller()
            if address is not None:
                where = f"{address[0]}:{address[1]}"
                limit = min(remaining, self._socket_timeout_s)
                try:
                    pending = self._ask_while_active(address, request)
                    async with asyncio.timeout(limit):
                        response = await pending
                except _NotController:
                    continue
                except TimeoutError:
                    # Our own short deadline does not prove that a node is silent that rejected us for most of
                    # the time.
                    if where not in problem or limit * 1000 >= timeout_ms / 2:
                        problem = f"{where} does not answer"
                    self._drop()
                except OSError as error:
                    problem = f"{where} is unreachable: {str(error).rstrip('.')}"
                    self._drop()
                else:
                    if not mentions_error(response, ErrorCode.NOT_CONTROLLER):
                        return response
                    problem = f"{where} is not the active controller"
                    self._drop()
            await asyncio.sleep(self._retry_seconds)

    def on_leader(self) -> None:
        """Another node is the controller now: send the requests of the old one again."""
        address, is_here = self._find_controller(), self._is_here()
        for task, receiver in self._in_flight.items():
            if is_here or address not in (None, receiver):
                task.cancel()
        if is_here or address not in (None, self._address):
            self._drop()

    def close(self) -> None:
        self._drop()

    async def _ask_while_active(self, address: Address, request: Message) -> Any:
        """Wait for a response, but only until another node becomes the controller: this one may be silent."""
        # If it fails at the moment when its waiter gives up, nobody retrieves the exception.
        task = mark_retrieved(asyncio.ensure_future(self._ask_once(address, request)))
        self._in_flight[task] = address
        try:
            await asyncio.wait([task])
        finally:
            del self._in_flight[task]
            if not task.done():
                task.cancel()
        if task.cancelled():
            raise _NotController
        return task.result()

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


def mentions_error(message: Struct, code: ErrorCode) -> bool:
    """Whether a response has this error, for the whole or for one of its parts.

    AlterPartition and CreateTopics have NOT_CONTROLLER in their parts only. Kafka's brokers too look for it
    in the whole response (NodeToControllerRequestThread).
    """
    for name in type(message).__slots__:
        value = getattr(message, name)
        if name == "error_code":
            if value == code:
                return True
        elif isinstance(value, list) and any(
            isinstance(part, Struct) and mentions_error(part, code) for part in value
        ):
            return True
    return False


class RemoteController:
    """The active controller on another node: for this node's own requests and for those of its clients."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        find_controller: Callable[[], Address | None],
        *,
        node_id: int,
        socket_timeout_ms: int,
        is_here: Callable[[], bool] = lambda: False,
    ) -> None:
        def channel(purpose: str) -> ControllerChannel:
            return ControllerChannel(
                network,
                clock,
                find_controller,
                client_id=f"broker-{node_id}-{purpose}",
                retry_seconds=LINK_RETRY_SECONDS,
                socket_timeout_ms=socket_timeout_ms,
                is_here=is_here,
            )

        self._requests = channel("requests")
        self._forwarding = channel("forwarding")

    def close(self) -> None:
        self._requests.close()
        self._forwarding.close()

    def on_leader(self) -> None:
        self._requests.on_leader()
        self._forwarding.on_leader()

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        return await self._requests.ask(request, timeout_ms=timeout_ms or FORWARD_TIMEOUT_MS)

    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        """Forward a client's request to the controller; return the frame of its response, without its
        size."""
        request = EnvelopeRequest(
            request_data=frame,
            request_principal=_principal_bytes(principal),
            client_host_address=_host_bytes(client_host),
        )
        response: EnvelopeResponse = await self._forwarding.exchange(request, timeout_ms=FORWARD_TIMEOUT_MS)
        if response.error_code:
            raise for_code(response.error_code)("The controller could not parse the forwarded request.")
        return response.response_data or b""


def _principal_bytes(principal: str) -> bytes:
    """A principal as brokers serialize it: a version, then the message."""
    kind, _, name = principal.partition(":")
    return (0).to_bytes(2, "big") + codec.encode(DefaultPrincipalData(type=kind, name=name), 0)


def _host_bytes(host: str) -> bytes:
    import ipaddress  # only needed to forward requests

    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
