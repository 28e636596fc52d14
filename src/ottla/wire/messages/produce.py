# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Records, Struct
from ottla.wire.uuid import ZERO


class ProduceRequest(Message):
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")

    NAME = "ProduceRequest"
    KIND = "request"
    API_KEY = 0
    VERSIONS = range(3, 14)
    FLEXIBLE_FROM = 9
    SCHEMA = """\
ProduceRequest request api=0 versions=3-13 flexible=9+ listeners=broker
    transactional_id string 3+ nullable=3+ default=null is=transactionalId
    acks int16 0+
    timeout_ms int32 0+
    topic_data []TopicProduceData 0+
        name string 0-12 key ignorable is=topicName
        topic_id uuid 13+ key ignorable
        partition_data []PartitionProduceData 0+
            index int32 0+
            records records 0+ nullable=0+
"""

    class PartitionProduceData(Struct):
        __slots__ = ("index", "records")

        def __init__(
            self,
            *,
            index: int = 0,
            records: Records | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.index: int = index
            self.records: Records | None = records
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicProduceData(Struct):
        __slots__ = ("name", "topic_id", "partition_data")

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: bytes = ZERO,
            partition_data: list[ProduceRequest.PartitionProduceData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.topic_id: bytes = topic_id
            self.partition_data: list[ProduceRequest.PartitionProduceData] = [] if partition_data is FRESH else partition_data
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[ProduceRequest.TopicProduceData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.acks: int = acks
        self.timeout_ms: int = timeout_ms
        self.topic_data: list[ProduceRequest.TopicProduceData] = [] if topic_data is FRESH else topic_data
        self.unknown_tagged_fields = unknown_tagged_fields


class ProduceResponse(Message):
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")

    NAME = "ProduceResponse"
    KIND = "response"
    API_KEY = 0
    VERSIONS = range(3, 14)
    FLEXIBLE_FROM = 9
    SCHEMA = """\
ProduceResponse response api=0 versions=3-13 flexible=9+
    responses []TopicProduceResponse 0+
        name string 0-12 key ignorable is=topicName
        topic_id uuid 13+ key ignorable
        partition_responses []PartitionProduceResponse 0+
            index int32 0+
            error_code int16 0+
            base_offset int64 0+
            log_append_time_ms int64 2+ default=-1 ignorable
            log_start_offset int64 5+ default=-1 ignorable
            record_errors []BatchIndexAndErrorMessage 8+ ignorable
                batch_index int32 8+
                batch_index_error_message string 8+ nullable=8+ default=null
            error_message string 8+ nullable=8+ default=null ignorable
            current_leader LeaderIdAndEpoch 10+ tag=0@10+
                leader_id int32 10+ default=-1 is=brokerId
                leader_epoch int32 10+ default=-1
    throttle_time_ms int32 1+ default=0 ignorable
    node_endpoints []NodeEndpoint 10+ tag=0@10+
        node_id int32 10+ key is=brokerId
        host string 10+
        port int32 10+
        rack string 10+ nullable=10+ default=null
"""

    class BatchIndexAndErrorMessage(Struct):
        __slots__ = ("batch_index", "batch_index_error_message")

        def __init__(
            self,
            *,
            batch_index: int = 0,
            batch_index_error_message: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.batch_index: int = batch_index
            self.batch_index_error_message: str | None = batch_index_error_message
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

    class PartitionProduceResponse(Struct):
        __slots__ = ("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors", "error_message", "current_leader")

        def __init__(
            self,
            *,
            index: int = 0,
            error_code: int = 0,
            base_offset: int = 0,
            log_append_time_ms: int = -1,
            log_start_offset: int = -1,
            record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = FRESH,
            error_message: str | None = None,
            current_leader: ProduceResponse.LeaderIdAndEpoch = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.index: int = index
            self.error_code: int = error_code
            self.base_offset: int = base_offset
            self.log_append_time_ms: int = log_append_time_ms
            self.log_start_offset: int = log_start_offset
            self.record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = [] if record_errors is FRESH else record_errors
            self.error_message: str | None = error_message
            self.current_leader: ProduceResponse.LeaderIdAndEpoch = ProduceResponse.LeaderIdAndEpoch() if current_leader is FRESH else current_leader
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicProduceResponse(Struct):
        __slots__ = ("name", "topic_id", "partition_responses")

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: bytes = ZERO,
            partition_responses: list[ProduceResponse.PartitionProduceResponse] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.topic_id: bytes = topic_id
            self.partition_responses: list[ProduceResponse.PartitionProduceResponse] = [] if partition_responses is FRESH else partition_responses
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
        responses: list[ProduceResponse.TopicProduceResponse] = FRESH,
        throttle_time_ms: int = 0,
        node_endpoints: list[ProduceResponse.NodeEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.responses: list[ProduceResponse.TopicProduceResponse] = [] if responses is FRESH else responses
        self.throttle_time_ms: int = throttle_time_ms
        self.node_endpoints: list[ProduceResponse.NodeEndpoint] = [] if node_endpoints is FRESH else node_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields
