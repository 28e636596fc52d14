# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ShareAcknowledgeRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics")

    NAME = "ShareAcknowledgeRequest"
    KIND = "request"
    API_KEY = 79
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareAcknowledgeRequest request api=79 versions=1-2 flexible=0+ listeners=broker
    group_id string 0+ nullable=0+ default=null is=groupId
    member_id string 0+ nullable=0+
    share_session_epoch int32 0+
    is_renew_ack bool 2+ default=false
    topics []AcknowledgeTopic 0+
        topic_id uuid 0+ key
        partitions []AcknowledgePartition 0+
            partition_index int32 0+ key
            acknowledgement_batches []AcknowledgementBatch 0+
                first_offset int64 0+
                last_offset int64 0+
                acknowledge_types []int8 0+
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

    class AcknowledgePartition(Struct):
        __slots__ = ("partition_index", "acknowledgement_batches")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = [] if acknowledgement_batches is FRESH else acknowledgement_batches
            self.unknown_tagged_fields = unknown_tagged_fields

    class AcknowledgeTopic(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str | None = group_id
        self.member_id: str | None = member_id
        self.share_session_epoch: int = share_session_epoch
        self.is_renew_ack: bool = is_renew_ack
        self.topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareAcknowledgeResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints")

    NAME = "ShareAcknowledgeResponse"
    KIND = "response"
    API_KEY = 79
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareAcknowledgeResponse response api=79 versions=1-2 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+ default=null
    acquisition_lock_timeout_ms int32 2+ ignorable
    responses []ShareAcknowledgeTopicResponse 0+
        topic_id uuid 0+ key
        partitions []PartitionData 0+
            partition_index int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+ default=null
            current_leader LeaderIdAndEpoch 0+
                leader_id int32 0+
                leader_epoch int32 0+
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

    class PartitionData(Struct):
        __slots__ = ("partition_index", "error_code", "error_message", "current_leader")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = ShareAcknowledgeResponse.LeaderIdAndEpoch() if current_leader is FRESH else current_leader
            self.unknown_tagged_fields = unknown_tagged_fields

    class ShareAcknowledgeTopicResponse(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[ShareAcknowledgeResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[ShareAcknowledgeResponse.PartitionData] = [] if partitions is FRESH else partitions
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
        responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = FRESH,
        node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.acquisition_lock_timeout_ms: int = acquisition_lock_timeout_ms
        self.responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = [] if responses is FRESH else responses
        self.node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = [] if node_endpoints is FRESH else node_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields
