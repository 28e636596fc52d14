"""The decisions that brokers and controllers ask for: one table for requests from other nodes and for those
of the controller's own node. What only clients ask for is mapped by its handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.controller.alter_partition import alter_partition
from ottla.controller.brokers import broker_heartbeat, register_broker, register_controller
from ottla.controller.directory_assignments import assign_replicas_to_dirs
from ottla.controller.producer_ids import allocate_producer_ids
from ottla.controller.result import Decided, Decision
from ottla.controller.state import ControllerState
from ottla.wire.message import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest

_VersionedDecision = Callable[[ControllerState, Any, int], Decided[Any]]


def _create_topics(state: ControllerState, request: CreateTopicsRequest, version: int) -> Decided[Any]:
    from ottla.controller.topics import create_topics  # rarely needed, so not when a node starts

    return create_topics(state, request)


_DECISIONS: dict[type[Message], _VersionedDecision] = {
    AllocateProducerIdsRequest: lambda state, request, _: allocate_producer_ids(state, request),
    AlterPartitionRequest: alter_partition,
    AssignReplicasToDirsRequest: lambda state, request, _: assign_replicas_to_dirs(state, request),
    BrokerHeartbeatRequest: lambda state, request, _: broker_heartbeat(state, request),
    BrokerRegistrationRequest: register_broker,
    ControllerRegistrationRequest: lambda state, request, _: register_controller(state, request),
    CreateTopicsRequest: _create_topics,
}


def decision_for(request: Message, version: int) -> Decision[Any]:
    """The decision that a request of this version asks for."""
    decide = _DECISIONS[type(request)]
    return lambda state: decide(state, request, version)


def local_decision_for(request: Message) -> Decision[Any]:
    """The same for a request of the controller's own node: never encoded, it has the newest version."""
    version = request.VERSIONS[-1]
    if isinstance(request, BrokerRegistrationRequest):
        return lambda state: register_broker(state, request, version, is_local=True)
    return decision_for(request, version)
