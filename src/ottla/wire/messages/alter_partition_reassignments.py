# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class AlterPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")

    NAME = "AlterPartitionReassignmentsRequest"
    KIND = "request"
    API_KEY = 45
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AlterPartitionReassignmentsRequest request api=45 versions=0-1 flexible=0+ listeners=broker,controller
    timeout_ms int32 0+ default=60000
    allow_replication_factor_change bool 1+ default=true
    topics []ReassignableTopic 0+
        name string 0+ is=topicName
        partitions []ReassignablePartition 0+
            partition_index int32 0+
            replicas []int32 0+ nullable=0+ default=null is=brokerId
"""

    class ReassignablePartition(Struct):
        __slots__ = ("partition_index", "replicas")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            replicas: list[int] | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.replicas: list[int] | None = replicas
            self.unknown_tagged_fields = unknown_tagged_fields

    class ReassignableTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.allow_replication_factor_change: bool = allow_replication_factor_change
        self.topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class AlterPartitionReassignmentsResponse(Message):
    __slots__ = ("throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses")

    NAME = "AlterPartitionReassignmentsResponse"
    KIND = "response"
    API_KEY = 45
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AlterPartitionReassignmentsResponse response api=45 versions=0-1 flexible=0+
    throttle_time_ms int32 0+
    allow_replication_factor_change bool 1+ default=true ignorable
    error_code int16 0+
    error_message string 0+ nullable=0+
    responses []ReassignableTopicResponse 0+
        name string 0+ is=topicName
        partitions []ReassignablePartitionResponse 0+
            partition_index int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+
"""

    class ReassignablePartitionResponse(Struct):
        __slots__ = ("partition_index", "error_code", "error_message")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    class ReassignableTopicResponse(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.allow_replication_factor_change: bool = allow_replication_factor_change
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = [] if responses is FRESH else responses
        self.unknown_tagged_fields = unknown_tagged_fields
