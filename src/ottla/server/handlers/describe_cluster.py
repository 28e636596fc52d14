"""DescribeCluster (60), versions 0 to 2.

Returns the cluster id, the nodes with their endpoints on this listener, and the controller: on a broker's
listener the brokers and any live one of them, on a controller's listener the controllers and the leader. v1
contains the endpoint type that the client expects: MISMATCHED_ENDPOINT_TYPE or UNSUPPORTED_ENDPOINT_TYPE if
it differs (INVALID_REQUEST in v0); v2 includes fenced brokers if requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.server.handlers.common import (
    CLUSTER_OPERATIONS,
    OPERATIONS_NOT_ASKED_FOR,
    is_controller_listener,
    random_alive_broker,
)
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasClusterId, HasConfig, HasImage, HasQuorum, HasRandom
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage

KEY = 60

BROKER = 1
CONTROLLER = 2
_NAMES = {BROKER: "BROKER", CONTROLLER: "CONTROLLER"}

_Node = DescribeClusterResponse.DescribeClusterBroker


class Parts(HasClusterId, HasConfig, HasImage, HasQuorum, HasRandom, Protocol):
    """The parts of a node that DescribeCluster needs."""


def handle(parts: Parts, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    here = CONTROLLER if is_controller_listener(parts, context) else BROKER
    asked = request.endpoint_type
    if asked not in _NAMES:
        return _refused(
            context.version, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
        )
    if asked != here:
        return _refused(
            context.version,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type "
            f"{_NAMES[here]}, but we wanted an endpoint of type {_NAMES[asked]}",
        )
    if here == CONTROLLER:
        nodes = _controllers(parts.image, context.listener)
        controller_id = parts.quorum.leader_id
    else:
        nodes = _brokers(parts.image, context.listener, include_fenced=request.include_fenced_brokers)
        controller_id = random_alive_broker(parts)
    is_known = any(node.broker_id == controller_id for node in nodes)
    return DescribeClusterResponse(
        endpoint_type=here,
        cluster_id=parts.cluster_id,
        controller_id=controller_id if is_known else -1,
        brokers=nodes,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED_FOR
        ),
    )


def _refused(version: int, code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=ErrorCode.INVALID_REQUEST if version == 0 else code, error_message=message
    )


def _brokers(image: ClusterImage, listener: str, *, include_fenced: bool) -> list[_Node]:
    nodes = []
    for registration in image.brokers.values():
        endpoint = registration.endpoint(listener)
        if endpoint is not None and (include_fenced or not registration.fenced):
            nodes.append(
                _Node(
                    broker_id=registration.id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=registration.rack,
                    is_fenced=registration.fenced,
                )
            )
    return nodes


def _controllers(image: ClusterImage, listener: str) -> list[_Node]:
    nodes = []
    for registration in image.controllers.values():
        endpoint = next((one for one in registration.endpoints if one.name == listener), None)
        if endpoint is not None:
            nodes.append(_Node(broker_id=registration.id, host=endpoint.host, port=endpoint.port))
    return nodes


API = Api(KEY, handle)
