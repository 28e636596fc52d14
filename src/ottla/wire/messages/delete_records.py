# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DeleteRecordsRequest(Message):
    __slots__ = ("topics", "timeout_ms")

    NAME = "DeleteRecordsRequest"
    KIND = "request"
    API_KEY = 21
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DeleteRecordsRequest request api=21 versions=0-2 flexible=2+ listeners=broker
    topics []DeleteRecordsTopic 0+
        name string 0+ is=topicName
        partitions []DeleteRecordsPartition 0+
            partition_index int32 0+
            offset int64 0+
    timeout_ms int32 0+
"""

    class DeleteRecordsPartition(Struct):
        __slots__ = ("partition_index", "offset")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            offset: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.offset: int = offset
            self.unknown_tagged_fields = unknown_tagged_fields

    class DeleteRecordsTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = FRESH,
        timeout_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = [] if topics is FRESH else topics
        self.timeout_ms: int = timeout_ms
        self.unknown_tagged_fields = unknown_tagged_fields


class DeleteRecordsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    NAME = "DeleteRecordsResponse"
    KIND = "response"
    API_KEY = 21
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DeleteRecordsResponse response api=21 versions=0-2 flexible=2+
    throttle_time_ms int32 0+
    topics []DeleteRecordsTopicResult 0+
        name string 0+ key is=topicName
        partitions []DeleteRecordsPartitionResult 0+
            partition_index int32 0+ key
            low_watermark int64 0+
            error_code int16 0+
"""

    class DeleteRecordsPartitionResult(Struct):
        __slots__ = ("partition_index", "low_watermark", "error_code")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            low_watermark: int = 0,
            error_code: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.low_watermark: int = low_watermark
            self.error_code: int = error_code
            self.unknown_tagged_fields = unknown_tagged_fields

    class DeleteRecordsTopicResult(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
