# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class OffsetCommitRequest(Message):
    __slots__ = ("group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id", "retention_time_ms", "topics")

    NAME = "OffsetCommitRequest"
    KIND = "request"
    API_KEY = 8
    VERSIONS = range(2, 11)
    FLEXIBLE_FROM = 8
    SCHEMA = """\
OffsetCommitRequest request api=8 versions=2-10 flexible=8+ listeners=broker
    group_id string 0+ is=groupId
    generation_id_or_member_epoch int32 1+ default=-1 ignorable
    member_id string 1+ ignorable
    group_instance_id string 7+ nullable=7+ default=null
    retention_time_ms int64 2-4 default=-1 ignorable
    topics []OffsetCommitRequestTopic 0+
        name string 0-9 ignorable is=topicName
        topic_id uuid 10+ ignorable
        partitions []OffsetCommitRequestPartition 0+
            partition_index int32 0+
            committed_offset int64 0+
            committed_leader_epoch int32 6+ default=-1 ignorable
            committed_metadata string 0+ nullable=0+
"""

    class OffsetCommitRequestPartition(Struct):
        __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            committed_metadata: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.committed_offset: int = committed_offset
            self.committed_leader_epoch: int = committed_leader_epoch
            self.committed_metadata: str | None = committed_metadata
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetCommitRequestTopic(Struct):
        __slots__ = ("name", "topic_id", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: bytes = ZERO,
            partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.topic_id: bytes = topic_id
            self.partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id_or_member_epoch: int = generation_id_or_member_epoch
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.retention_time_ms: int = retention_time_ms
        self.topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    NAME = "OffsetCommitResponse"
    KIND = "response"
    API_KEY = 8
    VERSIONS = range(2, 11)
    FLEXIBLE_FROM = 8
    SCHEMA = """\
OffsetCommitResponse response api=8 versions=2-10 flexible=8+
    throttle_time_ms int32 3+ ignorable
    topics []OffsetCommitResponseTopic 0+
        name string 0-9 ignorable is=topicName
        topic_id uuid 10+ ignorable
        partitions []OffsetCommitResponsePartition 0+
            partition_index int32 0+
            error_code int16 0+
"""

    class OffsetCommitResponsePartition(Struct):
        __slots__ = ("partition_index", "error_code")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetCommitResponseTopic(Struct):
        __slots__ = ("name", "topic_id", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: bytes = ZERO,
            partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.topic_id: bytes = topic_id
            self.partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
