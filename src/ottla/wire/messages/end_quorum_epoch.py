# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class EndQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "topics", "leader_endpoints")

    NAME = "EndQuorumEpochRequest"
    KIND = "request"
    API_KEY = 54
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
EndQuorumEpochRequest request api=54 versions=0-1 flexible=1+ listeners=controller
    cluster_id string 0+ nullable=0+ default=null
    topics []TopicData 0+
        topic_name string 0+ is=topicName
        partitions []PartitionData 0+
            partition_index int32 0+
            leader_id int32 0+ is=brokerId
            leader_epoch int32 0+
            preferred_successors []int32 0 ignorable
            preferred_candidates []ReplicaInfo 1+ ignorable
                candidate_id int32 1+ is=brokerId
                candidate_directory_id uuid 1+
    leader_endpoints []LeaderEndpoint 1+ ignorable
        name string 1+ key
        host string 1+
        port uint16 1+
"""

    class ReplicaInfo(Struct):
        __slots__ = ("candidate_id", "candidate_directory_id")

        def __init__(
            self,
            *,
            candidate_id: int = 0,
            candidate_directory_id: bytes = ZERO,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.candidate_id: int = candidate_id
            self.candidate_directory_id: bytes = candidate_directory_id
            self.unknown_tagged_fields = unknown_tagged_fields

    class PartitionData(Struct):
        __slots__ = ("partition_index", "leader_id", "leader_epoch", "preferred_successors", "preferred_candidates")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            leader_id: int = 0,
            leader_epoch: int = 0,
            preferred_successors: list[int] = FRESH,
            preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.preferred_successors: list[int] = [] if preferred_successors is FRESH else preferred_successors
            self.preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = [] if preferred_candidates is FRESH else preferred_candidates
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[EndQuorumEpochRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[EndQuorumEpochRequest.PartitionData] = [] if partitions is FRESH else partitions
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
        topics: list[EndQuorumEpochRequest.TopicData] = FRESH,
        leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.topics: list[EndQuorumEpochRequest.TopicData] = [] if topics is FRESH else topics
        self.leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = [] if leader_endpoints is FRESH else leader_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields


class EndQuorumEpochResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints")

    NAME = "EndQuorumEpochResponse"
    KIND = "response"
    API_KEY = 54
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
EndQuorumEpochResponse response api=54 versions=0-1 flexible=1+
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
            partitions: list[EndQuorumEpochResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[EndQuorumEpochResponse.PartitionData] = [] if partitions is FRESH else partitions
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
        topics: list[EndQuorumEpochResponse.TopicData] = FRESH,
        node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.topics: list[EndQuorumEpochResponse.TopicData] = [] if topics is FRESH else topics
        self.node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = [] if node_endpoints is FRESH else node_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields
