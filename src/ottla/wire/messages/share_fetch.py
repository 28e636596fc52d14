# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Records, Struct
from ottla.wire.uuid import ZERO


class ShareFetchRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size", "share_acquire_mode", "is_renew_ack", "topics", "forgotten_topics_data")

    NAME = "ShareFetchRequest"
    KIND = "request"
    API_KEY = 78
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareFetchRequest request api=78 versions=1-2 flexible=0+ listeners=broker
    group_id string 0+ nullable=0+ default=null is=groupId
    member_id string 0+ nullable=0+
    share_session_epoch int32 0+
    max_wait_ms int32 0+
    min_bytes int32 0+
    max_bytes int32 0+ default=0x7fffffff
    max_records int32 1+
    batch_size int32 1+
    share_acquire_mode int8 2+ default=0 ignorable
    is_renew_ack bool 2+ default=false
    topics []FetchTopic 0+
        topic_id uuid 0+ key
        partitions []FetchPartition 0+
            partition_index int32 0+ key
            partition_max_bytes int32 0
            acknowledgement_batches []AcknowledgementBatch 0+
                first_offset int64 0+
                last_offset int64 0+
                acknowledge_types []int8 0+
    forgotten_topics_data []ForgottenTopic 0+
        topic_id uuid 0+
        partitions []int32 0+
"""

    class AcknowledgementBatch(Struct):
        __slots__ = ("first_offset", "last_offset", "acknowledge_types")

        def __init__(
            self,
            *,
            first_offset: int = 0,
            last_offset: int = 0,
            acknowledge_types: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.first_offset: int = first_offset
            self.last_offset: int = last_offset
            self.acknowledge_types: list[int] = [] if acknowledge_types is FRESH else acknowledge_types
            self.unknown_tagged_fields = unknown_tagged_fields

    class FetchPartition(Struct):
        __slots__ = ("partition_index", "partition_max_bytes", "acknowledgement_batches")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            partition_max_bytes: int = 0,
            acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.partition_max_bytes: int = partition_max_bytes
            self.acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = [] if acknowledgement_batches is FRESH else acknowledgement_batches
            self.unknown_tagged_fields = unknown_tagged_fields

    class FetchTopic(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[ShareFetchRequest.FetchPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[ShareFetchRequest.FetchPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class ForgottenTopic(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[ShareFetchRequest.FetchTopic] = FRESH,
        forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str | None = group_id
        self.member_id: str | None = member_id
        self.share_session_epoch: int = share_session_epoch
        self.max_wait_ms: int = max_wait_ms
        self.min_bytes: int = min_bytes
        self.max_bytes: int = max_bytes
        self.max_records: int = max_records
        self.batch_size: int = batch_size
        self.share_acquire_mode: int = share_acquire_mode
        self.is_renew_ack: bool = is_renew_ack
        self.topics: list[ShareFetchRequest.FetchTopic] = [] if topics is FRESH else topics
        self.forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = [] if forgotten_topics_data is FRESH else forgotten_topics_data
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints")

    NAME = "ShareFetchResponse"
    KIND = "response"
    API_KEY = 78
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareFetchResponse response api=78 versions=1-2 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+ default=null
    acquisition_lock_timeout_ms int32 1+
    responses []ShareFetchableTopicResponse 0+
        topic_id uuid 0+ key
        partitions []PartitionData 0+
            partition_index int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+ default=null
            acknowledge_error_code int16 0+
            acknowledge_error_message string 0+ nullable=0+ default=null
            current_leader LeaderIdAndEpoch 0+
                leader_id int32 0+
                leader_epoch int32 0+
            records records 0+ nullable=0
            acquired_records []AcquiredRecords 0+
                first_offset int64 0+
                last_offset int64 0+
                delivery_count int16 0+
    node_endpoints []NodeEndpoint 0+
        node_id int32 0+ key is=brokerId
        host string 0+
        port int32 0+
        rack string 0+ nullable=0+ default=null
"""

    class LeaderIdAndEpoch(Struct):
        __slots__ = ("leader_id", "leader_epoch")

        def __init__(
            self,
            *,
            leader_id: int = 0,
            leader_epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class AcquiredRecords(Struct):
        __slots__ = ("first_offset", "last_offset", "delivery_count")

        def __init__(
            self,
            *,
            first_offset: int = 0,
            last_offset: int = 0,
            delivery_count: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.first_offset: int = first_offset
            self.last_offset: int = last_offset
            self.delivery_count: int = delivery_count
            self.unknown_tagged_fields = unknown_tagged_fields

    class PartitionData(Struct):
        __slots__ = ("partition_index", "error_code", "error_message", "acknowledge_error_code", "acknowledge_error_message", "current_leader", "records", "acquired_records")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            acknowledge_error_code: int = 0,
            acknowledge_error_message: str | None = None,
            current_leader: ShareFetchResponse.LeaderIdAndEpoch = FRESH,
            records: Records | None = None,
            acquired_records: list[ShareFetchResponse.AcquiredRecords] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.acknowledge_error_code: int = acknowledge_error_code
            self.acknowledge_error_message: str | None = acknowledge_error_message
            self.current_leader: ShareFetchResponse.LeaderIdAndEpoch = ShareFetchResponse.LeaderIdAndEpoch() if current_leader is FRESH else current_leader
            self.records: Records | None = records
            self.acquired_records: list[ShareFetchResponse.AcquiredRecords] = [] if acquired_records is FRESH else acquired_records
            self.unknown_tagged_fields = unknown_tagged_fields

    class ShareFetchableTopicResponse(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[ShareFetchResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[ShareFetchResponse.PartitionData] = [] if partitions is FRESH else partitions
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
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = FRESH,
        node_endpoints: list[ShareFetchResponse.NodeEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.acquisition_lock_timeout_ms: int = acquisition_lock_timeout_ms
        self.responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = [] if responses is FRESH else responses
        self.node_endpoints: list[ShareFetchResponse.NodeEndpoint] = [] if node_endpoints is FRESH else node_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields
