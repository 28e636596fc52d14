# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class WriteTxnMarkersRequest(Message):
    __slots__ = ("markers",)

    NAME = "WriteTxnMarkersRequest"
    KIND = "request"
    API_KEY = 27
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
WriteTxnMarkersRequest request api=27 versions=1-2 flexible=1+ listeners=broker
    markers []WritableTxnMarker 0+
        producer_id int64 0+ is=producerId
        producer_epoch int16 0+
        transaction_result bool 0+
        topics []WritableTxnMarkerTopic 0+
            name string 0+ is=topicName
            partition_indexes []int32 0+
        coordinator_epoch int32 0+
        transaction_version int8 2+ default=0 ignorable
"""

    class WritableTxnMarkerTopic(Struct):
        __slots__ = ("name", "partition_indexes")

        def __init__(
            self,
            *,
            name: str = "",
            partition_indexes: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partition_indexes: list[int] = [] if partition_indexes is FRESH else partition_indexes
            self.unknown_tagged_fields = unknown_tagged_fields

    class WritableTxnMarker(Struct):
        __slots__ = ("producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch", "transaction_version")

        def __init__(
            self,
            *,
            producer_id: int = 0,
            producer_epoch: int = 0,
            transaction_result: bool = False,
            topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = FRESH,
            coordinator_epoch: int = 0,
            transaction_version: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.producer_id: int = producer_id
            self.producer_epoch: int = producer_epoch
            self.transaction_result: bool = transaction_result
            self.topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = [] if topics is FRESH else topics
            self.coordinator_epoch: int = coordinator_epoch
            self.transaction_version: int = transaction_version
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = [] if markers is FRESH else markers
        self.unknown_tagged_fields = unknown_tagged_fields


class WriteTxnMarkersResponse(Message):
    __slots__ = ("markers",)

    NAME = "WriteTxnMarkersResponse"
    KIND = "response"
    API_KEY = 27
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
WriteTxnMarkersResponse response api=27 versions=1-2 flexible=1+
    markers []WritableTxnMarkerResult 0+
        producer_id int64 0+ is=producerId
        topics []WritableTxnMarkerTopicResult 0+
            name string 0+ is=topicName
            partitions []WritableTxnMarkerPartitionResult 0+
                partition_index int32 0+
                error_code int16 0+
"""

    class WritableTxnMarkerPartitionResult(Struct):
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

    class WritableTxnMarkerTopicResult(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class WritableTxnMarkerResult(Struct):
        __slots__ = ("producer_id", "topics")

        def __init__(
            self,
            *,
            producer_id: int = 0,
            topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.producer_id: int = producer_id
            self.topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = [] if topics is FRESH else topics
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = [] if markers is FRESH else markers
        self.unknown_tagged_fields = unknown_tagged_fields
