# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class JoinGroupRequest(Message):
    __slots__ = ("group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id", "protocol_type", "protocols", "reason")

    NAME = "JoinGroupRequest"
    KIND = "request"
    API_KEY = 11
    VERSIONS = range(0, 10)
    FLEXIBLE_FROM = 6
    SCHEMA = """\
JoinGroupRequest request api=11 versions=0-9 flexible=6+ listeners=broker
    group_id string 0+ is=groupId
    session_timeout_ms int32 0+
    rebalance_timeout_ms int32 1+ default=-1 ignorable
    member_id string 0+
    group_instance_id string 5+ nullable=5+ default=null
    protocol_type string 0+
    protocols []JoinGroupRequestProtocol 0+
        name string 0+ key
        metadata bytes 0+
    reason string 8+ nullable=8+ default=null ignorable
"""

    class JoinGroupRequestProtocol(Struct):
        __slots__ = ("name", "metadata")

        def __init__(
            self,
            *,
            name: str = "",
            metadata: bytes = b"",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.metadata: bytes = metadata
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = FRESH,
        reason: str | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.session_timeout_ms: int = session_timeout_ms
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.protocol_type: str = protocol_type
        self.protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = [] if protocols is FRESH else protocols
        self.reason: str | None = reason
        self.unknown_tagged_fields = unknown_tagged_fields


class JoinGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader", "skip_assignment", "member_id", "members")

    NAME = "JoinGroupResponse"
    KIND = "response"
    API_KEY = 11
    VERSIONS = range(0, 10)
    FLEXIBLE_FROM = 6
    SCHEMA = """\
JoinGroupResponse response api=11 versions=0-9 flexible=6+
    throttle_time_ms int32 2+ ignorable
    error_code int16 0+
    generation_id int32 0+ default=-1
    protocol_type string 7+ nullable=7+ default=null ignorable
    protocol_name string 0+ nullable=7+
    leader string 0+
    skip_assignment bool 9+ default=false
    member_id string 0+
    members []JoinGroupResponseMember 0+
        member_id string 0+
        group_instance_id string 5+ nullable=5+ default=null ignorable
        metadata bytes 0+
"""

    class JoinGroupResponseMember(Struct):
        __slots__ = ("member_id", "group_instance_id", "metadata")

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = None,
            metadata: bytes = b"",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.member_id: str = member_id
            self.group_instance_id: str | None = group_instance_id
            self.metadata: bytes = metadata
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponse.JoinGroupResponseMember] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.generation_id: int = generation_id
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.leader: str = leader
        self.skip_assignment: bool = skip_assignment
        self.member_id: str = member_id
        self.members: list[JoinGroupResponse.JoinGroupResponseMember] = [] if members is FRESH else members
        self.unknown_tagged_fields = unknown_tagged_fields
