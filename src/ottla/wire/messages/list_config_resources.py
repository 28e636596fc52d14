# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class ListConfigResourcesRequest(Message):
    __slots__ = ("resource_types",)

    NAME = "ListConfigResourcesRequest"
    KIND = "request"
    API_KEY = 74
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ListConfigResourcesRequest request api=74 versions=0-1 flexible=0+ listeners=broker
    resource_types []int8 1+
"""

    def __init__(
        self,
        *,
        resource_types: list[int] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.resource_types: list[int] = [] if resource_types is FRESH else resource_types
        self.unknown_tagged_fields = unknown_tagged_fields


class ListConfigResourcesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "config_resources")

    NAME = "ListConfigResourcesResponse"
    KIND = "response"
    API_KEY = 74
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ListConfigResourcesResponse response api=74 versions=0-1 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    config_resources []ConfigResource 0+
        resource_name string 0+
        resource_type int8 1+ default=16 ignorable
"""

    class ConfigResource(Struct):
        __slots__ = ("resource_name", "resource_type")

        def __init__(
            self,
            *,
            resource_name: str = "",
            resource_type: int = 16,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.resource_name: str = resource_name
            self.resource_type: int = resource_type
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ListConfigResourcesResponse.ConfigResource] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.config_resources: list[ListConfigResourcesResponse.ConfigResource] = [] if config_resources is FRESH else config_resources
        self.unknown_tagged_fields = unknown_tagged_fields
