"""Heartbeat (12), versions 0 to 4.

A member of a classic group reports that it is alive, and learns whether it must rejoin
(REBALANCE_IN_PROGRESS). While the group is loading, the response has no error: sessions start when it is
loaded. v3 adds static members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.coordinators.groups import caller_of
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import CoordinatorLoadInProgress, ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasGroups
    from ottla.waiting.pending_response import PendingResponse

KEY = 12


def handle(
    parts: HasGroups, request: HeartbeatRequest, context: RequestContext
) -> HeartbeatResponse | PendingResponse:
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    caller = caller_of(context)
    return parts.groups.requests.ask(
        request.group_id, lambda shard, _pending: shard.classic.heartbeat(request, caller), _failed
    )


def _failed(error: KafkaError) -> HeartbeatResponse:
    return HeartbeatResponse(
        error_code=ErrorCode.NONE if isinstance(error, CoordinatorLoadInProgress) else error.code
    )


API = Api(KEY, handle)
