"""FindCoordinator (10), versions 0 to 6.

Returns the leader of the partition that stores the state of a group or a transactional id. If the internal
topic is missing, it is created, and the response is COORDINATOR_NOT_AVAILABLE: retry. v1 adds the kind of
key; v4 takes several keys. Share groups (v6, kind 2) are not supported: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Protocol

from ottla.coordinator.partitioning import partition_for
from ottla.server.broker import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.server.handlers.auto_create import CreationParts, create_in_background
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasImage
from ottla.wire.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

KEY = 10

NOBODY = -1
_MANY_VERSION = 4
_TOPICS = {0: GROUPS_TOPIC, 1: TRANSACTIONS_TOPIC}

_Coordinator = FindCoordinatorResponse.Coordinator


class Parts(CreationParts, HasImage, Protocol):
    """The parts of a node that FindCoordinator needs."""


def handle(
    parts: Parts, request: FindCoordinatorRequest, context: RequestContext
) -> Steps[FindCoordinatorResponse]:
    keys = request.coordinator_keys if context.version >= _MANY_VERSION else [request.key]
    found = []
    for key in keys:
        found.append(_find(parts, request.key_type, key, context.listener))
        yield
    if context.version >= _MANY_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or "NONE",
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(parts: Parts, key_type: int, key: str, listener: str) -> _Coordinator:
    try:
        node_id = _leader(parts, key_type, key)
        endpoint = parts.image.alive_endpoint(node_id, listener)
        if endpoint is None:
            raise CoordinatorNotAvailable("The coordinator is not available.")
    except KafkaError as error:
        return _Coordinator(
            key=key, node_id=NOBODY, port=NOBODY, error_code=error.code, error_message=error.message
        )
    return _Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port)


def _leader(parts: Parts, key_type: int, key: str) -> int:
    """The leader of the key's partition; -1 if there is none now."""
    if key_type not in _TOPICS:
        raise InvalidRequest(f"Unsupported coordinator key type {key_type}.")
    name = _TOPICS[key_type]
    topic = parts.image.topics_by_name.get(name)
    if topic is None:
        create_in_background(parts, [name])
        raise CoordinatorNotAvailable("The coordinator is not available.")
    registration = topic.partitions.get(partition_for(key, len(topic.partitions)))
    return NOBODY if registration is None else registration.leader


API = Api(KEY, handle)
