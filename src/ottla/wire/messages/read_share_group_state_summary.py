# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ReadShareGroupStateSummaryRequest(Message):
    __slots__ = ("group_id", "topics")

    NAME = "ReadShareGroupStateSummaryRequest"
    KIND = "request"
    API_KEY = 87
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ReadShareGroupStateSummaryRequest request api=87 versions=0-1 flexible=0+ listeners=broker
    group_id string 0+
    topics []ReadStateSummaryData 0+
        topic_id uuid 0+
        partitions []PartitionData 0+
            partition int32 0+
            leader_epoch int32 0+
"""

    class PartitionData(Struct):
        __slots__ = ("partition", "leader_epoch")

        def __init__(
            self,
            *,
            partition: int = 0,
            leader_epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.leader_epoch: int = leader_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class ReadStateSummaryData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class ReadShareGroupStateSummaryResponse(Message):
    __slots__ = ("results",)

    NAME = "ReadShareGroupStateSummaryResponse"
    KIND = "response"
    API_KEY = 87
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ReadShareGroupStateSummaryResponse response api=87 versions=0-1 flexible=0+
    results []ReadStateSummaryResult 0+
        topic_id uuid 0+
        partitions []PartitionResult 0+
            partition int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+ default=null
            state_epoch int32 0+
            leader_epoch int32 0+
            start_offset int64 0+
            delivery_complete_count int32 1+ default=-1 ignorable
"""

    class PartitionResult(Struct):
        __slots__ = ("partition", "error_code", "error_message", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")

        def __init__(
            self,
            *,
            partition: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            state_epoch: int = 0,
            leader_epoch: int = 0,
            start_offset: int = 0,
            delivery_complete_count: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.state_epoch: int = state_epoch
            self.leader_epoch: int = leader_epoch
            self.start_offset: int = start_offset
            self.delivery_complete_count: int = delivery_complete_count
            self.unknown_tagged_fields = unknown_tagged_fields

    class ReadStateSummaryResult(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
