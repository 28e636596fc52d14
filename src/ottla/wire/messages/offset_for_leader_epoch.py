# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class OffsetForLeaderEpochRequest(Message):
    __slots__ = ("replica_id", "topics")

    NAME = "OffsetForLeaderEpochRequest"
    KIND = "request"
    API_KEY = 23
    VERSIONS = range(2, 5)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
OffsetForLeaderEpochRequest request api=23 versions=2-4 flexible=4+ listeners=broker
    replica_id int32 3+ default=-2 ignorable is=brokerId
    topics []OffsetForLeaderTopic 0+
        topic string 0+ key is=topicName
        partitions []OffsetForLeaderPartition 0+
            partition int32 0+
            current_leader_epoch int32 2+ default=-1 ignorable
            leader_epoch int32 0+
"""

    class OffsetForLeaderPartition(Struct):
        __slots__ = ("partition", "current_leader_epoch", "leader_epoch")

        def __init__(
            self,
            *,
            partition: int = 0,
            current_leader_epoch: int = -1,
            leader_epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.current_leader_epoch: int = current_leader_epoch
            self.leader_epoch: int = leader_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetForLeaderTopic(Struct):
        __slots__ = ("topic", "partitions")

        def __init__(
            self,
            *,
            topic: str = "",
            partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.replica_id: int = replica_id
        self.topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetForLeaderEpochResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    NAME = "OffsetForLeaderEpochResponse"
    KIND = "response"
    API_KEY = 23
    VERSIONS = range(2, 5)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
OffsetForLeaderEpochResponse response api=23 versions=2-4 flexible=4+
    throttle_time_ms int32 2+ ignorable
    topics []OffsetForLeaderTopicResult 0+
        topic string 0+ key is=topicName
        partitions []EpochEndOffset 0+
            error_code int16 0+
            partition int32 0+
            leader_epoch int32 1+ default=-1 ignorable
            end_offset int64 0+ default=-1
"""

    class EpochEndOffset(Struct):
        __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")

        def __init__(
            self,
            *,
            error_code: int = 0,
            partition: int = 0,
            leader_epoch: int = -1,
            end_offset: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.partition: int = partition
            self.leader_epoch: int = leader_epoch
            self.end_offset: int = end_offset
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetForLeaderTopicResult(Struct):
        __slots__ = ("topic", "partitions")

        def __init__(
            self,
            *,
            topic: str = "",
            partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
