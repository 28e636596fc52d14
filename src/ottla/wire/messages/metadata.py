# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class MetadataRequest(Message):
    __slots__ = ("topics", "allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations")

    NAME = "MetadataRequest"
    KIND = "request"
    API_KEY = 3
    VERSIONS = range(0, 14)
    FLEXIBLE_FROM = 9
    SCHEMA = """\
MetadataRequest request api=3 versions=0-13 flexible=9+ listeners=broker
    topics []MetadataRequestTopic 0+ nullable=1+
        topic_id uuid 10+ ignorable
        name string 0+ nullable=10+ is=topicName
    allow_auto_topic_creation bool 4+ default=true
    include_cluster_authorized_operations bool 8-10
    include_topic_authorized_operations bool 8+
"""

    class MetadataRequestTopic(Struct):
        __slots__ = ("topic_id", "name")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            name: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.name: str | None = name
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[MetadataRequest.MetadataRequestTopic] | None = FRESH,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[MetadataRequest.MetadataRequestTopic] | None = [] if topics is FRESH else topics
        self.allow_auto_topic_creation: bool = allow_auto_topic_creation
        self.include_cluster_authorized_operations: bool = include_cluster_authorized_operations
        self.include_topic_authorized_operations: bool = include_topic_authorized_operations
        self.unknown_tagged_fields = unknown_tagged_fields


class MetadataResponse(Message):
    __slots__ = ("throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics", "cluster_authorized_operations", "error_code")

    NAME = "MetadataResponse"
    KIND = "response"
    API_KEY = 3
    VERSIONS = range(0, 14)
    FLEXIBLE_FROM = 9
    SCHEMA = """\
MetadataResponse response api=3 versions=0-13 flexible=9+
    throttle_time_ms int32 3+ ignorable
    brokers []MetadataResponseBroker 0+
        node_id int32 0+ key is=brokerId
        host string 0+
        port int32 0+
        rack string 1+ nullable=1+ default=null ignorable
    cluster_id string 2+ nullable=2+ default=null ignorable
    controller_id int32 1+ default=-1 ignorable is=brokerId
    topics []MetadataResponseTopic 0+
        error_code int16 0+
        name string 0+ nullable=12+ key is=topicName
        topic_id uuid 10+ ignorable
        is_internal bool 1+ default=false ignorable
        partitions []MetadataResponsePartition 0+
            error_code int16 0+
            partition_index int32 0+
            leader_id int32 0+ is=brokerId
            leader_epoch int32 7+ default=-1 ignorable
            replica_nodes []int32 0+ is=brokerId
            isr_nodes []int32 0+ is=brokerId
            offline_replicas []int32 5+ ignorable is=brokerId
        topic_authorized_operations int32 8+ default=-2147483648
    cluster_authorized_operations int32 8-10 default=-2147483648
    error_code int16 13+ ignorable
"""

    class MetadataResponseBroker(Struct):
        __slots__ = ("node_id", "host", "port", "rack")

        def __init__(
            self,
            *,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.node_id: int = node_id
            self.host: str = host
            self.port: int = port
            self.rack: str | None = rack
            self.unknown_tagged_fields = unknown_tagged_fields

    class MetadataResponsePartition(Struct):
        __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas")

        def __init__(
            self,
            *,
            error_code: int = 0,
            partition_index: int = 0,
            leader_id: int = 0,
            leader_epoch: int = -1,
            replica_nodes: list[int] = FRESH,
            isr_nodes: list[int] = FRESH,
            offline_replicas: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.partition_index: int = partition_index
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.replica_nodes: list[int] = [] if replica_nodes is FRESH else replica_nodes
            self.isr_nodes: list[int] = [] if isr_nodes is FRESH else isr_nodes
            self.offline_replicas: list[int] = [] if offline_replicas is FRESH else offline_replicas
            self.unknown_tagged_fields = unknown_tagged_fields

    class MetadataResponseTopic(Struct):
        __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

        def __init__(
            self,
            *,
            error_code: int = 0,
            name: str | None = "",
            topic_id: bytes = ZERO,
            is_internal: bool = False,
            partitions: list[MetadataResponse.MetadataResponsePartition] = FRESH,
            topic_authorized_operations: int = -2147483648,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.name: str | None = name
            self.topic_id: bytes = topic_id
            self.is_internal: bool = is_internal
            self.partitions: list[MetadataResponse.MetadataResponsePartition] = [] if partitions is FRESH else partitions
            self.topic_authorized_operations: int = topic_authorized_operations
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponse.MetadataResponseBroker] = FRESH,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponse.MetadataResponseTopic] = FRESH,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.brokers: list[MetadataResponse.MetadataResponseBroker] = [] if brokers is FRESH else brokers
        self.cluster_id: str | None = cluster_id
        self.controller_id: int = controller_id
        self.topics: list[MetadataResponse.MetadataResponseTopic] = [] if topics is FRESH else topics
        self.cluster_authorized_operations: int = cluster_authorized_operations
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields
