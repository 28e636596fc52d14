# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeClientQuotasRequest(Message):
    __slots__ = ("components", "strict")

    NAME = "DescribeClientQuotasRequest"
    KIND = "request"
    API_KEY = 48
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
DescribeClientQuotasRequest request api=48 versions=0-1 flexible=1+ listeners=broker
    components []ComponentData 0+
        entity_type string 0+
        match_type int8 0+
        match string 0+ nullable=0+
    strict bool 0+
"""

    class ComponentData(Struct):
        __slots__ = ("entity_type", "match_type", "match")

        def __init__(
            self,
            *,
            entity_type: str = "",
            match_type: int = 0,
            match: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.entity_type: str = entity_type
            self.match_type: int = match_type
            self.match: str | None = match
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        components: list[DescribeClientQuotasRequest.ComponentData] = FRESH,
        strict: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.components: list[DescribeClientQuotasRequest.ComponentData] = [] if components is FRESH else components
        self.strict: bool = strict
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")

    NAME = "DescribeClientQuotasResponse"
    KIND = "response"
    API_KEY = 48
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
DescribeClientQuotasResponse response api=48 versions=0-1 flexible=1+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+
    entries []EntryData 0+ nullable=0+
        entity []EntityData 0+
            entity_type string 0+
            entity_name string 0+ nullable=0+
        values []ValueData 0+
            key string 0+
            value float64 0+
"""

    class EntityData(Struct):
        __slots__ = ("entity_type", "entity_name")

        def __init__(
            self,
            *,
            entity_type: str = "",
            entity_name: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.entity_type: str = entity_type
            self.entity_name: str | None = entity_name
            self.unknown_tagged_fields = unknown_tagged_fields

    class ValueData(Struct):
        __slots__ = ("key", "value")

        def __init__(
            self,
            *,
            key: str = "",
            value: float = 0.0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.key: str = key
            self.value: float = value
            self.unknown_tagged_fields = unknown_tagged_fields

    class EntryData(Struct):
        __slots__ = ("entity", "values")

        def __init__(
            self,
            *,
            entity: list[DescribeClientQuotasResponse.EntityData] = FRESH,
            values: list[DescribeClientQuotasResponse.ValueData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.entity: list[DescribeClientQuotasResponse.EntityData] = [] if entity is FRESH else entity
            self.values: list[DescribeClientQuotasResponse.ValueData] = [] if values is FRESH else values
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[DescribeClientQuotasResponse.EntryData] | None = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.entries: list[DescribeClientQuotasResponse.EntryData] | None = [] if entries is FRESH else entries
        self.unknown_tagged_fields = unknown_tagged_fields
