# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DeleteGroupsRequest(Message):
    __slots__ = ("groups_names",)

    NAME = "DeleteGroupsRequest"
    KIND = "request"
    API_KEY = 42
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DeleteGroupsRequest request api=42 versions=0-2 flexible=2+ listeners=broker
    groups_names []string 0+ is=groupId
"""

    def __init__(
        self,
        *,
        groups_names: list[str] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.groups_names: list[str] = [] if groups_names is FRESH else groups_names
        self.unknown_tagged_fields = unknown_tagged_fields


class DeleteGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    NAME = "DeleteGroupsResponse"
    KIND = "response"
    API_KEY = 42
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DeleteGroupsResponse response api=42 versions=0-2 flexible=2+
    throttle_time_ms int32 0+
    results []DeletableGroupResult 0+
        group_id string 0+ key is=groupId
        error_code int16 0+
"""

    class DeletableGroupResult(Struct):
        __slots__ = ("group_id", "error_code")

        def __init__(
            self,
            *,
            group_id: str = "",
            error_code: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.group_id: str = group_id
            self.error_code: int = error_code
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeleteGroupsResponse.DeletableGroupResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[DeleteGroupsResponse.DeletableGroupResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
