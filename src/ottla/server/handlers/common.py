"""Helpers of several handlers: endpoints of brokers, leaders, permissions, requests to the controller.

Without an authorizer everything is allowed, so the sets of authorized operations are complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.detached import detach
from ottla.server.net.forwarding import CONTROLLER_TRIES
from ottla.server.parts import HasClock, HasImage, HasQuorum, HasRandom
from ottla.server.peers.controller_channel import ControllerIsHere
from ottla.wire.errors import NotController, RequestTimedOut
from ottla.wire.frame import SIZE_BYTES, read_response, request_frame

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.registrations import PartitionRegistration
    from ottla.controller.result import Decided, Decision
    from ottla.controller.state import ControllerState
    from ottla.server.metadata.metadata_quorum import MetadataQuorum
    from ottla.server.net.dispatch import RequestContext
    from ottla.server.parts import HasConfig
    from ottla.wire.message import Message

_T = TypeVar("_T")
_P = TypeVar("_P")

RESOURCES_PER_DECISION = 200

NO_LEADER = -1
NO_EPOCH = -1

OPERATIONS_NOT_ASKED_FOR = -(1 << 31)

# Kafka's codes of operations, as bits: read 3, write 4, create 5, delete 6, alter 7, describe 8,
# cluster action 9, describe configs 10, alter configs 11, idempotent write 12.
TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


class DecidingParts(HasQuorum, HasClock, Protocol):
    """The parts of a node that `decide_in_parts` uses."""


class AliveParts(HasImage, HasRandom, Protocol):
    """The parts of a node that `random_alive_broker` uses."""


def leader_hint(image: ClusterImage, topic_id: bytes, topic_name: str, index: int) -> tuple[int, int]:
    """(leader id, leader epoch) of a partition given by id or by name; -1 if unknown."""
    partition = image.partition(topic_name or topic_id, index)
    if partition is None:
        return NO_LEADER, NO_EPOCH
    return partition.leader, partition.leader_epoch


def leader_endpoints(
    image: ClusterImage, leader_ids: Iterable[int], listener_name: str, node_endpoint_class: Callable[..., _T]
) -> list[_T]:
    """The endpoints of these leaders on a listener, in the response's own class."""
    endpoints = []
    for leader_id in sorted(leader_ids):
        endpoint = image.alive_endpoint(leader_id, listener_name)
        if endpoint is not None:
            rack = image.brokers[leader_id].rack
            endpoints.append(
                node_endpoint_class(node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=rack)
            )
    return endpoints


class Reach:
    """The brokers with an endpoint on a listener, looked up once for a request with many partitions."""

    __slots__ = ("_alive", "registered", "with_listener")

    def __init__(self, image: ClusterImage, listener_name: str) -> None:
        self.registered = image.brokers
        self.with_listener = {
            broker_id
            for broker_id, registration in self.registered.items()
            if registration.endpoint(listener_name) is not None
        }
        self._alive = {
            broker_id: registration
            for broker_id, registration in self.registered.items()
            if broker_id in self.with_listener and not registration.fenced
        }

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._alive

    def offline_replicas(self, partition: PartitionRegistration) -> list[int]:
        """The replicas that are unavailable: their broker is dead or their directory offline."""
        offline = []
        for replica, directory in zip(partition.replicas, partition.directories, strict=True):
            registration = self._alive.get(replica)
            if registration is None or not (
                directory in registration.directories or registration.has_online_directory(directory)
            ):
                offline.append(replica)
        return offline


def random_alive_broker(parts: AliveParts) -> int:
    """The broker id reported to clients as the controller: any live broker forwards requests to it."""
    alive = [registration.id for registration in parts.image.brokers.values() if not registration.fenced]
    if not alive:
        return -1
    return alive[parts.random.below(len(alive))]


def is_controller_listener(parts: HasConfig, context: RequestContext) -> bool:
    return context.listener in parts.config.controller_listener_names


async def decide(quorum: MetadataQuorum, decision: Decision[_T], *, timeout_ms: int | None = None) -> _T:
    """Have the controller decide, and return its response once that is committed.

    A decision stands even if the client disconnects or its request times out. One that still waits for its
    turn when the time is up is not made.
    """
    if timeout_ms is None:
        return await detach(quorum.submit(decision))
    if timeout_ms <= 0:
        raise RequestTimedOut(
            f"The timeout of {timeout_ms} ms is too short to reach the controller. Increase it."
        )
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            # No frame may keep the future: an error in it leads to the frame, and both to the request.
            return await detach(quorum.submit(decision, timeout_ms=timeout_ms))
    except TimeoutError:
        raise RequestTimedOut(f"The controller did not answer within {timeout_ms} ms.") from None


async def decide_in_parts(
    parts: DecidingParts,
    pieces: Iterable[_P],
    decision: Callable[[ControllerState, _P], Decided[_T]],
    *,
    timeout_ms: int,
) -> list[_T]:
    """Decide a request that is too large for one decision in parts; most requests have one part.

    All parts share the timeout of the request.
    """
    answers: list[_T] = []
    monotonic = parts.clock.monotonic
    begun = monotonic()
    left_ms = timeout_ms
    for part in pieces:
        if answers:
            left_ms = timeout_ms - round((monotonic() - begun) * 1000)
            if left_ms <= 0:
                raise RequestTimedOut(f"The controller did not answer within {timeout_ms} ms.")
        answers.append(
            await decide(parts.quorum, lambda state, part=part: decision(state, part), timeout_ms=left_ms)  # type: ignore[misc]
        )
    return answers


async def decide_or_forward(
    quorum: MetadataQuorum,
    request: Message,
    context: RequestContext,
    decision: Decision[_T],
) -> _T:
    """Decide the rest of a client's request here, or forward it to the active controller.

    If the controller moves meanwhile, the new one is asked, as with requests that are forwarded whole.
    """
    for _ in range(CONTROLLER_TRIES):
        if quorum.is_remote:
            try:
                response: _T = await _forwarded(quorum, request, context)
            except ControllerIsHere:
                pass
            else:
                return response
        try:
            return await decide(quorum, decision)
        except NotController:
            continue  # another node may be the active controller by now
    return await decide(quorum, decision)


async def _forwarded(quorum: MetadataQuorum, request: Message, context: RequestContext) -> Any:
    frame = request_frame(request, context.version, context.correlation_id, context.client_id)[SIZE_BYTES:]
    assert request.API_KEY is not None
    answer = await quorum.forward(frame, context.principal, context.connection.peer_host)
    return read_response(answer, request.API_KEY, context.version)[1]
