# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class AlterShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics")

    NAME = "AlterShareGroupOffsetsRequest"
    KIND = "request"
    API_KEY = 91
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AlterShareGroupOffsetsRequest request api=91 versions=0 flexible=0+ listeners=broker
    group_id string 0+ is=groupId
    topics []AlterShareGroupOffsetsRequestTopic 0+
        topic_name string 0+ key is=topicName
        partitions []AlterShareGroupOffsetsRequestPartition 0+
            partition_index int32 0+
            start_offset int64 0+
"""

    class AlterShareGroupOffsetsRequestPartition(Struct):
        __slots__ = ("partition_index", "start_offset")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            start_offset: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.start_offset: int = start_offset
            self.unknown_tagged_fields = unknown_tagged_fields

    class AlterShareGroupOffsetsRequestTopic(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class AlterShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")

    NAME = "AlterShareGroupOffsetsResponse"
    KIND = "response"
    API_KEY = 91
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AlterShareGroupOffsetsResponse response api=91 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+ default=null
    responses []AlterShareGroupOffsetsResponseTopic 0+
        topic_name string 0+ key is=topicName
        topic_id uuid 0+
        partitions []AlterShareGroupOffsetsResponsePartition 0+
            partition_index int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+ default=null
"""

    class AlterShareGroupOffsetsResponsePartition(Struct):
        __slots__ = ("partition_index", "error_code", "error_message")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    class AlterShareGroupOffsetsResponseTopic(Struct):
        __slots__ = ("topic_name", "topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            topic_id: bytes = ZERO,
            partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.topic_id: bytes = topic_id
            self.partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = [] if responses is FRESH else responses
        self.unknown_tagged_fields = unknown_tagged_fields
