# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class IncrementalAlterConfigsRequest(Message):
    __slots__ = ("resources", "validate_only")

    NAME = "IncrementalAlterConfigsRequest"
    KIND = "request"
    API_KEY = 44
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
IncrementalAlterConfigsRequest request api=44 versions=0-1 flexible=1+ listeners=broker,controller
    resources []AlterConfigsResource 0+
        resource_type int8 0+ key
        resource_name string 0+ key
        configs []AlterableConfig 0+
            name string 0+ key
            config_operation int8 0+ key
            value string 0+ nullable=0+
    validate_only bool 0+
"""

    class AlterableConfig(Struct):
        __slots__ = ("name", "config_operation", "value")

        def __init__(
            self,
            *,
            name: str = "",
            config_operation: int = 0,
            value: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.config_operation: int = config_operation
            self.value: str | None = value
            self.unknown_tagged_fields = unknown_tagged_fields

    class AlterConfigsResource(Struct):
        __slots__ = ("resource_type", "resource_name", "configs")

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.resource_type: int = resource_type
            self.resource_name: str = resource_name
            self.configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = [] if configs is FRESH else configs
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = FRESH,
        validate_only: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = [] if resources is FRESH else resources
        self.validate_only: bool = validate_only
        self.unknown_tagged_fields = unknown_tagged_fields


class IncrementalAlterConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")

    NAME = "IncrementalAlterConfigsResponse"
    KIND = "response"
    API_KEY = 44
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
IncrementalAlterConfigsResponse response api=44 versions=0-1 flexible=1+
    throttle_time_ms int32 0+
    responses []AlterConfigsResourceResponse 0+
        error_code int16 0+
        error_message string 0+ nullable=0+
        resource_type int8 0+
        resource_name string 0+
"""

    class AlterConfigsResourceResponse(Struct):
        __slots__ = ("error_code", "error_message", "resource_type", "resource_name")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.resource_type: int = resource_type
            self.resource_name: str = resource_name
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = [] if responses is FRESH else responses
        self.unknown_tagged_fields = unknown_tagged_fields
