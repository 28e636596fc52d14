# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Records, Struct
from ottla.wire.uuid import ZERO


class FetchSnapshotRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics")

    NAME = "FetchSnapshotRequest"
    KIND = "request"
    API_KEY = 59
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
FetchSnapshotRequest request api=59 versions=0-1 flexible=0+ listeners=controller
    cluster_id string 0+ nullable=0+ tag=0@0+ default=null
    replica_id int32 0+ default=-1 is=brokerId
    max_bytes int32 0+ default=0x7fffffff
    topics []TopicSnapshot 0+
        name string 0+ is=topicName
        partitions []PartitionSnapshot 0+
            partition int32 0+
            current_leader_epoch int32 0+
            snapshot_id SnapshotId 0+
                end_offset int64 0+
                epoch int32 0+
            position int64 0+
            replica_directory_id uuid 1+ tag=0@1+ ignorable
"""

    class SnapshotId(Struct):
        __slots__ = ("end_offset", "epoch")

        def __init__(
            self,
            *,
            end_offset: int = 0,
            epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.end_offset: int = end_offset
            self.epoch: int = epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class PartitionSnapshot(Struct):
        __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id")

        def __init__(
            self,
            *,
            partition: int = 0,
            current_leader_epoch: int = 0,
            snapshot_id: FetchSnapshotRequest.SnapshotId = FRESH,
            position: int = 0,
            replica_directory_id: bytes = ZERO,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.current_leader_epoch: int = current_leader_epoch
            self.snapshot_id: FetchSnapshotRequest.SnapshotId = FetchSnapshotRequest.SnapshotId() if snapshot_id is FRESH else snapshot_id
            self.position: int = position
            self.replica_directory_id: bytes = replica_directory_id
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicSnapshot(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[FetchSnapshotRequest.PartitionSnapshot] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[FetchSnapshotRequest.PartitionSnapshot] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[FetchSnapshotRequest.TopicSnapshot] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.replica_id: int = replica_id
        self.max_bytes: int = max_bytes
        self.topics: list[FetchSnapshotRequest.TopicSnapshot] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class FetchSnapshotResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints")

    NAME = "FetchSnapshotResponse"
    KIND = "response"
    API_KEY = 59
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
FetchSnapshotResponse response api=59 versions=0-1 flexible=0+
    throttle_time_ms int32 0+ ignorable
    error_code int16 0+
    topics []TopicSnapshot 0+
        name string 0+ is=topicName
        partitions []PartitionSnapshot 0+
            index int32 0+
            error_code int16 0+
            snapshot_id SnapshotId 0+
                end_offset int64 0+
                epoch int32 0+
            current_leader LeaderIdAndEpoch 0+ tag=0@0+
                leader_id int32 0+ is=brokerId
                leader_epoch int32 0+
            size int64 0+
            position int64 0+
            unaligned_records records 0+
    node_endpoints []NodeEndpoint 1+ tag=0@1+
        node_id int32 1+ key is=brokerId
        host string 1+
        port uint16 1+
"""

    class SnapshotId(Struct):
        __slots__ = ("end_offset", "epoch")

        def __init__(
            self,
            *,
            end_offset: int = 0,
            epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.end_offset: int = end_offset
            self.epoch: int = epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class LeaderIdAndEpoch(Struct):
        __slots__ = ("leader_id", "leader_epoch")

        def __init__(
            self,
            *,
            leader_id: int = 0,
            leader_epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class PartitionSnapshot(Struct):
        __slots__ = ("index", "error_code", "snapshot_id", "current_leader", "size", "position", "unaligned_records")

        def __init__(
            self,
            *,
            index: int = 0,
            error_code: int = 0,
            snapshot_id: FetchSnapshotResponse.SnapshotId = FRESH,
            current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = FRESH,
            size: int = 0,
            position: int = 0,
            unaligned_records: Records | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.index: int = index
            self.error_code: int = error_code
            self.snapshot_id: FetchSnapshotResponse.SnapshotId = FetchSnapshotResponse.SnapshotId() if snapshot_id is FRESH else snapshot_id
            self.current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = FetchSnapshotResponse.LeaderIdAndEpoch() if current_leader is FRESH else current_leader
            self.size: int = size
            self.position: int = position
            self.unaligned_records: Records | None = unaligned_records
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicSnapshot(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[FetchSnapshotResponse.PartitionSnapshot] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[FetchSnapshotResponse.PartitionSnapshot] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class NodeEndpoint(Struct):
        __slots__ = ("node_id", "host", "port")

        def __init__(
            self,
            *,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.node_id: int = node_id
            self.host: str = host
            self.port: int = port
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[FetchSnapshotResponse.TopicSnapshot] = FRESH,
        node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.topics: list[FetchSnapshotResponse.TopicSnapshot] = [] if topics is FRESH else topics
        self.node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = [] if node_endpoints is FRESH else node_endpoints
        self.unknown_tagged_fields = unknown_tagged_fields
