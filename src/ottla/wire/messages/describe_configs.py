# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeConfigsRequest(Message):
    __slots__ = ("resources", "include_synonyms", "include_documentation")

    NAME = "DescribeConfigsRequest"
    KIND = "request"
    API_KEY = 32
    VERSIONS = range(1, 5)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
DescribeConfigsRequest request api=32 versions=1-4 flexible=4+ listeners=broker,controller
    resources []DescribeConfigsResource 0+
        resource_type int8 0+
        resource_name string 0+
        configuration_keys []string 0+ nullable=0+
    include_synonyms bool 1+ default=false
    include_documentation bool 3+ default=false
"""

    class DescribeConfigsResource(Struct):
        __slots__ = ("resource_type", "resource_name", "configuration_keys")

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            configuration_keys: list[str] | None = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.resource_type: int = resource_type
            self.resource_name: str = resource_name
            self.configuration_keys: list[str] | None = [] if configuration_keys is FRESH else configuration_keys
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsRequest.DescribeConfigsResource] = FRESH,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.resources: list[DescribeConfigsRequest.DescribeConfigsResource] = [] if resources is FRESH else resources
        self.include_synonyms: bool = include_synonyms
        self.include_documentation: bool = include_documentation
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    NAME = "DescribeConfigsResponse"
    KIND = "response"
    API_KEY = 32
    VERSIONS = range(1, 5)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
DescribeConfigsResponse response api=32 versions=1-4 flexible=4+
    throttle_time_ms int32 0+
    results []DescribeConfigsResult 0+
        error_code int16 0+
        error_message string 0+ nullable=0+
        resource_type int8 0+
        resource_name string 0+
        configs []DescribeConfigsResourceResult 0+
            name string 0+
            value string 0+ nullable=0+
            read_only bool 0+
            config_source int8 1+ default=-1 ignorable
            is_sensitive bool 0+
            synonyms []DescribeConfigsSynonym 1+ ignorable
                name string 1+
                value string 1+ nullable=0+
                source int8 1+
            config_type int8 3+ default=0 ignorable
            documentation string 3+ nullable=0+ ignorable
"""

    class DescribeConfigsSynonym(Struct):
        __slots__ = ("name", "value", "source")

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
            source: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.value: str | None = value
            self.source: int = source
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeConfigsResourceResult(Struct):
        __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type", "documentation")

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
            read_only: bool = False,
            config_source: int = -1,
            is_sensitive: bool = False,
            synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = FRESH,
            config_type: int = 0,
            documentation: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.value: str | None = value
            self.read_only: bool = read_only
            self.config_source: int = config_source
            self.is_sensitive: bool = is_sensitive
            self.synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = [] if synonyms is FRESH else synonyms
            self.config_type: int = config_type
            self.documentation: str | None = documentation
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeConfigsResult(Struct):
        __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
            configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.resource_type: int = resource_type
            self.resource_name: str = resource_name
            self.configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = [] if configs is FRESH else configs
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResponse.DescribeConfigsResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[DescribeConfigsResponse.DescribeConfigsResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
