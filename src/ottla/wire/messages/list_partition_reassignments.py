# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class ListPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "topics")

    NAME = "ListPartitionReassignmentsRequest"
    KIND = "request"
    API_KEY = 46
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ListPartitionReassignmentsRequest request api=46 versions=0 flexible=0+ listeners=broker,controller
    timeout_ms int32 0+ default=60000
    topics []ListPartitionReassignmentsTopics 0+ nullable=0+ default=null
        name string 0+ is=topicName
        partition_indexes []int32 0+
"""

    class ListPartitionReassignmentsTopics(Struct):
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

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = topics
        self.unknown_tagged_fields = unknown_tagged_fields


class ListPartitionReassignmentsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")

    NAME = "ListPartitionReassignmentsResponse"
    KIND = "response"
    API_KEY = 46
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ListPartitionReassignmentsResponse response api=46 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+
    topics []OngoingTopicReassignment 0+
        name string 0+ is=topicName
        partitions []OngoingPartitionReassignment 0+
            partition_index int32 0+
            replicas []int32 0+ is=brokerId
            adding_replicas []int32 0+ is=brokerId
            removing_replicas []int32 0+ is=brokerId
"""

    class OngoingPartitionReassignment(Struct):
        __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            replicas: list[int] = FRESH,
            adding_replicas: list[int] = FRESH,
            removing_replicas: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.replicas: list[int] = [] if replicas is FRESH else replicas
            self.adding_replicas: list[int] = [] if adding_replicas is FRESH else adding_replicas
            self.removing_replicas: list[int] = [] if removing_replicas is FRESH else removing_replicas
            self.unknown_tagged_fields = unknown_tagged_fields

    class OngoingTopicReassignment(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
