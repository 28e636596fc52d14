"""ConsumerGroupHeartbeat (68), versions 0 and 1.

A member of a consumer group (KIP-848) joins, stays alive, reconciles and leaves. From v1 on, members generate
their own id and may subscribe to a regular expression. A response waits only if it needs a large assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.groups.consumer.member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from ottla.server.coordinators.groups import caller_of
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasConfig, HasGroups, HasImage
from ottla.wire.errors import InvalidRequest, KafkaError, UnsupportedAssignor, UnsupportedVersion
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.waiting.pending_response import PendingResponse

KEY = 68

_OWN_ID_FROM = 1


class Parts(HasConfig, HasImage, HasGroups, Protocol):
    """The parts of a node that ConsumerGroupHeartbeat needs."""


class FeatureParts(HasConfig, HasImage, Protocol):
    """The parts of a node that `is_enabled` looks in."""


def handle(
    parts: Parts, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | PendingResponse:
    try:
        if not is_enabled(parts):
            raise UnsupportedVersion
        _check(request, context.version, parts.config.list_of("group.consumer.assignors"))
    except KafkaError as error:
        return _failed(error)
    caller = caller_of(context)
    return parts.groups.requests.ask(
        request.group_id, lambda shard, pending: shard.consumer.heartbeat(request, caller, pending), _failed
    )


def is_enabled(parts: FeatureParts) -> bool:
    """Whether this node enables it and the features of the cluster support it."""
    return (
        "consumer" in parts.config.list_of("group.coordinator.rebalance.protocols")
        and parts.image.features.get("group.version", 0) >= 1
    )


def _failed(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def _check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    epoch = request.member_epoch
    if version >= _OWN_ID_FROM or epoch > 0 or epoch == LEAVE_EPOCH:
        _check_text(request.member_id, "MemberId can't be empty.")
    _check_text(request.group_id, "GroupId can't be empty.")
    _check_text(request.instance_id, "InstanceId can't be empty.")
    _check_text(request.rack_id, "RackId can't be empty.")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}."
        )


def _check_text(text: str | None, complaint: str) -> None:
    if text is not None and not text.strip():
        raise InvalidRequest(complaint)


API = Api(KEY, handle)
