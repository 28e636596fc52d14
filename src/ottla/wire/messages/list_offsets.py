# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class ListOffsetsRequest(Message):
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")

    NAME = "ListOffsetsRequest"
    KIND = "request"
    API_KEY = 2
    VERSIONS = range(1, 12)
    FLEXIBLE_FROM = 6
    SCHEMA = """\
ListOffsetsRequest request api=2 versions=1-11 flexible=6+ listeners=broker
    replica_id int32 0+ is=brokerId
    isolation_level int8 2+
    topics []ListOffsetsTopic 0+
        name string 0+ is=topicName
        partitions []ListOffsetsPartition 0+
            partition_index int32 0+
            current_leader_epoch int32 4+ default=-1 ignorable
            timestamp int64 0+
    timeout_ms int32 10+ ignorable
"""

    class ListOffsetsPartition(Struct):
        __slots__ = ("partition_index", "current_leader_epoch", "timestamp")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            current_leader_epoch: int = -1,
            timestamp: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.current_leader_epoch: int = current_leader_epoch
            self.timestamp: int = timestamp
            self.unknown_tagged_fields = unknown_tagged_fields

    class ListOffsetsTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[ListOffsetsRequest.ListOffsetsPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[ListOffsetsRequest.ListOffsetsPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsRequest.ListOffsetsTopic] = FRESH,
        timeout_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.replica_id: int = replica_id
        self.isolation_level: int = isolation_level
        self.topics: list[ListOffsetsRequest.ListOffsetsTopic] = [] if topics is FRESH else topics
        self.timeout_ms: int = timeout_ms
        self.unknown_tagged_fields = unknown_tagged_fields


class ListOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    NAME = "ListOffsetsResponse"
    KIND = "response"
    API_KEY = 2
    VERSIONS = range(1, 12)
    FLEXIBLE_FROM = 6
    SCHEMA = """\
ListOffsetsResponse response api=2 versions=1-11 flexible=6+
    throttle_time_ms int32 2+ ignorable
    topics []ListOffsetsTopicResponse 0+
        name string 0+ is=topicName
        partitions []ListOffsetsPartitionResponse 0+
            partition_index int32 0+
            error_code int16 0+
            timestamp int64 1+ default=-1
            offset int64 1+ default=-1
            leader_epoch int32 4+ default=-1
"""

    class ListOffsetsPartitionResponse(Struct):
        __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            timestamp: int = -1,
            offset: int = -1,
            leader_epoch: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.timestamp: int = timestamp
            self.offset: int = offset
            self.leader_epoch: int = leader_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class ListOffsetsTopicResponse(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
