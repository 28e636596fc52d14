"""JoinGroup (11), versions 0 to 9.

A member of a classic group joins; the response is sent when its generation begins. From v4 on, a new member
first gets its id (MEMBER_ID_REQUIRED) and joins with it; v5 adds static members, v9 tells a static leader
that has returned to keep the assignment. v0 has no rebalance timeout: its session timeout is used. The group
processes all protocols of a member in one turn of the loop, so a request may contain at most `PROTOCOLS_MAX`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.groups.classic.responses import join_refused
from ottla.server.coordinators.groups import caller_of
from ottla.server.handlers.classic_fast_path import JoinFastPath
from ottla.server.net.dispatch import Api, FastPath, RequestContext, Routes
from ottla.server.parts import HasConfig, HasGroups
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker
    from ottla.waiting.pending_response import PendingResponse

KEY = 11
PROTOCOLS_MAX = 1000
"""Members have one to three."""


class Parts(HasConfig, HasGroups, Protocol):
    """The parts of a node that JoinGroup needs."""


def handle(
    parts: Parts, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | PendingResponse:
    version = context.version
    if not request.group_id:
        return join_refused(ErrorCode.INVALID_GROUP_ID, request.member_id, version)
    least_ms = parts.config.int_of("group.min.session.timeout.ms")
    if not least_ms <= request.session_timeout_ms <= parts.config.int_of("group.max.session.timeout.ms"):
        return join_refused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id, version)
    if len(request.protocols) > PROTOCOLS_MAX:
        return join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id, version)
    if version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    caller = caller_of(context)
    return parts.groups.requests.ask(
        request.group_id,
        lambda shard, pending: shard.classic.join(request, caller, pending),
        lambda error: join_refused(error.code, "", version),
    )


def fast_path(broker: Broker, routes: Routes) -> FastPath:
    return JoinFastPath(broker)


API = Api(KEY, handle, fast_path=fast_path)
