# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class TxnOffsetCommitRequest(Message):
    __slots__ = ("transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id", "member_id", "group_instance_id", "topics")

    NAME = "TxnOffsetCommitRequest"
    KIND = "request"
    API_KEY = 28
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
TxnOffsetCommitRequest request api=28 versions=0-5 flexible=3+ listeners=broker
    transactional_id string 0+ is=transactionalId
    group_id string 0+ is=groupId
    producer_id int64 0+ is=producerId
    producer_epoch int16 0+
    generation_id int32 3+ default=-1
    member_id string 3+ default=
    group_instance_id string 3+ nullable=3+ default=null
    topics []TxnOffsetCommitRequestTopic 0+
        name string 0+ is=topicName
        partitions []TxnOffsetCommitRequestPartition 0+
            partition_index int32 0+
            committed_offset int64 0+
            committed_leader_epoch int32 2+ default=-1 ignorable
            committed_metadata string 0+ nullable=0+
"""

    class TxnOffsetCommitRequestPartition(Struct):
        __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            committed_metadata: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.committed_offset: int = committed_offset
            self.committed_leader_epoch: int = committed_leader_epoch
            self.committed_metadata: str | None = committed_metadata
            self.unknown_tagged_fields = unknown_tagged_fields

    class TxnOffsetCommitRequestTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.group_id: str = group_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.generation_id: int = generation_id
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class TxnOffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    NAME = "TxnOffsetCommitResponse"
    KIND = "response"
    API_KEY = 28
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
TxnOffsetCommitResponse response api=28 versions=0-5 flexible=3+
    throttle_time_ms int32 0+
    topics []TxnOffsetCommitResponseTopic 0+
        name string 0+ is=topicName
        partitions []TxnOffsetCommitResponsePartition 0+
            partition_index int32 0+
            error_code int16 0+
"""

    class TxnOffsetCommitResponsePartition(Struct):
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

    class TxnOffsetCommitResponseTopic(Struct):
        __slots__ = ("name", "partitions")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
