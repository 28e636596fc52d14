# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class WriteShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")

    NAME = "WriteShareGroupStateRequest"
    KIND = "request"
    API_KEY = 85
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
WriteShareGroupStateRequest request api=85 versions=0-1 flexible=0+ listeners=broker
    group_id string 0+
    topics []WriteStateData 0+
        topic_id uuid 0+
        partitions []PartitionData 0+
            partition int32 0+
            state_epoch int32 0+
            leader_epoch int32 0+
            start_offset int64 0+
            delivery_complete_count int32 1+ default=-1 ignorable
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

    class PartitionData(Struct):
        __slots__ = ("partition", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches")

        def __init__(
            self,
            *,
            partition: int = 0,
            state_epoch: int = 0,
            leader_epoch: int = 0,
            start_offset: int = 0,
            delivery_complete_count: int = -1,
            state_batches: list[WriteShareGroupStateRequest.StateBatch] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.state_epoch: int = state_epoch
            self.leader_epoch: int = leader_epoch
            self.start_offset: int = start_offset
            self.delivery_complete_count: int = delivery_complete_count
            self.state_batches: list[WriteShareGroupStateRequest.StateBatch] = [] if state_batches is FRESH else state_batches
            self.unknown_tagged_fields = unknown_tagged_fields

    class WriteStateData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[WriteShareGroupStateRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[WriteShareGroupStateRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[WriteShareGroupStateRequest.WriteStateData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[WriteShareGroupStateRequest.WriteStateData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class WriteShareGroupStateResponse(Message):
    __slots__ = ("results",)

    NAME = "WriteShareGroupStateResponse"
    KIND = "response"
    API_KEY = 85
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
WriteShareGroupStateResponse response api=85 versions=0-1 flexible=0+
    results []WriteStateResult 0+
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

    class WriteStateResult(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[WriteShareGroupStateResponse.PartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[WriteShareGroupStateResponse.PartitionResult] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        results: list[WriteShareGroupStateResponse.WriteStateResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.results: list[WriteShareGroupStateResponse.WriteStateResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
