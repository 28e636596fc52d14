# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class OffsetDeleteRequest(Message):
    __slots__ = ("group_id", "topics")

    NAME = "OffsetDeleteRequest"
    KIND = "request"
    API_KEY = 47
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
OffsetDeleteRequest request api=47 versions=0 flexible=none listeners=broker
    group_id string 0+ is=groupId
    topics []OffsetDeleteRequestTopic 0+
        name string 0+ key is=topicName
        partitions []OffsetDeleteRequestPartition 0+
            partition_index int32 0+
"""

    class OffsetDeleteRequestPartition(Struct):
        __slots__ = ("partition_index",)

        def __init__(
            self,
            *,
            partition_index: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetDeleteRequestTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetDeleteResponse(Message):
    __slots__ = ("error_code", "throttle_time_ms", "topics")

    NAME = "OffsetDeleteResponse"
    KIND = "response"
    API_KEY = 47
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
OffsetDeleteResponse response api=47 versions=0 flexible=none
    error_code int16 0+
    throttle_time_ms int32 0+ ignorable
    topics []OffsetDeleteResponseTopic 0+
        name string 0+ key is=topicName
        partitions []OffsetDeleteResponsePartition 0+
            partition_index int32 0+ key
            error_code int16 0+
"""

    class OffsetDeleteResponsePartition(Struct):
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

    class OffsetDeleteResponseTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
