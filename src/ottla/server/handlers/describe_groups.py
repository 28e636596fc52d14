"""DescribeGroups (15), versions 0 to 6.

Returns state and members of groups of the classic protocol. A group that does not exist, or has another type,
is Dead; from v6 on it also has the error GROUP_ID_NOT_FOUND. If many groups are named more than once, each is
described once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.result import Result
from ottla.server.handlers.common import GROUP_OPERATIONS
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, few_repeats
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.server.parts import HasGroups
    from ottla.waiting.pending_response import PendingResponse

KEY = 15

_Described = DescribeGroupsResponse.DescribedGroup


def handle(
    parts: HasGroups, request: DescribeGroupsRequest, context: RequestContext
) -> Steps[DescribeGroupsResponse | PendingResponse]:
    def decide(group_id: str, shard: GroupShard) -> Result[_Described]:
        described = shard.describe_classic(group_id, context.version)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        return Result(described)

    def ask(
        group_id: str,
    ) -> CoordinatorRequest[GroupShard, _Described]:
        return (
            group_id,
            lambda shard, _pending: decide(group_id, shard),
            lambda error: _Described(group_id=group_id, error_code=error.code),
        )

    group_ids = yield from few_repeats(request.groups)
    return (
        yield from parts.groups.requests.ask_many(
            map(ask, group_ids), lambda groups: DescribeGroupsResponse(groups=groups)
        )
    )


API = Api(KEY, handle)
