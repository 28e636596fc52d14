# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class InitializeShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")

    NAME = "InitializeShareGroupStateRequest"
    KIND = "request"
    API_KEY = 83
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
InitializeShareGroupStateRequest request api=83 versions=0 flexible=0+ listeners=broker
    group_id string 0+
    topics []InitializeStateData 0+
        topic_id uuid 0+
        partitions []PartitionData 0+
            partition int32 0+
            state_epoch int32 0+
            start_offset int64 0+
"""

    class PartitionData(Struct):
        __slots__ = ("partition", "state_epoch", "start_offset")

        def __init__(
            self,
            *,
            partition: int = 0,
            state_epoch: int = 0,
            start_offset: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.state_epoch: int = state_epoch
            self.start_offset: int = start_offset
            self.unknown_tagged_fields = unknown_tagged_fields

    class InitializeStateData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[InitializeShareGroupStateRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[InitializeShareGroupStateRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[InitializeShareGroupStateRequest.InitializeStateData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[InitializeShareGroupStateRequest.InitializeStateData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class InitializeShareGroupStateResponse(Message):
    __slots__ = ("results",)

    NAME = "InitializeShareGroupStateResponse"
    KIND = "response"
    API_KEY = 83
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
InitializeShareGroupStateResponse response api=83 versions=0 flexible=0+
    results []InitializeStateResult 0+
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

    class InitializeStateResult(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[InitializeShareGroupStateResponse.PartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[InitializeShareGroupStateResponse.PartitionResult] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        results: list[InitializeShareGroupStateResponse.InitializeStateResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.results: list[InitializeShareGroupStateResponse.InitializeStateResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
