# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class FindCoordinatorRequest(Message):
    __slots__ = ("key", "key_type", "coordinator_keys")

    NAME = "FindCoordinatorRequest"
    KIND = "request"
    API_KEY = 10
    VERSIONS = range(0, 7)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
FindCoordinatorRequest request api=10 versions=0-6 flexible=3+ listeners=broker
    key string 0-3
    key_type int8 1+ default=0
    coordinator_keys []string 4+
"""

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.key: str = key
        self.key_type: int = key_type
        self.coordinator_keys: list[str] = [] if coordinator_keys is FRESH else coordinator_keys
        self.unknown_tagged_fields = unknown_tagged_fields


class FindCoordinatorResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")

    NAME = "FindCoordinatorResponse"
    KIND = "response"
    API_KEY = 10
    VERSIONS = range(0, 7)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
FindCoordinatorResponse response api=10 versions=0-6 flexible=3+
    throttle_time_ms int32 1+ ignorable
    error_code int16 0-3
    error_message string 1-3 nullable=1-3 ignorable
    node_id int32 0-3 is=brokerId
    host string 0-3
    port int32 0-3
    coordinators []Coordinator 4+
        key string 4+
        node_id int32 4+ is=brokerId
        host string 4+
        port int32 4+
        error_code int16 4+
        error_message string 4+ nullable=4+ ignorable
"""

    class Coordinator(Struct):
        __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")

        def __init__(
            self,
            *,
            key: str = "",
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.key: str = key
            self.node_id: int = node_id
            self.host: str = host
            self.port: int = port
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[FindCoordinatorResponse.Coordinator] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.coordinators: list[FindCoordinatorResponse.Coordinator] = [] if coordinators is FRESH else coordinators
        self.unknown_tagged_fields = unknown_tagged_fields
