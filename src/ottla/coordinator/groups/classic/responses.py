"""The responses of the classic protocol in each version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire import codec
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.groups.classic.group import ClassicGroup

_LENGTH_OF_ONE_BYTE = 0x7F  # a compact string below this
_NULL_PROTOCOL_FROM = 7  # before this version of JoinGroup no protocol is "", from it on it is null


def join_refused(code: ErrorCode, member_id: str, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, member_id=member_id, protocol_name=None if version >= _NULL_PROTOCOL_FROM else ""
    )


def joined(
    group: ClassicGroup,
    member_id: str,
    version: int,
    *,
    with_members: bool = False,
    leader_id: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The response to a member of the current generation. `with_members` lists all members for the leader."""
    members = []
    if with_members:
        members = [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name or (None if version >= _NULL_PROTOCOL_FROM else ""),
        leader=leader_id or group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


class JoinedFollower(JoinGroupResponse):
    """The response to a member that is not the leader, with its encoded form in one version."""

    __slots__ = ("body",)

    body: bytes


class FollowerResponses:
    """The responses of one version to the followers of a generation, which differ only in the member id."""

    def __init__(self, group: ClassicGroup, version: int) -> None:
        self._version = version
        self._fields = joined(group, "", version)
        encoded = codec.encode(self._fields, version)
        self._is_compact = version >= JoinGroupResponse.FLEXIBLE_FROM
        # The message ends with the member id, the members, and in the later versions the tags.
        self._start = encoded[:-3] if self._is_compact else encoded[:-6]

    def of(self, member_id: str) -> JoinedFollower:
        fields = self._fields
        response = JoinedFollower(
            generation_id=fields.generation_id,
            protocol_type=fields.protocol_type,
            protocol_name=fields.protocol_name,
            leader=fields.leader,
            member_id=member_id,
        )
        text = member_id.encode()
        if not self._is_compact:
            response.body = self._start + len(text).to_bytes(2, "big") + text + b"\0\0\0\0"
        elif len(text) < _LENGTH_OF_ONE_BYTE:
            response.body = self._start + (len(text) + 1).to_bytes(1, "big") + text + b"\1\0"
        else:
            response.body = codec.encode(response, self._version)
        return response


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type or None, protocol_name=group.protocol_name, assignment=assignment
    )
