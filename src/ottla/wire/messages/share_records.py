# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ShareSnapshotKey(Message):
    __slots__ = ("group_id", "topic_id", "partition")

    NAME = "ShareSnapshotKey"
    KIND = "coordinator-key"
    API_KEY = 0
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ShareSnapshotKey coordinator-key api=0 versions=0 flexible=none
    group_id string 0
    topic_id uuid 0
    partition int32 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        topic_id: bytes = ZERO,
        partition: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topic_id: bytes = topic_id
        self.partition: int = partition
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareSnapshotValue(Message):
    __slots__ = ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "create_timestamp", "write_timestamp", "state_batches")

    NAME = "ShareSnapshotValue"
    KIND = "coordinator-value"
    API_KEY = 0
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareSnapshotValue coordinator-value api=0 versions=0 flexible=0+
    snapshot_epoch int32 0+
    state_epoch int32 0+
    leader_epoch int32 0+
    start_offset int64 0+
    delivery_complete_count int32 0+ tag=0@0+ default=-1
    create_timestamp int64 0+
    write_timestamp int64 0+
    state_batches []StateBatch 0+
        first_offset int64 0+
        last_offset int64 0+
        delivery_state int8 0+
        delivery_count int16 0+
"""

    class StateBatch(Struct):
        __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")

        def __init__(
            self,
            *,
            first_offset: int = 0,
            last_offset: int = 0,
            delivery_state: int = 0,
            delivery_count: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.first_offset: int = first_offset
            self.last_offset: int = last_offset
            self.delivery_state: int = delivery_state
            self.delivery_count: int = delivery_count
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        snapshot_epoch: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        create_timestamp: int = 0,
        write_timestamp: int = 0,
        state_batches: list[ShareSnapshotValue.StateBatch] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.snapshot_epoch: int = snapshot_epoch
        self.state_epoch: int = state_epoch
        self.leader_epoch: int = leader_epoch
        self.start_offset: int = start_offset
        self.delivery_complete_count: int = delivery_complete_count
        self.create_timestamp: int = create_timestamp
        self.write_timestamp: int = write_timestamp
        self.state_batches: list[ShareSnapshotValue.StateBatch] = [] if state_batches is FRESH else state_batches
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareUpdateKey(Message):
    __slots__ = ("group_id", "topic_id", "partition")

    NAME = "ShareUpdateKey"
    KIND = "coordinator-key"
    API_KEY = 1
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ShareUpdateKey coordinator-key api=1 versions=0 flexible=none
    group_id string 0
    topic_id uuid 0
    partition int32 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        topic_id: bytes = ZERO,
        partition: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topic_id: bytes = topic_id
        self.partition: int = partition
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareUpdateValue(Message):
    __slots__ = ("snapshot_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches")

    NAME = "ShareUpdateValue"
    KIND = "coordinator-value"
    API_KEY = 1
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareUpdateValue coordinator-value api=1 versions=0 flexible=0+
    snapshot_epoch int32 0+
    leader_epoch int32 0+
    start_offset int64 0+
    delivery_complete_count int32 0+ tag=0@0+ default=-1
    state_batches []StateBatch 0+
        first_offset int64 0+
        last_offset int64 0+
        delivery_state int8 0+
        delivery_count int16 0+
"""

    class StateBatch(Struct):
        __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")

        def __init__(
            self,
            *,
            first_offset: int = 0,
            last_offset: int = 0,
            delivery_state: int = 0,
            delivery_count: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.first_offset: int = first_offset
            self.last_offset: int = last_offset
            self.delivery_state: int = delivery_state
            self.delivery_count: int = delivery_count
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        snapshot_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: list[ShareUpdateValue.StateBatch] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.snapshot_epoch: int = snapshot_epoch
        self.leader_epoch: int = leader_epoch
        self.start_offset: int = start_offset
        self.delivery_complete_count: int = delivery_complete_count
        self.state_batches: list[ShareUpdateValue.StateBatch] = [] if state_batches is FRESH else state_batches
        self.unknown_tagged_fields = unknown_tagged_fields
