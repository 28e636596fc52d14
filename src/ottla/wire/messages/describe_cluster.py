# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeClusterRequest(Message):
    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")

    NAME = "DescribeClusterRequest"
    KIND = "request"
    API_KEY = 60
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeClusterRequest request api=60 versions=0-2 flexible=0+ listeners=broker,controller
    include_cluster_authorized_operations bool 0+
    endpoint_type int8 1+ default=1
    include_fenced_brokers bool 2+
"""

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.include_cluster_authorized_operations: bool = include_cluster_authorized_operations
        self.endpoint_type: int = endpoint_type
        self.include_fenced_brokers: bool = include_fenced_brokers
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeClusterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "endpoint_type", "cluster_id", "controller_id", "brokers", "cluster_authorized_operations")

    NAME = "DescribeClusterResponse"
    KIND = "response"
    API_KEY = 60
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeClusterResponse response api=60 versions=0-2 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+ default=null
    endpoint_type int8 1+ default=1
    cluster_id string 0+
    controller_id int32 0+ default=-1 is=brokerId
    brokers []DescribeClusterBroker 0+
        broker_id int32 0+ key is=brokerId
        host string 0+
        port int32 0+
        rack string 0+ nullable=0+ default=null
        is_fenced bool 2+
    cluster_authorized_operations int32 0+ default=-2147483648
"""

    class DescribeClusterBroker(Struct):
        __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")

        def __init__(
            self,
            *,
            broker_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
            is_fenced: bool = False,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.broker_id: int = broker_id
            self.host: str = host
            self.port: int = port
            self.rack: str | None = rack
            self.is_fenced: bool = is_fenced
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterResponse.DescribeClusterBroker] = FRESH,
        cluster_authorized_operations: int = -2147483648,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.endpoint_type: int = endpoint_type
        self.cluster_id: str = cluster_id
        self.controller_id: int = controller_id
        self.brokers: list[DescribeClusterResponse.DescribeClusterBroker] = [] if brokers is FRESH else brokers
        self.cluster_authorized_operations: int = cluster_authorized_operations
        self.unknown_tagged_fields = unknown_tagged_fields
