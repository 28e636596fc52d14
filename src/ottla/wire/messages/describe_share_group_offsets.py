# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class DescribeShareGroupOffsetsRequest(Message):
    __slots__ = ("groups",)

    NAME = "DescribeShareGroupOffsetsRequest"
    KIND = "request"
    API_KEY = 90
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeShareGroupOffsetsRequest request api=90 versions=0-1 flexible=0+ listeners=broker
    groups []DescribeShareGroupOffsetsRequestGroup 0+
        group_id string 0+ is=groupId
        topics []DescribeShareGroupOffsetsRequestTopic 0+ nullable=0+
            topic_name string 0+ is=topicName
            partitions []int32 0+
"""

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        __slots__ = ("group_id", "topics")

        def __init__(
            self,
            *,
            group_id: str = "",
            topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.group_id: str = group_id
            self.topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = [] if topics is FRESH else topics
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = [] if groups is FRESH else groups
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")

    NAME = "DescribeShareGroupOffsetsResponse"
    KIND = "response"
    API_KEY = 90
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeShareGroupOffsetsResponse response api=90 versions=0-1 flexible=0+
    throttle_time_ms int32 0+
    groups []DescribeShareGroupOffsetsResponseGroup 0+
        group_id string 0+ is=groupId
        topics []DescribeShareGroupOffsetsResponseTopic 0+
            topic_name string 0+ is=topicName
            topic_id uuid 0+
            partitions []DescribeShareGroupOffsetsResponsePartition 0+
                partition_index int32 0+
                start_offset int64 0+
                leader_epoch int32 0+
                lag int64 1+ default=-1 ignorable
                error_code int16 0+
                error_message string 0+ nullable=0+ default=null
        error_code int16 0+
        error_message string 0+ nullable=0+ default=null
"""

    class DescribeShareGroupOffsetsResponsePartition(Struct):
        __slots__ = ("partition_index", "start_offset", "leader_epoch", "lag", "error_code", "error_message")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            start_offset: int = 0,
            leader_epoch: int = 0,
            lag: int = -1,
            error_code: int = 0,
            error_message: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.start_offset: int = start_offset
            self.leader_epoch: int = leader_epoch
            self.lag: int = lag
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        __slots__ = ("topic_name", "topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            topic_id: bytes = ZERO,
            partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.topic_id: bytes = topic_id
            self.partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        __slots__ = ("group_id", "topics", "error_code", "error_message")

        def __init__(
            self,
            *,
            group_id: str = "",
            topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = FRESH,
            error_code: int = 0,
            error_message: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.group_id: str = group_id
            self.topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = [] if topics is FRESH else topics
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = [] if groups is FRESH else groups
        self.unknown_tagged_fields = unknown_tagged_fields
