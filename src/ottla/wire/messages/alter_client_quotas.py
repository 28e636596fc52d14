# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class AlterClientQuotasRequest(Message):
    __slots__ = ("entries", "validate_only")

    NAME = "AlterClientQuotasRequest"
    KIND = "request"
    API_KEY = 49
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
AlterClientQuotasRequest request api=49 versions=0-1 flexible=1+ listeners=broker,controller
    entries []EntryData 0+
        entity []EntityData 0+
            entity_type string 0+
            entity_name string 0+ nullable=0+
        ops []OpData 0+
            key string 0+
            value float64 0+
            remove bool 0+
    validate_only bool 0+
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

    class OpData(Struct):
        __slots__ = ("key", "value", "remove")

        def __init__(
            self,
            *,
            key: str = "",
            value: float = 0.0,
            remove: bool = False,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.key: str = key
            self.value: float = value
            self.remove: bool = remove
            self.unknown_tagged_fields = unknown_tagged_fields

    class EntryData(Struct):
        __slots__ = ("entity", "ops")

        def __init__(
            self,
            *,
            entity: list[AlterClientQuotasRequest.EntityData] = FRESH,
            ops: list[AlterClientQuotasRequest.OpData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.entity: list[AlterClientQuotasRequest.EntityData] = [] if entity is FRESH else entity
            self.ops: list[AlterClientQuotasRequest.OpData] = [] if ops is FRESH else ops
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        entries: list[AlterClientQuotasRequest.EntryData] = FRESH,
        validate_only: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.entries: list[AlterClientQuotasRequest.EntryData] = [] if entries is FRESH else entries
        self.validate_only: bool = validate_only
        self.unknown_tagged_fields = unknown_tagged_fields


class AlterClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "entries")

    NAME = "AlterClientQuotasResponse"
    KIND = "response"
    API_KEY = 49
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
AlterClientQuotasResponse response api=49 versions=0-1 flexible=1+
    throttle_time_ms int32 0+
    entries []EntryData 0+
        error_code int16 0+
        error_message string 0+ nullable=0+
        entity []EntityData 0+
            entity_type string 0+
            entity_name string 0+ nullable=0+
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

    class EntryData(Struct):
        __slots__ = ("error_code", "error_message", "entity")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            entity: list[AlterClientQuotasResponse.EntityData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.entity: list[AlterClientQuotasResponse.EntityData] = [] if entity is FRESH else entity
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[AlterClientQuotasResponse.EntryData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.entries: list[AlterClientQuotasResponse.EntryData] = [] if entries is FRESH else entries
        self.unknown_tagged_fields = unknown_tagged_fields
