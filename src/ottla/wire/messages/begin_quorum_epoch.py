# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class BeginQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics", "leader_endpoints")

    NAME = "BeginQuorumEpochRequest"
    KIND = "request"
    API_KEY = 53
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
BeginQuorumEpochRequest request api=53 versions=0-1 flexible=1+ listeners=controller
    cluster_id string 0+ nullable=0+ default=null
    voter_id int32 1+ default=-1 ignorable is=brokerId
    topics []TopicData 0+
        topic_name string 0+ is=topicName
        partitions []PartitionData 0+
            partition_index int32 0+
            voter_directory_id uuid 1+ ignorable
            leader_id int32 0+ is=brokerId
            leader_epoch int32 0+
    leader_endpoints []LeaderEndpoint 1+ ignorable
        name string 1+ key
        host string 1+
        port uint16 1+
"""

    class PartitionData(Struct):
        __slots__ = ("partition_index", "voter_directory_id", "leader_id", "leader_epoch")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            voter_directory_id: bytes = ZERO,
            leader_id: int = 0,
            leader_epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.voter_directory_id: bytes = voter_directory_id
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[BeginQuorumEpochRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[BeginQuorumEpochRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class LeaderEndpoint(Struct):
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

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[BeginQuorumEpochRequest.TopicData] = FRESH,
        leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.voter_id: int = voter_id
        self.topics: list[BeginQuorumEpochRequest.TopicData] = [] if topics is FRESH else topics
        self.leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = [] if leader_endpoints is FRESH else leader_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields


class BeginQuorumEpochResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints")

    NAME = "BeginQuorumEpochResponse"
    KIND = "response"
    API_KEY = 53
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
BeginQuorumEpochResponse response api=53 versions=0-1 flexible=1+
    error_code int16 0+
    topics []TopicData 0+
        topic_name string 0+ is=topicName
        partitions []PartitionData 0+
            partition_index int32 0+
            error_code int16 0+
            leader_id int32 0+ is=brokerId
            leader_epoch int32 0+
    node_endpoints []NodeEndpoint 1+ tag=0@1+
        node_id int32 1+ key is=brokerId
        host string 1+
        port uint16 1+
"""

    class PartitionData(Struct):
        __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            leader_id: int = 0,
            leader_epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[BeginQuorumEpochResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[BeginQuorumEpochResponse.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class NodeEndpoint(Struct):
        __slots__ = ("node_id", "host", "port")

        def __init__(
            self,
            *,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.node_id: int = node_id
            self.host: str = host
            self.port: int = port
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        error_code: int = 0,
        topics: list[BeginQuorumEpochResponse.TopicData] = FRESH,
        node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.topics: list[BeginQuorumEpochResponse.TopicData] = [] if topics is FRESH else topics
        self.node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = [] if node_endpoints is FRESH else node_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields
