# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class DescribeTopicPartitionsRequest(Message):
    __slots__ = ("topics", "response_partition_limit", "cursor")

    NAME = "DescribeTopicPartitionsRequest"
    KIND = "request"
    API_KEY = 75
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeTopicPartitionsRequest request api=75 versions=0 flexible=0+ listeners=broker
    topics []TopicRequest 0+
        name string 0+ is=topicName
    response_partition_limit int32 0+ default=2000
    cursor Cursor 0+ nullable=0+ default=null
        topic_name string 0+ is=topicName
        partition_index int32 0+
"""

    class TopicRequest(Struct):
        __slots__ = ("name",)

        def __init__(
            self,
            *,
            name: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.unknown_tagged_fields = unknown_tagged_fields

    class Cursor(Struct):
        __slots__ = ("topic_name", "partition_index")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partition_index: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partition_index: int = partition_index
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[DescribeTopicPartitionsRequest.TopicRequest] = FRESH,
        response_partition_limit: int = 2000,
        cursor: DescribeTopicPartitionsRequest.Cursor | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[DescribeTopicPartitionsRequest.TopicRequest] = [] if topics is FRESH else topics
        self.response_partition_limit: int = response_partition_limit
        self.cursor: DescribeTopicPartitionsRequest.Cursor | None = cursor
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeTopicPartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "next_cursor")

    NAME = "DescribeTopicPartitionsResponse"
    KIND = "response"
    API_KEY = 75
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeTopicPartitionsResponse response api=75 versions=0 flexible=0+
    throttle_time_ms int32 0+ ignorable
    topics []DescribeTopicPartitionsResponseTopic 0+
        error_code int16 0+
        name string 0+ nullable=0+ key is=topicName
        topic_id uuid 0+ ignorable
        is_internal bool 0+ default=false ignorable
        partitions []DescribeTopicPartitionsResponsePartition 0+
            error_code int16 0+
            partition_index int32 0+
            leader_id int32 0+ is=brokerId
            leader_epoch int32 0+ default=-1 ignorable
            replica_nodes []int32 0+ is=brokerId
            isr_nodes []int32 0+ is=brokerId
            eligible_leader_replicas []int32 0+ nullable=0+ default=null is=brokerId
            last_known_elr []int32 0+ nullable=0+ default=null is=brokerId
            offline_replicas []int32 0+ ignorable is=brokerId
        topic_authorized_operations int32 0+ default=-2147483648
    next_cursor Cursor 0+ nullable=0+ default=null
        topic_name string 0+ is=topicName
        partition_index int32 0+
"""

    class DescribeTopicPartitionsResponsePartition(Struct):
        __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "eligible_leader_replicas", "last_known_elr", "offline_replicas")

        def __init__(
            self,
            *,
            error_code: int = 0,
            partition_index: int = 0,
            leader_id: int = 0,
            leader_epoch: int = -1,
            replica_nodes: list[int] = FRESH,
            isr_nodes: list[int] = FRESH,
            eligible_leader_replicas: list[int] | None = None,
            last_known_elr: list[int] | None = None,
            offline_replicas: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.partition_index: int = partition_index
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.replica_nodes: list[int] = [] if replica_nodes is FRESH else replica_nodes
            self.isr_nodes: list[int] = [] if isr_nodes is FRESH else isr_nodes
            self.eligible_leader_replicas: list[int] | None = eligible_leader_replicas
            self.last_known_elr: list[int] | None = last_known_elr
            self.offline_replicas: list[int] = [] if offline_replicas is FRESH else offline_replicas
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeTopicPartitionsResponseTopic(Struct):
        __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

        def __init__(
            self,
            *,
            error_code: int = 0,
            name: str | None = "",
            topic_id: bytes = ZERO,
            is_internal: bool = False,
            partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = FRESH,
            topic_authorized_operations: int = -2147483648,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.name: str | None = name
            self.topic_id: bytes = topic_id
            self.is_internal: bool = is_internal
            self.partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = [] if partitions is FRESH else partitions
            self.topic_authorized_operations: int = topic_authorized_operations
            self.unknown_tagged_fields = unknown_tagged_fields

    class Cursor(Struct):
        __slots__ = ("topic_name", "partition_index")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partition_index: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partition_index: int = partition_index
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = FRESH,
        next_cursor: DescribeTopicPartitionsResponse.Cursor | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = [] if topics is FRESH else topics
        self.next_cursor: DescribeTopicPartitionsResponse.Cursor | None = next_cursor
        self.unknown_tagged_fields = unknown_tagged_fields
