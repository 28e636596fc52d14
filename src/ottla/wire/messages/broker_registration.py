# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class BrokerRegistrationRequest(Message):
    __slots__ = ("broker_id", "cluster_id", "incarnation_id", "listeners", "features", "rack", "is_migrating_zk_broker", "log_dirs", "previous_broker_epoch")

    NAME = "BrokerRegistrationRequest"
    KIND = "request"
    API_KEY = 62
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
BrokerRegistrationRequest request api=62 versions=0-4 flexible=0+ listeners=controller
    broker_id int32 0+ is=brokerId
    cluster_id string 0+
    incarnation_id uuid 0+
    listeners []Listener 0+
        name string 0+ key
        host string 0+
        port uint16 0+
        security_protocol int16 0+
    features []Feature 0+
        name string 0+ key
        min_supported_version int16 0+
        max_supported_version int16 0+
    rack string 0+ nullable=0+
    is_migrating_zk_broker bool 1+ default=false
    log_dirs []uuid 2+ ignorable
    previous_broker_epoch int64 3+ default=-1 ignorable
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
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = ZERO,
        listeners: list[BrokerRegistrationRequest.Listener] = FRESH,
        features: list[BrokerRegistrationRequest.Feature] = FRESH,
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: list[bytes] = FRESH,
        previous_broker_epoch: int = -1,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.cluster_id: str = cluster_id
        self.incarnation_id: bytes = incarnation_id
        self.listeners: list[BrokerRegistrationRequest.Listener] = [] if listeners is FRESH else listeners
        self.features: list[BrokerRegistrationRequest.Feature] = [] if features is FRESH else features
        self.rack: str | None = rack
        self.is_migrating_zk_broker: bool = is_migrating_zk_broker
        self.log_dirs: list[bytes] = [] if log_dirs is FRESH else log_dirs
        self.previous_broker_epoch: int = previous_broker_epoch
        self.unknown_tagged_fields = unknown_tagged_fields


class BrokerRegistrationResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "broker_epoch")

    NAME = "BrokerRegistrationResponse"
    KIND = "response"
    API_KEY = 62
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
BrokerRegistrationResponse response api=62 versions=0-4 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    broker_epoch int64 0+ default=-1
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        broker_epoch: int = -1,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.broker_epoch: int = broker_epoch
        self.unknown_tagged_fields = unknown_tagged_fields
