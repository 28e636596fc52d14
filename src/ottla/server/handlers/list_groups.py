"""ListGroups (16), versions 0 to 5.

The groups that this node coordinates. v4 filters by state, v5 by type; case does not matter, and a name that
nothing has matches nothing. While a partition is being loaded the list would be incomplete:
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.dispatch import Api, RequestContext
from ottla.wire.error_codes import ErrorCode
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker
    from ottla.server.waiting import Answer

KEY = 16


def handle(
    broker: Broker, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse | Answer:
    return broker.groups.ask_every(
        lambda shard: shard.list_groups(request.states_filter, request.types_filter), _joined
    )


def _joined(shards: list[list[ListGroupsResponse.ListedGroup]], is_any_loading: bool) -> ListGroupsResponse:
    if is_any_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return ListGroupsResponse(groups=[group for listed in shards for group in listed])


API = Api(KEY, handle)
