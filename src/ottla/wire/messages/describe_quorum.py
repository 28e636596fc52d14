# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class DescribeQuorumRequest(Message):
    __slots__ = ("topics",)

    NAME = "DescribeQuorumRequest"
    KIND = "request"
    API_KEY = 55
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeQuorumRequest request api=55 versions=0-2 flexible=0+ listeners=broker,controller
    topics []TopicData 0+
        topic_name string 0+ is=topicName
        partitions []PartitionData 0+
            partition_index int32 0+
"""

    class PartitionData(Struct):
        __slots__ = ("partition_index",)

        def __init__(
            self,
            *,
            partition_index: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[DescribeQuorumRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[DescribeQuorumRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[DescribeQuorumRequest.TopicData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[DescribeQuorumRequest.TopicData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeQuorumResponse(Message):
    __slots__ = ("error_code", "error_message", "topics", "nodes")

    NAME = "DescribeQuorumResponse"
    KIND = "response"
    API_KEY = 55
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeQuorumResponse response api=55 versions=0-2 flexible=0+
    error_code int16 0+
    error_message string 2+ nullable=2+ ignorable
    topics []TopicData 0+
        topic_name string 0+ is=topicName
        partitions []PartitionData 0+
            partition_index int32 0+
            error_code int16 0+
            error_message string 2+ nullable=2+ ignorable
            leader_id int32 0+ is=brokerId
            leader_epoch int32 0+
            high_watermark int64 0+
            current_voters []ReplicaState 0+
            observers []ReplicaState 0+
    nodes []Node 2+
        node_id int32 2+ key is=brokerId
        listeners []Listener 2+
            name string 2+ key
            host string 2+
            port uint16 2+
    struct ReplicaState 0+
        replica_id int32 0+ is=brokerId
        replica_directory_id uuid 2+
        log_end_offset int64 0+
        last_fetch_timestamp int64 1+ default=-1 ignorable
        last_caught_up_timestamp int64 1+ default=-1 ignorable
"""

    class PartitionData(Struct):
        __slots__ = ("partition_index", "error_code", "error_message", "leader_id", "leader_epoch", "high_watermark", "current_voters", "observers")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
            leader_id: int = 0,
            leader_epoch: int = 0,
            high_watermark: int = 0,
            current_voters: list[DescribeQuorumResponse.ReplicaState] = FRESH,
            observers: list[DescribeQuorumResponse.ReplicaState] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.high_watermark: int = high_watermark
            self.current_voters: list[DescribeQuorumResponse.ReplicaState] = [] if current_voters is FRESH else current_voters
            self.observers: list[DescribeQuorumResponse.ReplicaState] = [] if observers is FRESH else observers
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[DescribeQuorumResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[DescribeQuorumResponse.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class Listener(Struct):
        __slots__ = ("name", "host", "port")

        def __init__(
            self,
            *,
            name: str = "",
            host: str = "",
            port: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.host: str = host
            self.port: int = port
            self.unknown_tagged_fields = unknown_tagged_fields

    class Node(Struct):
        __slots__ = ("node_id", "listeners")

        def __init__(
            self,
            *,
            node_id: int = 0,
            listeners: list[DescribeQuorumResponse.Listener] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.node_id: int = node_id
            self.listeners: list[DescribeQuorumResponse.Listener] = [] if listeners is FRESH else listeners
            self.unknown_tagged_fields = unknown_tagged_fields

    class ReplicaState(Struct):
        __slots__ = ("replica_id", "replica_directory_id", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp")

        def __init__(
            self,
            *,
            replica_id: int = 0,
            replica_directory_id: bytes = ZERO,
            log_end_offset: int = 0,
            last_fetch_timestamp: int = -1,
            last_caught_up_timestamp: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.replica_id: int = replica_id
            self.replica_directory_id: bytes = replica_directory_id
            self.log_end_offset: int = log_end_offset
            self.last_fetch_timestamp: int = last_fetch_timestamp
            self.last_caught_up_timestamp: int = last_caught_up_timestamp
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[DescribeQuorumResponse.TopicData] = FRESH,
        nodes: list[DescribeQuorumResponse.Node] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.topics: list[DescribeQuorumResponse.TopicData] = [] if topics is FRESH else topics
        self.nodes: list[DescribeQuorumResponse.Node] = [] if nodes is FRESH else nodes
        self.unknown_tagged_fields = unknown_tagged_fields
