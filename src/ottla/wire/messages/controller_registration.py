# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ControllerRegistrationRequest(Message):
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "listeners", "features")

    NAME = "ControllerRegistrationRequest"
    KIND = "request"
    API_KEY = 70
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ControllerRegistrationRequest request api=70 versions=0 flexible=0+ listeners=controller
    controller_id int32 0+
    incarnation_id uuid 0+
    zk_migration_ready bool 0+
    listeners []Listener 0+
        name string 0+ key
        host string 0+
        port uint16 0+
        security_protocol int16 0+
    features []Feature 0+
        name string 0+ key
        min_supported_version int16 0+
        max_supported_version int16 0+
"""

    class Listener(Struct):
        __slots__ = ("name", "host", "port", "security_protocol")

        def __init__(
            self,
            *,
            name: str = "",
            host: str = "",
            port: int = 0,
            security_protocol: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.host: str = host
            self.port: int = port
            self.security_protocol: int = security_protocol
            self.unknown_tagged_fields = unknown_tagged_fields

    class Feature(Struct):
        __slots__ = ("name", "min_supported_version", "max_supported_version")

        def __init__(
            self,
            *,
            name: str = "",
            min_supported_version: int = 0,
            max_supported_version: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.min_supported_version: int = min_supported_version
            self.max_supported_version: int = max_supported_version
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO,
        zk_migration_ready: bool = False,
        listeners: list[ControllerRegistrationRequest.Listener] = FRESH,
        features: list[ControllerRegistrationRequest.Feature] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.controller_id: int = controller_id
        self.incarnation_id: bytes = incarnation_id
        self.zk_migration_ready: bool = zk_migration_ready
        self.listeners: list[ControllerRegistrationRequest.Listener] = [] if listeners is FRESH else listeners
        self.features: list[ControllerRegistrationRequest.Feature] = [] if features is FRESH else features
        self.unknown_tagged_fields = unknown_tagged_fields


class ControllerRegistrationResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    NAME = "ControllerRegistrationResponse"
    KIND = "response"
    API_KEY = 70
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ControllerRegistrationResponse response api=70 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.unknown_tagged_fields = unknown_tagged_fields
