# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class AlterReplicaLogDirsRequest(Message):
    __slots__ = ("dirs",)

    NAME = "AlterReplicaLogDirsRequest"
    KIND = "request"
    API_KEY = 34
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
AlterReplicaLogDirsRequest request api=34 versions=1-2 flexible=2+ listeners=broker
    dirs []AlterReplicaLogDir 0+
        path string 0+ key
        topics []AlterReplicaLogDirTopic 0+
            name string 0+ key is=topicName
            partitions []int32 0+
"""

    class AlterReplicaLogDirTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class AlterReplicaLogDir(Struct):
        __slots__ = ("path", "topics")

        def __init__(
            self,
            *,
            path: str = "",
            topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.path: str = path
            self.topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = [] if topics is FRESH else topics
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = [] if dirs is FRESH else dirs
        self.unknown_tagged_fields = unknown_tagged_fields


class AlterReplicaLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    NAME = "AlterReplicaLogDirsResponse"
    KIND = "response"
    API_KEY = 34
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
AlterReplicaLogDirsResponse response api=34 versions=1-2 flexible=2+
    throttle_time_ms int32 0+
    results []AlterReplicaLogDirTopicResult 0+
        topic_name string 0+ is=topicName
        partitions []AlterReplicaLogDirPartitionResult 0+
            partition_index int32 0+
            error_code int16 0+
"""

    class AlterReplicaLogDirPartitionResult(Struct):
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

    class AlterReplicaLogDirTopicResult(Struct):
        __slots__ = ("topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
