"""ListGroups (16), versions 0 to 5.

Returns the groups that this node coordinates. v4 filters by state, v5 by type; case does not matter, and an
unknown name matches nothing. While a partition is loading, the list would be incomplete:
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.groups.shard import GroupFilter, GroupShard
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, distinct
from ottla.wire.error_codes import ErrorCode
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasGroups
    from ottla.waiting.pending_response import PendingResponse

KEY = 16


def handle(
    parts: HasGroups, request: ListGroupsRequest, context: RequestContext
) -> Steps[ListGroupsResponse | PendingResponse]:
    states = yield from distinct(request.states_filter)
    types = yield from distinct(request.types_filter)
    wanted = GroupFilter(states, types)
    return (
        yield from parts.groups.requests.ask_every(
            _group_ids, lambda shard, group_ids: shard.list_groups(group_ids, wanted), _joined
        )
    )


def _group_ids(shard: GroupShard) -> Steps[list[str]]:
    yield
    return list(shard.groups)


def _joined(groups: list[ListGroupsResponse.ListedGroup], is_any_loading: bool) -> ListGroupsResponse:
    if is_any_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return ListGroupsResponse(groups=groups)


API = Api(KEY, handle)
