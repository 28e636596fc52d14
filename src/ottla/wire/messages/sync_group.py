# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class SyncGroupRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name", "assignments")

    NAME = "SyncGroupRequest"
    KIND = "request"
    API_KEY = 14
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
SyncGroupRequest request api=14 versions=0-5 flexible=4+ listeners=broker
    group_id string 0+ is=groupId
    generation_id int32 0+
    member_id string 0+
    group_instance_id string 3+ nullable=3+ default=null
    protocol_type string 5+ nullable=5+ default=null ignorable
    protocol_name string 5+ nullable=5+ default=null ignorable
    assignments []SyncGroupRequestAssignment 0+
        member_id string 0+
        assignment bytes 0+
"""

    class SyncGroupRequestAssignment(Struct):
        __slots__ = ("member_id", "assignment")

        def __init__(
            self,
            *,
            member_id: str = "",
            assignment: bytes = b"",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.member_id: str = member_id
            self.assignment: bytes = assignment
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id: int = generation_id
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = [] if assignments is FRESH else assignments
        self.unknown_tagged_fields = unknown_tagged_fields


class SyncGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")

    NAME = "SyncGroupResponse"
    KIND = "response"
    API_KEY = 14
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
SyncGroupResponse response api=14 versions=0-5 flexible=4+
    throttle_time_ms int32 1+ ignorable
    error_code int16 0+
    protocol_type string 5+ nullable=5+ default=null ignorable
    protocol_name string 5+ nullable=5+ default=null ignorable
    assignment bytes 0+
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.assignment: bytes = assignment
        self.unknown_tagged_fields = unknown_tagged_fields
