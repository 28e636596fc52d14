# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ProducerSnapshot(Message):
    __slots__ = ("crc", "producer_entries")

    NAME = "ProducerSnapshot"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ProducerSnapshot data versions=1 flexible=none
    crc uint32 1
    producer_entries []ProducerEntry 1
        producer_id int64 1
        epoch int16 1
        last_sequence int32 1
        last_offset int64 1
        offset_delta int32 1
        timestamp int64 1
        coordinator_epoch int32 1
        current_txn_first_offset int64 1
"""

    class ProducerEntry(Struct):
        __slots__ = ("producer_id", "epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch", "current_txn_first_offset")

        def __init__(
            self,
            *,
            producer_id: int = 0,
            epoch: int = 0,
            last_sequence: int = 0,
            last_offset: int = 0,
            offset_delta: int = 0,
            timestamp: int = 0,
            coordinator_epoch: int = 0,
            current_txn_first_offset: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.producer_id: int = producer_id
            self.epoch: int = epoch
            self.last_sequence: int = last_sequence
            self.last_offset: int = last_offset
            self.offset_delta: int = offset_delta
            self.timestamp: int = timestamp
            self.coordinator_epoch: int = coordinator_epoch
            self.current_txn_first_offset: int = current_txn_first_offset
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        crc: int = 0,
        producer_entries: list[ProducerSnapshot.ProducerEntry] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.crc: int = crc
        self.producer_entries: list[ProducerSnapshot.ProducerEntry] = [] if producer_entries is FRESH else producer_entries
        self.unknown_tagged_fields = unknown_tagged_fields


class RemoteLogSegmentMetadataRecord(Message):
    __slots__ = ("remote_log_segment_id", "start_offset", "end_offset", "broker_id", "max_timestamp_ms", "event_timestamp_ms", "segment_leader_epochs", "segment_size_in_bytes", "custom_metadata", "remote_log_segment_state", "txn_index_empty")

    NAME = "RemoteLogSegmentMetadataRecord"
    KIND = "metadata"
    API_KEY = 0
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RemoteLogSegmentMetadataRecord metadata api=0 versions=0 flexible=0+
    remote_log_segment_id RemoteLogSegmentIdEntry 0+
        topic_id_partition TopicIdPartitionEntry 0+
            name string 0+
            id uuid 0+
            partition int32 0+
        id uuid 0+
    start_offset int64 0+
    end_offset int64 0+
    broker_id int32 0+
    max_timestamp_ms int64 0+
    event_timestamp_ms int64 0+
    segment_leader_epochs []SegmentLeaderEpochEntry 0+
        leader_epoch int32 0+
        offset int64 0+
    segment_size_in_bytes int32 0+
    custom_metadata bytes 0+ nullable=0+ default=null
    remote_log_segment_state int8 0+
    txn_index_empty bool 0+ tag=0@0+
"""

    class TopicIdPartitionEntry(Struct):
        __slots__ = ("name", "id", "partition")

        def __init__(
            self,
            *,
            name: str = "",
            id: bytes = ZERO,
            partition: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.id: bytes = id
            self.partition: int = partition
            self.unknown_tagged_fields = unknown_tagged_fields

    class RemoteLogSegmentIdEntry(Struct):
        __slots__ = ("topic_id_partition", "id")

        def __init__(
            self,
            *,
            topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry = FRESH,
            id: bytes = ZERO,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry = RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry() if topic_id_partition is FRESH else topic_id_partition
            self.id: bytes = id
            self.unknown_tagged_fields = unknown_tagged_fields

    class SegmentLeaderEpochEntry(Struct):
        __slots__ = ("leader_epoch", "offset")

        def __init__(
            self,
            *,
            leader_epoch: int = 0,
            offset: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.leader_epoch: int = leader_epoch
            self.offset: int = offset
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry = FRESH,
        start_offset: int = 0,
        end_offset: int = 0,
        broker_id: int = 0,
        max_timestamp_ms: int = 0,
        event_timestamp_ms: int = 0,
        segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry] = FRESH,
        segment_size_in_bytes: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry = RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry() if remote_log_segment_id is FRESH else remote_log_segment_id
        self.start_offset: int = start_offset
        self.end_offset: int = end_offset
        self.broker_id: int = broker_id
        self.max_timestamp_ms: int = max_timestamp_ms
        self.event_timestamp_ms: int = event_timestamp_ms
        self.segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry] = [] if segment_leader_epochs is FRESH else segment_leader_epochs
        self.segment_size_in_bytes: int = segment_size_in_bytes
        self.custom_metadata: bytes | None = custom_metadata
        self.remote_log_segment_state: int = remote_log_segment_state
        self.txn_index_empty: bool = txn_index_empty
        self.unknown_tagged_fields = unknown_tagged_fields


class RemoteLogSegmentMetadataUpdateRecord(Message):
    __slots__ = ("remote_log_segment_id", "broker_id", "event_timestamp_ms", "custom_metadata", "remote_log_segment_state")

    NAME = "RemoteLogSegmentMetadataUpdateRecord"
    KIND = "metadata"
    API_KEY = 1
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RemoteLogSegmentMetadataUpdateRecord metadata api=1 versions=0 flexible=0+
    remote_log_segment_id RemoteLogSegmentIdEntry 0+
        topic_id_partition TopicIdPartitionEntry 0+
            name string 0+
            id uuid 0+
            partition int32 0+
        id uuid 0+
    broker_id int32 0+
    event_timestamp_ms int64 0+
    custom_metadata bytes 0+ nullable=0+ default=null
    remote_log_segment_state int8 0+
"""

    class TopicIdPartitionEntry(Struct):
        __slots__ = ("name", "id", "partition")

        def __init__(
            self,
            *,
            name: str = "",
            id: bytes = ZERO,
            partition: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.id: bytes = id
            self.partition: int = partition
            self.unknown_tagged_fields = unknown_tagged_fields

    class RemoteLogSegmentIdEntry(Struct):
        __slots__ = ("topic_id_partition", "id")

        def __init__(
            self,
            *,
            topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry = FRESH,
            id: bytes = ZERO,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry = RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry() if topic_id_partition is FRESH else topic_id_partition
            self.id: bytes = id
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry = FRESH,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry = RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry() if remote_log_segment_id is FRESH else remote_log_segment_id
        self.broker_id: int = broker_id
        self.event_timestamp_ms: int = event_timestamp_ms
        self.custom_metadata: bytes | None = custom_metadata
        self.remote_log_segment_state: int = remote_log_segment_state
        self.unknown_tagged_fields = unknown_tagged_fields


class RemotePartitionDeleteMetadataRecord(Message):
    __slots__ = ("topic_id_partition", "broker_id", "event_timestamp_ms", "remote_partition_delete_state")

    NAME = "RemotePartitionDeleteMetadataRecord"
    KIND = "metadata"
    API_KEY = 2
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RemotePartitionDeleteMetadataRecord metadata api=2 versions=0 flexible=0+
    topic_id_partition TopicIdPartitionEntry 0+
        name string 0+
        id uuid 0+
        partition int32 0+
    broker_id int32 0+
    event_timestamp_ms int64 0+
    remote_partition_delete_state int8 0+
"""

    class TopicIdPartitionEntry(Struct):
        __slots__ = ("name", "id", "partition")

        def __init__(
            self,
            *,
            name: str = "",
            id: bytes = ZERO,
            partition: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.id: bytes = id
            self.partition: int = partition
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry = FRESH,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        remote_partition_delete_state: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry = RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry() if topic_id_partition is FRESH else topic_id_partition
        self.broker_id: int = broker_id
        self.event_timestamp_ms: int = event_timestamp_ms
        self.remote_partition_delete_state: int = remote_partition_delete_state
        self.unknown_tagged_fields = unknown_tagged_fields


class RemoteLogSegmentMetadataSnapshotRecord(Message):
    __slots__ = ("segment_id", "start_offset", "end_offset", "broker_id", "max_timestamp_ms", "event_timestamp_ms", "segment_leader_epochs", "segment_size_in_bytes", "custom_metadata", "remote_log_segment_state", "txn_index_empty")

    NAME = "RemoteLogSegmentMetadataSnapshotRecord"
    KIND = "metadata"
    API_KEY = 3
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RemoteLogSegmentMetadataSnapshotRecord metadata api=3 versions=0 flexible=0+
    segment_id uuid 0+
    start_offset int64 0+
    end_offset int64 0+
    broker_id int32 0+
    max_timestamp_ms int64 0+
    event_timestamp_ms int64 0+
    segment_leader_epochs []SegmentLeaderEpochEntry 0+
        leader_epoch int32 0+
        offset int64 0+
    segment_size_in_bytes int32 0+
    custom_metadata bytes 0+ nullable=0+ default=null
    remote_log_segment_state int8 0+
    txn_index_empty bool 0+ tag=0@0+
"""

    class SegmentLeaderEpochEntry(Struct):
        __slots__ = ("leader_epoch", "offset")

        def __init__(
            self,
            *,
            leader_epoch: int = 0,
            offset: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.leader_epoch: int = leader_epoch
            self.offset: int = offset
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        segment_id: bytes = ZERO,
        start_offset: int = 0,
        end_offset: int = 0,
        broker_id: int = 0,
        max_timestamp_ms: int = 0,
        event_timestamp_ms: int = 0,
        segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry] = FRESH,
        segment_size_in_bytes: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.segment_id: bytes = segment_id
        self.start_offset: int = start_offset
        self.end_offset: int = end_offset
        self.broker_id: int = broker_id
        self.max_timestamp_ms: int = max_timestamp_ms
        self.event_timestamp_ms: int = event_timestamp_ms
        self.segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry] = [] if segment_leader_epochs is FRESH else segment_leader_epochs
        self.segment_size_in_bytes: int = segment_size_in_bytes
        self.custom_metadata: bytes | None = custom_metadata
        self.remote_log_segment_state: int = remote_log_segment_state
        self.txn_index_empty: bool = txn_index_empty
        self.unknown_tagged_fields = unknown_tagged_fields
