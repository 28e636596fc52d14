# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class LeaveGroupRequest(Message):
    __slots__ = ("group_id", "member_id", "members")

    NAME = "LeaveGroupRequest"
    KIND = "request"
    API_KEY = 13
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
LeaveGroupRequest request api=13 versions=0-5 flexible=4+ listeners=broker
    group_id string 0+ is=groupId
    member_id string 0-2
    members []MemberIdentity 3+
        member_id string 3+
        group_instance_id string 3+ nullable=3+ default=null
        reason string 5+ nullable=5+ default=null ignorable
"""

    class MemberIdentity(Struct):
        __slots__ = ("member_id", "group_instance_id", "reason")

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = None,
            reason: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.member_id: str = member_id
            self.group_instance_id: str | None = group_instance_id
            self.reason: str | None = reason
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        members: list[LeaveGroupRequest.MemberIdentity] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.members: list[LeaveGroupRequest.MemberIdentity] = [] if members is FRESH else members
        self.unknown_tagged_fields = unknown_tagged_fields


class LeaveGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "members")

    NAME = "LeaveGroupResponse"
    KIND = "response"
    API_KEY = 13
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
LeaveGroupResponse response api=13 versions=0-5 flexible=4+
    throttle_time_ms int32 1+ ignorable
    error_code int16 0+
    members []MemberResponse 3+
        member_id string 3+
        group_instance_id string 3+ nullable=3+
        error_code int16 3+
"""

    class MemberResponse(Struct):
        __slots__ = ("member_id", "group_instance_id", "error_code")

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = "",
            error_code: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.member_id: str = member_id
            self.group_instance_id: str | None = group_instance_id
            self.error_code: int = error_code
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[LeaveGroupResponse.MemberResponse] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.members: list[LeaveGroupResponse.MemberResponse] = [] if members is FRESH else members
        self.unknown_tagged_fields = unknown_tagged_fields
