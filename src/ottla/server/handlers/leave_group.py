"""LeaveGroup (13), versions 0 to 5.

Members leave a classic group, or are removed by their instance id. From v3 on, one request names several
members, each with its own error; before, it names one, whose error is that of the whole.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from ottla.server.coordinators.groups import caller_of
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.wire.errors import ErrorCode, KafkaError, UnknownMemberId
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.server.parts import HasGroups
    from ottla.waiting.pending_response import PendingResponse

KEY = 13

_MANY_FROM = 3
MEMBERS_PER_DECISION = 500


def handle(
    parts: HasGroups, request: LeaveGroupRequest, context: RequestContext
) -> Steps[LeaveGroupResponse | PendingResponse]:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    caller = caller_of(context)
    if caller.version < _MANY_FROM:
        request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]

    def ask(first: int) -> CoordinatorRequest[GroupShard, LeaveGroupResponse]:
        part = copy(request)
        part.members = request.members[first : first + MEMBERS_PER_DECISION]
        return (
            request.group_id,
            lambda shard, _pending: shard.classic.leave(part, caller),
            lambda error: _failed(part, error),
        )

    def join(answers: list[LeaveGroupResponse]) -> LeaveGroupResponse:
        failed = next((answer for answer in answers if answer.error_code), None)
        if failed is not None:
            return failed
        members = [member for answer in answers for member in answer.members]
        return _in_version(LeaveGroupResponse(members=members), caller.version)

    firsts = range(0, max(len(request.members), 1), MEMBERS_PER_DECISION)
    return (yield from parts.groups.requests.ask_many(map(ask, firsts), join))


def _failed(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    """A group that does not exist is an error of each member."""
    if not isinstance(error, UnknownMemberId):
        return LeaveGroupResponse(error_code=error.code)
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error.code,
            )
            for identity in request.members
        ]
    )


def _in_version(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    if version >= _MANY_FROM or not response.members:
        return response
    return LeaveGroupResponse(error_code=response.members[0].error_code)


API = Api(KEY, handle)
