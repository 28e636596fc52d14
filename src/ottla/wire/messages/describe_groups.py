# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeGroupsRequest(Message):
    __slots__ = ("groups", "include_authorized_operations")

    NAME = "DescribeGroupsRequest"
    KIND = "request"
    API_KEY = 15
    VERSIONS = range(0, 7)
    FLEXIBLE_FROM = 5
    SCHEMA = """\
DescribeGroupsRequest request api=15 versions=0-6 flexible=5+ listeners=broker
    groups []string 0+ is=groupId
    include_authorized_operations bool 3+
"""

    def __init__(
        self,
        *,
        groups: list[str] = FRESH,
        include_authorized_operations: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.groups: list[str] = [] if groups is FRESH else groups
        self.include_authorized_operations: bool = include_authorized_operations
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")

    NAME = "DescribeGroupsResponse"
    KIND = "response"
    API_KEY = 15
    VERSIONS = range(0, 7)
    FLEXIBLE_FROM = 5
    SCHEMA = """\
DescribeGroupsResponse response api=15 versions=0-6 flexible=5+
    throttle_time_ms int32 1+ ignorable
    groups []DescribedGroup 0+
        error_code int16 0+
        error_message string 6+ nullable=6+ default=null
        group_id string 0+ is=groupId
        group_state string 0+
        protocol_type string 0+
        protocol_data string 0+
        members []DescribedGroupMember 0+
            member_id string 0+
            group_instance_id string 4+ nullable=4+ default=null ignorable
            client_id string 0+
            client_host string 0+
            member_metadata bytes 0+
            member_assignment bytes 0+
        authorized_operations int32 3+ default=-2147483648
"""

    class DescribedGroupMember(Struct):
        __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = None,
            client_id: str = "",
            client_host: str = "",
            member_metadata: bytes = b"",
            member_assignment: bytes = b"",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.member_id: str = member_id
            self.group_instance_id: str | None = group_instance_id
            self.client_id: str = client_id
            self.client_host: str = client_host
            self.member_metadata: bytes = member_metadata
            self.member_assignment: bytes = member_assignment
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribedGroup(Struct):
        __slots__ = ("error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members", "authorized_operations")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = None,
            group_id: str = "",
            group_state: str = "",
            protocol_type: str = "",
            protocol_data: str = "",
            members: list[DescribeGroupsResponse.DescribedGroupMember] = FRESH,
            authorized_operations: int = -2147483648,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.group_id: str = group_id
            self.group_state: str = group_state
            self.protocol_type: str = protocol_type
            self.protocol_data: str = protocol_data
            self.members: list[DescribeGroupsResponse.DescribedGroupMember] = [] if members is FRESH else members
            self.authorized_operations: int = authorized_operations
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribeGroupsResponse.DescribedGroup] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribeGroupsResponse.DescribedGroup] = [] if groups is FRESH else groups
        self.unknown_tagged_fields = unknown_tagged_fields
