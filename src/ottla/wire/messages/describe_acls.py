# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeAclsRequest(Message):
    __slots__ = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter", "operation", "permission_type")

    NAME = "DescribeAclsRequest"
    KIND = "request"
    API_KEY = 29
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DescribeAclsRequest request api=29 versions=1-3 flexible=2+ listeners=broker,controller
    resource_type_filter int8 0+
    resource_name_filter string 0+ nullable=0+
    pattern_type_filter int8 1+ default=3
    principal_filter string 0+ nullable=0+
    host_filter string 0+ nullable=0+
    operation int8 0+
    permission_type int8 0+
"""

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


class DescribeAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")

    NAME = "DescribeAclsResponse"
    KIND = "response"
    API_KEY = 29
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DescribeAclsResponse response api=29 versions=1-3 flexible=2+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+
    resources []DescribeAclsResource 0+
        resource_type int8 0+
        resource_name string 0+
        pattern_type int8 1+ default=3
        acls []AclDescription 0+
            principal string 0+
            host string 0+
            operation int8 0+
            permission_type int8 0+
"""

    class AclDescription(Struct):
        __slots__ = ("principal", "host", "operation", "permission_type")

        def __init__(
            self,
            *,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.principal: str = principal
            self.host: str = host
            self.operation: int = operation
            self.permission_type: int = permission_type
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeAclsResource(Struct):
        __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            pattern_type: int = 3,
            acls: list[DescribeAclsResponse.AclDescription] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.resource_type: int = resource_type
            self.resource_name: str = resource_name
            self.pattern_type: int = pattern_type
            self.acls: list[DescribeAclsResponse.AclDescription] = [] if acls is FRESH else acls
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResponse.DescribeAclsResource] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resources: list[DescribeAclsResponse.DescribeAclsResource] = [] if resources is FRESH else resources
        self.unknown_tagged_fields = unknown_tagged_fields
