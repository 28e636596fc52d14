# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DeleteAclsRequest(Message):
    __slots__ = ("filters",)

    NAME = "DeleteAclsRequest"
    KIND = "request"
    API_KEY = 31
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DeleteAclsRequest request api=31 versions=1-3 flexible=2+ listeners=broker,controller
    filters []DeleteAclsFilter 0+
        resource_type_filter int8 0+
        resource_name_filter string 0+ nullable=0+
        pattern_type_filter int8 1+ default=3
        principal_filter string 0+ nullable=0+
        host_filter string 0+ nullable=0+
        operation int8 0+
        permission_type int8 0+
"""

    class DeleteAclsFilter(Struct):
        __slots__ = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter", "operation", "permission_type")

        def __init__(
            self,
            *,
            resource_type_filter: int = 0,
            resource_name_filter: str | None = "",
            pattern_type_filter: int = 3,
            principal_filter: str | None = "",
            host_filter: str | None = "",
            operation: int = 0,
            permission_type: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.resource_type_filter: int = resource_type_filter
            self.resource_name_filter: str | None = resource_name_filter
            self.pattern_type_filter: int = pattern_type_filter
            self.principal_filter: str | None = principal_filter
            self.host_filter: str | None = host_filter
            self.operation: int = operation
            self.permission_type: int = permission_type
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        filters: list[DeleteAclsRequest.DeleteAclsFilter] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.filters: list[DeleteAclsRequest.DeleteAclsFilter] = [] if filters is FRESH else filters
        self.unknown_tagged_fields = unknown_tagged_fields


class DeleteAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "filter_results")

    NAME = "DeleteAclsResponse"
    KIND = "response"
    API_KEY = 31
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DeleteAclsResponse response api=31 versions=1-3 flexible=2+
    throttle_time_ms int32 0+
    filter_results []DeleteAclsFilterResult 0+
        error_code int16 0+
        error_message string 0+ nullable=0+
        matching_acls []DeleteAclsMatchingAcl 0+
            error_code int16 0+
            error_message string 0+ nullable=0+
            resource_type int8 0+
            resource_name string 0+
            pattern_type int8 1+ default=3
            principal string 0+
            host string 0+
            operation int8 0+
            permission_type int8 0+
"""

    class DeleteAclsMatchingAcl(Struct):
        __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
            pattern_type: int = 3,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.resource_type: int = resource_type
            self.resource_name: str = resource_name
            self.pattern_type: int = pattern_type
            self.principal: str = principal
            self.host: str = host
            self.operation: int = operation
            self.permission_type: int = permission_type
            self.unknown_tagged_fields = unknown_tagged_fields

    class DeleteAclsFilterResult(Struct):
        __slots__ = ("error_code", "error_message", "matching_acls")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = [] if matching_acls is FRESH else matching_acls
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = [] if filter_results is FRESH else filter_results
        self.unknown_tagged_fields = unknown_tagged_fields
