# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeLogDirsRequest(Message):
    __slots__ = ("topics",)

    NAME = "DescribeLogDirsRequest"
    KIND = "request"
    API_KEY = 35
    VERSIONS = range(1, 6)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DescribeLogDirsRequest request api=35 versions=1-5 flexible=2+ listeners=broker
    topics []DescribableLogDirTopic 0+ nullable=0+
        topic string 0+ key is=topicName
        partitions []int32 0+
"""

    class DescribableLogDirTopic(Struct):
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
        topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results")

    NAME = "DescribeLogDirsResponse"
    KIND = "response"
    API_KEY = 35
    VERSIONS = range(1, 6)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DescribeLogDirsResponse response api=35 versions=1-5 flexible=2+
    throttle_time_ms int32 0+
    error_code int16 3+ ignorable
    results []DescribeLogDirsResult 0+
        error_code int16 0+
        log_dir string 0+
        topics []DescribeLogDirsTopic 0+
            name string 0+ is=topicName
            partitions []DescribeLogDirsPartition 0+
                partition_index int32 0+
                partition_size int64 0+
                offset_lag int64 0+
                is_future_key bool 0+
        total_bytes int64 4+ default=-1 ignorable
        usable_bytes int64 4+ default=-1 ignorable
        is_cordoned bool 5+ default=false ignorable
"""

    class DescribeLogDirsPartition(Struct):
        __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            partition_size: int = 0,
            offset_lag: int = 0,
            is_future_key: bool = False,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.partition_size: int = partition_size
            self.offset_lag: int = offset_lag
            self.is_future_key: bool = is_future_key
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeLogDirsTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeLogDirsResult(Struct):
        __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")

        def __init__(
            self,
            *,
            error_code: int = 0,
            log_dir: str = "",
            topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = FRESH,
            total_bytes: int = -1,
            usable_bytes: int = -1,
            is_cordoned: bool = False,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.log_dir: str = log_dir
            self.topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = [] if topics is FRESH else topics
            self.total_bytes: int = total_bytes
            self.usable_bytes: int = usable_bytes
            self.is_cordoned: bool = is_cordoned
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
