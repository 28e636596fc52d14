# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Records, Struct
from ottla.wire.uuid import ZERO


class FetchRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "replica_state", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch", "topics", "forgotten_topics_data", "rack_id")

    NAME = "FetchRequest"
    KIND = "request"
    API_KEY = 1
    VERSIONS = range(4, 19)
    FLEXIBLE_FROM = 12
    SCHEMA = """\
FetchRequest request api=1 versions=4-18 flexible=12+ listeners=broker,controller
    cluster_id string 12+ nullable=12+ tag=0@12+ default=null ignorable
    replica_id int32 0-14 default=-1 is=brokerId
    replica_state ReplicaState 15+ tag=1@15+
        replica_id int32 15+ default=-1 is=brokerId
        replica_epoch int64 15+ default=-1
    max_wait_ms int32 0+
    min_bytes int32 0+
    max_bytes int32 3+ default=0x7fffffff ignorable
    isolation_level int8 4+ default=0 ignorable
    session_id int32 7+ default=0 ignorable
    session_epoch int32 7+ default=-1 ignorable
    topics []FetchTopic 0+
        topic string 0-12 ignorable is=topicName
        topic_id uuid 13+ ignorable
        partitions []FetchPartition 0+
            partition int32 0+
            current_leader_epoch int32 9+ default=-1 ignorable
            fetch_offset int64 0+
            last_fetched_epoch int32 12+ default=-1
            log_start_offset int64 5+ default=-1 ignorable
            partition_max_bytes int32 0+
            replica_directory_id uuid 17+ tag=0@17+ ignorable
            high_watermark int64 18+ tag=1@18+ default=9223372036854775807 ignorable
    forgotten_topics_data []ForgottenTopic 7+
        topic string 7-12 ignorable is=topicName
        topic_id uuid 13+ ignorable
        partitions []int32 7+
    rack_id string 11+ default= ignorable
"""

    class ReplicaState(Struct):
        __slots__ = ("replica_id", "replica_epoch")

        def __init__(
            self,
            *,
            replica_id: int = -1,
            replica_epoch: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.replica_id: int = replica_id
            self.replica_epoch: int = replica_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class FetchPartition(Struct):
        __slots__ = ("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset", "partition_max_bytes", "replica_directory_id", "high_watermark")

        def __init__(
            self,
            *,
            partition: int = 0,
            current_leader_epoch: int = -1,
            fetch_offset: int = 0,
            last_fetched_epoch: int = -1,
            log_start_offset: int = -1,
            partition_max_bytes: int = 0,
            replica_directory_id: bytes = ZERO,
            high_watermark: int = 9223372036854775807,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.current_leader_epoch: int = current_leader_epoch
            self.fetch_offset: int = fetch_offset
            self.last_fetched_epoch: int = last_fetched_epoch
            self.log_start_offset: int = log_start_offset
            self.partition_max_bytes: int = partition_max_bytes
            self.replica_directory_id: bytes = replica_directory_id
            self.high_watermark: int = high_watermark
            self.unknown_tagged_fields = unknown_tagged_fields

    class FetchTopic(Struct):
        __slots__ = ("topic", "topic_id", "partitions")

        def __init__(
            self,
            *,
            topic: str = "",
            topic_id: bytes = ZERO,
            partitions: list[FetchRequest.FetchPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.topic_id: bytes = topic_id
            self.partitions: list[FetchRequest.FetchPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class ForgottenTopic(Struct):
        __slots__ = ("topic", "topic_id", "partitions")

        def __init__(
            self,
            *,
            topic: str = "",
            topic_id: bytes = ZERO,
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.topic_id: bytes = topic_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: FetchRequest.ReplicaState = FRESH,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchRequest.FetchTopic] = FRESH,
        forgotten_topics_data: list[FetchRequest.ForgottenTopic] = FRESH,
        rack_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.replica_id: int = replica_id
        self.replica_state: FetchRequest.ReplicaState = FetchRequest.ReplicaState() if replica_state is FRESH else replica_state
        self.max_wait_ms: int = max_wait_ms
        self.min_bytes: int = min_bytes
        self.max_bytes: int = max_bytes
        self.isolation_level: int = isolation_level
        self.session_id: int = session_id
        self.session_epoch: int = session_epoch
        self.topics: list[FetchRequest.FetchTopic] = [] if topics is FRESH else topics
        self.forgotten_topics_data: list[FetchRequest.ForgottenTopic] = [] if forgotten_topics_data is FRESH else forgotten_topics_data
        self.rack_id: str = rack_id
        self.unknown_tagged_fields = unknown_tagged_fields


class FetchResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")

    NAME = "FetchResponse"
    KIND = "response"
    API_KEY = 1
    VERSIONS = range(4, 19)
    FLEXIBLE_FROM = 12
    SCHEMA = """\
FetchResponse response api=1 versions=4-18 flexible=12+
    throttle_time_ms int32 1+ ignorable
    error_code int16 7+ ignorable
    session_id int32 7+ default=0
    responses []FetchableTopicResponse 0+
        topic string 0-12 ignorable is=topicName
        topic_id uuid 13+ ignorable
        partitions []PartitionData 0+
            partition_index int32 0+
            error_code int16 0+
            high_watermark int64 0+
            last_stable_offset int64 4+ default=-1 ignorable
            log_start_offset int64 5+ default=-1 ignorable
            diverging_epoch EpochEndOffset 12+ tag=0@12+
                epoch int32 12+ default=-1
                end_offset int64 12+ default=-1
            current_leader LeaderIdAndEpoch 12+ tag=1@12+
                leader_id int32 12+ default=-1 is=brokerId
                leader_epoch int32 12+ default=-1
            snapshot_id SnapshotId 12+ tag=2@12+
                end_offset int64 0+ default=-1
                epoch int32 0+ default=-1
            aborted_transactions []AbortedTransaction 4+ nullable=4+ ignorable
                producer_id int64 4+ is=producerId
                first_offset int64 4+
            preferred_read_replica int32 11+ default=-1 is=brokerId
            records records 0+ nullable=0+
    node_endpoints []NodeEndpoint 16+ tag=0@16+
        node_id int32 16+ key is=brokerId
        host string 16+
        port int32 16+
        rack string 16+ nullable=16+ default=null
"""

    class EpochEndOffset(Struct):
        __slots__ = ("epoch", "end_offset")

        def __init__(
            self,
            *,
            epoch: int = -1,
            end_offset: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.epoch: int = epoch
            self.end_offset: int = end_offset
            self.unknown_tagged_fields = unknown_tagged_fields

    class LeaderIdAndEpoch(Struct):
        __slots__ = ("leader_id", "leader_epoch")

        def __init__(
            self,
            *,
            leader_id: int = -1,
            leader_epoch: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class SnapshotId(Struct):
        __slots__ = ("end_offset", "epoch")

        def __init__(
            self,
            *,
            end_offset: int = -1,
            epoch: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.end_offset: int = end_offset
            self.epoch: int = epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class AbortedTransaction(Struct):
        __slots__ = ("producer_id", "first_offset")

        def __init__(
            self,
            *,
            producer_id: int = 0,
            first_offset: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.producer_id: int = producer_id
            self.first_offset: int = first_offset
            self.unknown_tagged_fields = unknown_tagged_fields

    class PartitionData(Struct):
        __slots__ = ("partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch", "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica", "records")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            high_watermark: int = 0,
            last_stable_offset: int = -1,
            log_start_offset: int = -1,
            diverging_epoch: FetchResponse.EpochEndOffset = FRESH,
            current_leader: FetchResponse.LeaderIdAndEpoch = FRESH,
            snapshot_id: FetchResponse.SnapshotId = FRESH,
            aborted_transactions: list[FetchResponse.AbortedTransaction] | None = FRESH,
            preferred_read_replica: int = -1,
            records: Records | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.high_watermark: int = high_watermark
            self.last_stable_offset: int = last_stable_offset
            self.log_start_offset: int = log_start_offset
            self.diverging_epoch: FetchResponse.EpochEndOffset = FetchResponse.EpochEndOffset() if diverging_epoch is FRESH else diverging_epoch
            self.current_leader: FetchResponse.LeaderIdAndEpoch = FetchResponse.LeaderIdAndEpoch() if current_leader is FRESH else current_leader
            self.snapshot_id: FetchResponse.SnapshotId = FetchResponse.SnapshotId() if snapshot_id is FRESH else snapshot_id
            self.aborted_transactions: list[FetchResponse.AbortedTransaction] | None = [] if aborted_transactions is FRESH else aborted_transactions
            self.preferred_read_replica: int = preferred_read_replica
            self.records: Records | None = records
            self.unknown_tagged_fields = unknown_tagged_fields

    class FetchableTopicResponse(Struct):
        __slots__ = ("topic", "topic_id", "partitions")

        def __init__(
            self,
            *,
            topic: str = "",
            topic_id: bytes = ZERO,
            partitions: list[FetchResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.topic_id: bytes = topic_id
            self.partitions: list[FetchResponse.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class NodeEndpoint(Struct):
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

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchResponse.FetchableTopicResponse] = FRESH,
        node_endpoints: list[FetchResponse.NodeEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.session_id: int = session_id
        self.responses: list[FetchResponse.FetchableTopicResponse] = [] if responses is FRESH else responses
        self.node_endpoints: list[FetchResponse.NodeEndpoint] = [] if node_endpoints is FRESH else node_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields
