# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class DeleteShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")

    NAME = "DeleteShareGroupStateRequest"
    KIND = "request"
    API_KEY = 86
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DeleteShareGroupStateRequest request api=86 versions=0 flexible=0+ listeners=broker
    group_id string 0+
    topics []DeleteStateData 0+
        topic_id uuid 0+
        partitions []PartitionData 0+
            partition int32 0+
"""

    class PartitionData(Struct):
        __slots__ = ("partition",)

        def __init__(
            self,
            *,
            partition: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.unknown_tagged_fields = unknown_tagged_fields

    class DeleteStateData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[DeleteShareGroupStateRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[DeleteShareGroupStateRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteShareGroupStateRequest.DeleteStateData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DeleteShareGroupStateRequest.DeleteStateData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class DeleteShareGroupStateResponse(Message):
    __slots__ = ("results",)

    NAME = "DeleteShareGroupStateResponse"
    KIND = "response"
    API_KEY = 86
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DeleteShareGroupStateResponse response api=86 versions=0 flexible=0+
    results []DeleteStateResult 0+
        topic_id uuid 0+
        partitions []PartitionResult 0+
            partition int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+ default=null
"""

    class PartitionResult(Struct):
        __slots__ = ("partition", "error_code", "error_message")

        def __init__(
            self,
            *,
            partition: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    class DeleteStateResult(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[DeleteShareGroupStateResponse.PartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[DeleteShareGroupStateResponse.PartitionResult] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        results: list[DeleteShareGroupStateResponse.DeleteStateResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.results: list[DeleteShareGroupStateResponse.DeleteStateResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
