# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ReadShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")

    NAME = "ReadShareGroupStateRequest"
    KIND = "request"
    API_KEY = 84
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ReadShareGroupStateRequest request api=84 versions=0 flexible=0+ listeners=broker
    group_id string 0+
    topics []ReadStateData 0+
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

    class ReadStateData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[ReadShareGroupStateRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[ReadShareGroupStateRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[ReadShareGroupStateRequest.ReadStateData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[ReadShareGroupStateRequest.ReadStateData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class ReadShareGroupStateResponse(Message):
    __slots__ = ("results",)

    NAME = "ReadShareGroupStateResponse"
    KIND = "response"
    API_KEY = 84
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ReadShareGroupStateResponse response api=84 versions=0 flexible=0+
    results []ReadStateResult 0+
        topic_id uuid 0+
        partitions []PartitionResult 0+
            partition int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+ default=null
            state_epoch int32 0+
            start_offset int64 0+
            state_batches []StateBatch 0+
                first_offset int64 0+
                last_offset int64 0+
                delivery_state int8 0+
                delivery_count int16 0+
"""

    class StateBatch(Struct):
        __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")

        def __init__(
            self,
            *,
            first_offset: int = 0,
            last_offset: int = 0,
            delivery_state: int = 0,
            delivery_count: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.first_offset: int = first_offset
            self.last_offset: int = last_offset
            self.delivery_state: int = delivery_state
            self.delivery_count: int = delivery_count
            self.unknown_tagged_fields = unknown_tagged_fields

    class PartitionResult(Struct):
        __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches")

        def __init__(
            self,
            *,
            partition: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            state_epoch: int = 0,
            start_offset: int = 0,
            state_batches: list[ReadShareGroupStateResponse.StateBatch] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.state_epoch: int = state_epoch
            self.start_offset: int = start_offset
            self.state_batches: list[ReadShareGroupStateResponse.StateBatch] = [] if state_batches is FRESH else state_batches
            self.unknown_tagged_fields = unknown_tagged_fields

    class ReadStateResult(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[ReadShareGroupStateResponse.PartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[ReadShareGroupStateResponse.PartitionResult] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        results: list[ReadShareGroupStateResponse.ReadStateResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.results: list[ReadShareGroupStateResponse.ReadStateResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
