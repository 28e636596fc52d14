# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class OffsetFetchRequest(Message):
    __slots__ = ("group_id", "topics", "groups", "require_stable")

    NAME = "OffsetFetchRequest"
    KIND = "request"
    API_KEY = 9
    VERSIONS = range(1, 11)
    FLEXIBLE_FROM = 6
    SCHEMA = """\
OffsetFetchRequest request api=9 versions=1-10 flexible=6+ listeners=broker
    group_id string 0-7 is=groupId
    topics []OffsetFetchRequestTopic 0-7 nullable=2-7
        name string 0-7 is=topicName
        partition_indexes []int32 0-7
    groups []OffsetFetchRequestGroup 8+
        group_id string 8+ is=groupId
        member_id string 9+ nullable=9+ default=null ignorable
        member_epoch int32 9+ default=-1 ignorable
        topics []OffsetFetchRequestTopics 8+ nullable=8+
            name string 8-9 ignorable is=topicName
            topic_id uuid 10+ ignorable
            partition_indexes []int32 8+
    require_stable bool 7+ default=false
"""

    class OffsetFetchRequestTopic(Struct):
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

    class OffsetFetchRequestTopics(Struct):
        __slots__ = ("name", "topic_id", "partition_indexes")

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: bytes = ZERO,
            partition_indexes: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.topic_id: bytes = topic_id
            self.partition_indexes: list[int] = [] if partition_indexes is FRESH else partition_indexes
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetFetchRequestGroup(Struct):
        __slots__ = ("group_id", "member_id", "member_epoch", "topics")

        def __init__(
            self,
            *,
            group_id: str = "",
            member_id: str | None = None,
            member_epoch: int = -1,
            topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.group_id: str = group_id
            self.member_id: str | None = member_id
            self.member_epoch: int = member_epoch
            self.topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = [] if topics is FRESH else topics
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = FRESH,
        groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = FRESH,
        require_stable: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = [] if topics is FRESH else topics
        self.groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = [] if groups is FRESH else groups
        self.require_stable: bool = require_stable
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")

    NAME = "OffsetFetchResponse"
    KIND = "response"
    API_KEY = 9
    VERSIONS = range(1, 11)
    FLEXIBLE_FROM = 6
    SCHEMA = """\
OffsetFetchResponse response api=9 versions=1-10 flexible=6+
    throttle_time_ms int32 3+ ignorable
    topics []OffsetFetchResponseTopic 0-7
        name string 0-7 is=topicName
        partitions []OffsetFetchResponsePartition 0-7
            partition_index int32 0-7
            committed_offset int64 0-7
            committed_leader_epoch int32 5-7 default=-1 ignorable
            metadata string 0-7 nullable=0-7
            error_code int16 0-7
    error_code int16 2-7 default=0 ignorable
    groups []OffsetFetchResponseGroup 8+
        group_id string 8+ is=groupId
        topics []OffsetFetchResponseTopics 8+
            name string 8-9 ignorable is=topicName
            topic_id uuid 10+ ignorable
            partitions []OffsetFetchResponsePartitions 8+
                partition_index int32 8+
                committed_offset int64 8+
                committed_leader_epoch int32 8+ default=-1 ignorable
                metadata string 8+ nullable=8+
                error_code int16 8+
        error_code int16 8+ default=0
"""

    class OffsetFetchResponsePartition(Struct):
        __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            metadata: str | None = "",
            error_code: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.committed_offset: int = committed_offset
            self.committed_leader_epoch: int = committed_leader_epoch
            self.metadata: str | None = metadata
            self.error_code: int = error_code
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetFetchResponseTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetFetchResponsePartitions(Struct):
        __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            metadata: str | None = "",
            error_code: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.committed_offset: int = committed_offset
            self.committed_leader_epoch: int = committed_leader_epoch
            self.metadata: str | None = metadata
            self.error_code: int = error_code
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetFetchResponseTopics(Struct):
        __slots__ = ("name", "topic_id", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: bytes = ZERO,
            partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.topic_id: bytes = topic_id
            self.partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class OffsetFetchResponseGroup(Struct):
        __slots__ = ("group_id", "topics", "error_code")

        def __init__(
            self,
            *,
            group_id: str = "",
            topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = FRESH,
            error_code: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.group_id: str = group_id
            self.topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = [] if topics is FRESH else topics
            self.error_code: int = error_code
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = FRESH,
        error_code: int = 0,
        groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = [] if topics is FRESH else topics
        self.error_code: int = error_code
        self.groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = [] if groups is FRESH else groups
        self.unknown_tagged_fields = unknown_tagged_fields
