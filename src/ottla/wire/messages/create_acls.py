# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class CreateAclsRequest(Message):
    __slots__ = ("creations",)

    NAME = "CreateAclsRequest"
    KIND = "request"
    API_KEY = 30
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
CreateAclsRequest request api=30 versions=1-3 flexible=2+ listeners=broker,controller
    creations []AclCreation 0+
        resource_type int8 0+
        resource_name string 0+
        resource_pattern_type int8 1+ default=3
        principal string 0+
        host string 0+
        operation int8 0+
        permission_type int8 0+
"""

    class AclCreation(Struct):
        __slots__ = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            resource_pattern_type: int = 3,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.resource_type: int = resource_type
            self.resource_name: str = resource_name
            self.resource_pattern_type: int = resource_pattern_type
            self.principal: str = principal
            self.host: str = host
            self.operation: int = operation
            self.permission_type: int = permission_type
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        creations: list[CreateAclsRequest.AclCreation] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.creations: list[CreateAclsRequest.AclCreation] = [] if creations is FRESH else creations
        self.unknown_tagged_fields = unknown_tagged_fields


class CreateAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    NAME = "CreateAclsResponse"
    KIND = "response"
    API_KEY = 30
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
CreateAclsResponse response api=30 versions=1-3 flexible=2+
    throttle_time_ms int32 0+
    results []AclCreationResult 0+
        error_code int16 0+
        error_message string 0+ nullable=0+
"""

    class AclCreationResult(Struct):
        __slots__ = ("error_code", "error_message")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreateAclsResponse.AclCreationResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[CreateAclsResponse.AclCreationResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
