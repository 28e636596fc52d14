"""DeleteGroups (42), versions 0 to 2.

Deletes groups that nobody is in, with their offsets. Each group is answered for itself: NON_EMPTY_GROUP,
GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, distinct
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.coordinator.result import Reply, Result
    from ottla.server.broker import Broker
    from ottla.server.net.answers import Answer
    from ottla.wire.errors import KafkaError

KEY = 42

_Deleted = DeleteGroupsResponse.DeletableGroupResult
_Decision = Callable[["GroupShard", "Reply"], "Result[list[_Deleted]]"]
_Failed = Callable[["KafkaError"], list[_Deleted]]


def handle(
    broker: Broker, request: DeleteGroupsRequest, context: RequestContext
) -> Steps[DeleteGroupsResponse | Answer]:
    group_ids = yield from distinct(request.groups_names)
    return (
        yield from broker.groups.ask_many(
            map(_delete, group_ids),
            lambda deleted: DeleteGroupsResponse(
                results=[result for results in deleted for result in results]
            ),
        )
    )


def _delete(group_id: str) -> tuple[str, _Decision, _Failed]:
    return (
        group_id,
        lambda shard, _reply: shard.delete_groups([group_id]),
        lambda error: [_Deleted(group_id=group_id, error_code=error.code)],
    )


API = Api(KEY, handle)
