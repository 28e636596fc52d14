# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeProducersRequest(Message):
    __slots__ = ("topics",)

    NAME = "DescribeProducersRequest"
    KIND = "request"
    API_KEY = 61
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeProducersRequest request api=61 versions=0 flexible=0+ listeners=broker
    topics []TopicRequest 0+
        name string 0+ is=topicName
        partition_indexes []int32 0+
"""

    class TopicRequest(Struct):
        __slots__ = ("name", "partition_indexes")

        def __init__(
            self,
            *,
            name: str = "",
            partition_indexes: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partition_indexes: list[int] = [] if partition_indexes is FRESH else partition_indexes
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[DescribeProducersRequest.TopicRequest] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[DescribeProducersRequest.TopicRequest] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeProducersResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    NAME = "DescribeProducersResponse"
    KIND = "response"
    API_KEY = 61
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeProducersResponse response api=61 versions=0 flexible=0+
    throttle_time_ms int32 0+
    topics []TopicResponse 0+
        name string 0+ is=topicName
        partitions []PartitionResponse 0+
            partition_index int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+ default=null
            active_producers []ProducerState 0+
                producer_id int64 0+ is=producerId
                producer_epoch int32 0+
                last_sequence int32 0+ default=-1
                last_timestamp int64 0+ default=-1
                coordinator_epoch int32 0+
                current_txn_start_offset int64 0+ default=-1
"""

    class ProducerState(Struct):
        __slots__ = ("producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch", "current_txn_start_offset")

        def __init__(
            self,
            *,
            producer_id: int = 0,
            producer_epoch: int = 0,
            last_sequence: int = -1,
            last_timestamp: int = -1,
            coordinator_epoch: int = 0,
            current_txn_start_offset: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.producer_id: int = producer_id
            self.producer_epoch: int = producer_epoch
            self.last_sequence: int = last_sequence
            self.last_timestamp: int = last_timestamp
            self.coordinator_epoch: int = coordinator_epoch
            self.current_txn_start_offset: int = current_txn_start_offset
            self.unknown_tagged_fields = unknown_tagged_fields

    class PartitionResponse(Struct):
        __slots__ = ("partition_index", "error_code", "error_message", "active_producers")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            active_producers: list[DescribeProducersResponse.ProducerState] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.active_producers: list[DescribeProducersResponse.ProducerState] = [] if active_producers is FRESH else active_producers
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicResponse(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[DescribeProducersResponse.PartitionResponse] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[DescribeProducersResponse.PartitionResponse] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeProducersResponse.TopicResponse] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[DescribeProducersResponse.TopicResponse] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
