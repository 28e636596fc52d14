# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class AssignReplicasToDirsRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "directories")

    NAME = "AssignReplicasToDirsRequest"
    KIND = "request"
    API_KEY = 73
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AssignReplicasToDirsRequest request api=73 versions=0 flexible=0+ listeners=controller
    broker_id int32 0+ is=brokerId
    broker_epoch int64 0+ default=-1
    directories []DirectoryData 0+
        id uuid 0+
        topics []TopicData 0+
            topic_id uuid 0+
            partitions []PartitionData 0+
                partition_index int32 0+
"""

    class PartitionData(Struct):
        __slots__ = ("partition_index",)

        def __init__(
            self,
            *,
            partition_index: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[AssignReplicasToDirsRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[AssignReplicasToDirsRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class DirectoryData(Struct):
        __slots__ = ("id", "topics")

        def __init__(
            self,
            *,
            id: bytes = ZERO,
            topics: list[AssignReplicasToDirsRequest.TopicData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.id: bytes = id
            self.topics: list[AssignReplicasToDirsRequest.TopicData] = [] if topics is FRESH else topics
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[AssignReplicasToDirsRequest.DirectoryData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.directories: list[AssignReplicasToDirsRequest.DirectoryData] = [] if directories is FRESH else directories
        self.unknown_tagged_fields = unknown_tagged_fields


class AssignReplicasToDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "directories")

    NAME = "AssignReplicasToDirsResponse"
    KIND = "response"
    API_KEY = 73
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AssignReplicasToDirsResponse response api=73 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    directories []DirectoryData 0+
        id uuid 0+
        topics []TopicData 0+
            topic_id uuid 0+
            partitions []PartitionData 0+
                partition_index int32 0+
                error_code int16 0+
"""

    class PartitionData(Struct):
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

    class TopicData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[AssignReplicasToDirsResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[AssignReplicasToDirsResponse.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class DirectoryData(Struct):
        __slots__ = ("id", "topics")

        def __init__(
            self,
            *,
            id: bytes = ZERO,
            topics: list[AssignReplicasToDirsResponse.TopicData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.id: bytes = id
            self.topics: list[AssignReplicasToDirsResponse.TopicData] = [] if topics is FRESH else topics
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[AssignReplicasToDirsResponse.DirectoryData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.directories: list[AssignReplicasToDirsResponse.DirectoryData] = [] if directories is FRESH else directories
        self.unknown_tagged_fields = unknown_tagged_fields
