# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class VoteRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics")

    NAME = "VoteRequest"
    KIND = "request"
    API_KEY = 52
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
VoteRequest request api=52 versions=0-2 flexible=0+ listeners=controller
    cluster_id string 0+ nullable=0+ default=null
    voter_id int32 1+ default=-1 ignorable is=brokerId
    topics []TopicData 0+
        topic_name string 0+ is=topicName
        partitions []PartitionData 0+
            partition_index int32 0+
            replica_epoch int32 0+
            replica_id int32 0+ is=brokerId
            replica_directory_id uuid 1+ ignorable
            voter_directory_id uuid 1+ ignorable
            last_offset_epoch int32 0+
            last_offset int64 0+
            pre_vote bool 2+
"""

    class PartitionData(Struct):
        __slots__ = ("partition_index", "replica_epoch", "replica_id", "replica_directory_id", "voter_directory_id", "last_offset_epoch", "last_offset", "pre_vote")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            replica_epoch: int = 0,
            replica_id: int = 0,
            replica_directory_id: bytes = ZERO,
            voter_directory_id: bytes = ZERO,
            last_offset_epoch: int = 0,
            last_offset: int = 0,
            pre_vote: bool = False,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.replica_epoch: int = replica_epoch
            self.replica_id: int = replica_id
            self.replica_directory_id: bytes = replica_directory_id
            self.voter_directory_id: bytes = voter_directory_id
            self.last_offset_epoch: int = last_offset_epoch
            self.last_offset: int = last_offset
            self.pre_vote: bool = pre_vote
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[VoteRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[VoteRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[VoteRequest.TopicData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.voter_id: int = voter_id
        self.topics: list[VoteRequest.TopicData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class VoteResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints")

    NAME = "VoteResponse"
    KIND = "response"
    API_KEY = 52
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
VoteResponse response api=52 versions=0-2 flexible=0+
    error_code int16 0+
    topics []TopicData 0+
        topic_name string 0+ is=topicName
        partitions []PartitionData 0+
            partition_index int32 0+
            error_code int16 0+
            leader_id int32 0+ is=brokerId
            leader_epoch int32 0+
            vote_granted bool 0+
    node_endpoints []NodeEndpoint 1+ tag=0@1+
        node_id int32 1+ key is=brokerId
        host string 1+
        port uint16 1+
"""

    class PartitionData(Struct):
        __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch", "vote_granted")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            leader_id: int = 0,
            leader_epoch: int = 0,
            vote_granted: bool = False,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.vote_granted: bool = vote_granted
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[VoteResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[VoteResponse.PartitionData] = [] if partitions is FRESH else partitions
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
        topics: list[VoteResponse.TopicData] = FRESH,
        node_endpoints: list[VoteResponse.NodeEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.topics: list[VoteResponse.TopicData] = [] if topics is FRESH else topics
        self.node_endpoints: list[VoteResponse.NodeEndpoint] = [] if node_endpoints is FRESH else node_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields
