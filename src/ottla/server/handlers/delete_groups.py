"""DeleteGroups (42), versions 0 to 2.

Deletes groups without members, with their offsets. Each group has its own result: NON_EMPTY_GROUP,
GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, distinct
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.server.parts import HasGroups
    from ottla.waiting.pending_response import PendingResponse

KEY = 42

_Deleted = DeleteGroupsResponse.DeletableGroupResult


def handle(
    parts: HasGroups, request: DeleteGroupsRequest, context: RequestContext
) -> Steps[DeleteGroupsResponse | PendingResponse]:
    group_ids = yield from distinct(request.groups_names)
    return (
        yield from parts.groups.requests.ask_many(
            map(_delete, group_ids),
            lambda deleted: DeleteGroupsResponse(
                results=[result for results in deleted for result in results]
            ),
        )
    )


def _delete(group_id: str) -> CoordinatorRequest[GroupShard, list[_Deleted]]:
    return (
        group_id,
        lambda shard, _pending: shard.delete_groups([group_id]),
        lambda error: [_Deleted(group_id=group_id, error_code=error.code)],
    )


API = Api(KEY, handle)
