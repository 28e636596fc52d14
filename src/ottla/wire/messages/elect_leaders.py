# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class ElectLeadersRequest(Message):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms")

    NAME = "ElectLeadersRequest"
    KIND = "request"
    API_KEY = 43
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
ElectLeadersRequest request api=43 versions=0-2 flexible=2+ listeners=broker,controller
    election_type int8 1+
    topic_partitions []TopicPartitions 0+ nullable=0+
        topic string 0+ key is=topicName
        partitions []int32 0+
    timeout_ms int32 0+ default=60000
"""

    class TopicPartitions(Struct):
        __slots__ = ("topic", "partitions")

        def __init__(
            self,
            *,
            topic: str = "",
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = FRESH,
        timeout_ms: int = 60000,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.election_type: int = election_type
        self.topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = [] if topic_partitions is FRESH else topic_partitions
        self.timeout_ms: int = timeout_ms
        self.unknown_tagged_fields = unknown_tagged_fields


class ElectLeadersResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")

    NAME = "ElectLeadersResponse"
    KIND = "response"
    API_KEY = 43
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
ElectLeadersResponse response api=43 versions=0-2 flexible=2+
    throttle_time_ms int32 0+
    error_code int16 1+
    replica_election_results []ReplicaElectionResult 0+
        topic string 0+ is=topicName
        partition_result []PartitionResult 0+
            partition_id int32 0+
            error_code int16 0+
            error_message string 0+ nullable=0+
"""

    class PartitionResult(Struct):
        __slots__ = ("partition_id", "error_code", "error_message")

        def __init__(
            self,
            *,
            partition_id: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_id: int = partition_id
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    class ReplicaElectionResult(Struct):
        __slots__ = ("topic", "partition_result")

        def __init__(
            self,
            *,
            topic: str = "",
            partition_result: list[ElectLeadersResponse.PartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.partition_result: list[ElectLeadersResponse.PartitionResult] = [] if partition_result is FRESH else partition_result
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = [] if replica_election_results is FRESH else replica_election_results
        self.unknown_tagged_fields = unknown_tagged_fields
