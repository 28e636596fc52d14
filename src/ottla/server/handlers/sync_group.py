"""SyncGroup (14), versions 0 to 5.

The leader of a classic group sends the assignment of all members, and each member fetches its own: a follower
that asks first waits for the leader. v3 adds static members; from v5 on a member must send its protocol
(INCONSISTENT_GROUP_PROTOCOL).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.groups.classic.responses import sync_refused
from ottla.server.coordinators.groups import caller_of
from ottla.server.handlers.classic_fast_path import SyncFastPath
from ottla.server.net.dispatch import Api, FastPath, RequestContext, Routes
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker
    from ottla.server.parts import HasGroups
    from ottla.waiting.pending_response import PendingResponse

KEY = 14

_PROTOCOL_REQUIRED_FROM = 5


def handle(
    parts: HasGroups, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse | PendingResponse:
    if context.version >= _PROTOCOL_REQUIRED_FROM and None in (request.protocol_type, request.protocol_name):
        return sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return sync_refused(ErrorCode.INVALID_GROUP_ID)
    caller = caller_of(context)
    return parts.groups.requests.ask(
        request.group_id,
        lambda shard, pending: shard.classic.sync(request, caller, pending),
        lambda error: sync_refused(error.code),
    )


def fast_path(broker: Broker, routes: Routes) -> FastPath:
    return SyncFastPath(broker)


API = Api(KEY, handle, fast_path=fast_path)
