"""ConsumerGroupDescribe (69), versions 0 and 1.

Returns state, epochs, members and assignments of consumer groups (KIP-848). A group of another type is not
found. If many groups are named more than once, each is described once. v1 reports the protocol of each
member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.result import Result
from ottla.server.handlers.common import GROUP_OPERATIONS
from ottla.server.handlers.consumer_group_heartbeat import is_enabled
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, few_repeats
from ottla.server.parts import HasConfig, HasGroups, HasImage
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.waiting.pending_response import PendingResponse

KEY = 69

_Described = ConsumerGroupDescribeResponse.DescribedGroup


class Parts(HasConfig, HasImage, HasGroups, Protocol):
    """The parts of a node that ConsumerGroupDescribe needs."""


def handle(
    parts: Parts, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> Steps[ConsumerGroupDescribeResponse | PendingResponse]:
    group_ids = yield from few_repeats(request.group_ids)
    if not is_enabled(parts):
        return ConsumerGroupDescribeResponse(
            groups=[_refused(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in group_ids]
        )

    def decide(group_id: str, shard: GroupShard) -> Result[_Described]:
        described = shard.consumer.describe(group_id)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        return Result(described)

    def ask(
        group_id: str,
    ) -> CoordinatorRequest[GroupShard, _Described]:
        return (
            group_id,
            lambda shard, _pending: decide(group_id, shard),
            lambda error: _refused(group_id, error.code),
        )

    nameless = [_refused("", ErrorCode.INVALID_GROUP_ID) for group_id in group_ids if not group_id]
    return (
        yield from parts.groups.requests.ask_many(
            map(ask, filter(None, group_ids)),
            lambda groups: ConsumerGroupDescribeResponse(groups=nameless + groups),
        )
    )


def _refused(group_id: str, code: ErrorCode) -> _Described:
    return _Described(group_id=group_id, error_code=code)


API = Api(KEY, handle)
