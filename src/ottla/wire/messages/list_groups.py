# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class ListGroupsRequest(Message):
    __slots__ = ("states_filter", "types_filter")

    NAME = "ListGroupsRequest"
    KIND = "request"
    API_KEY = 16
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
ListGroupsRequest request api=16 versions=0-5 flexible=3+ listeners=broker
    states_filter []string 4+
    types_filter []string 5+
"""

    def __init__(
        self,
        *,
        states_filter: list[str] = FRESH,
        types_filter: list[str] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.states_filter: list[str] = [] if states_filter is FRESH else states_filter
        self.types_filter: list[str] = [] if types_filter is FRESH else types_filter
        self.unknown_tagged_fields = unknown_tagged_fields


class ListGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "groups")

    NAME = "ListGroupsResponse"
    KIND = "response"
    API_KEY = 16
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
ListGroupsResponse response api=16 versions=0-5 flexible=3+
    throttle_time_ms int32 1+ ignorable
    error_code int16 0+
    groups []ListedGroup 0+
        group_id string 0+ is=groupId
        protocol_type string 0+
        group_state string 4+ ignorable
        group_type string 5+ ignorable
"""

    class ListedGroup(Struct):
        __slots__ = ("group_id", "protocol_type", "group_state", "group_type")

        def __init__(
            self,
            *,
            group_id: str = "",
            protocol_type: str = "",
            group_state: str = "",
            group_type: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.group_id: str = group_id
            self.protocol_type: str = protocol_type
            self.group_state: str = group_state
            self.group_type: str = group_type
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListGroupsResponse.ListedGroup] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.groups: list[ListGroupsResponse.ListedGroup] = [] if groups is FRESH else groups
        self.unknown_tagged_fields = unknown_tagged_fields
