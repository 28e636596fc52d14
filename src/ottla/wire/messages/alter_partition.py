# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class AlterPartitionRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "topics")

    NAME = "AlterPartitionRequest"
    KIND = "request"
    API_KEY = 56
    VERSIONS = range(2, 4)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AlterPartitionRequest request api=56 versions=2-3 flexible=0+ listeners=controller
    broker_id int32 0+ is=brokerId
    broker_epoch int64 0+ default=-1
    topics []TopicData 0+
        topic_id uuid 2+ ignorable
        partitions []PartitionData 0+
            partition_index int32 0+
            leader_epoch int32 0+
            new_isr []int32 0-2 is=brokerId
            new_isr_with_epochs []BrokerState 3+
                broker_id int32 3+ is=brokerId
                broker_epoch int64 3+ default=-1
            leader_recovery_state int8 1+ default=0
            partition_epoch int32 0+
"""

    class BrokerState(Struct):
        __slots__ = ("broker_id", "broker_epoch")

        def __init__(
            self,
            *,
            broker_id: int = 0,
            broker_epoch: int = -1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.broker_id: int = broker_id
            self.broker_epoch: int = broker_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class PartitionData(Struct):
        __slots__ = ("partition_index", "leader_epoch", "new_isr", "new_isr_with_epochs", "leader_recovery_state", "partition_epoch")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            leader_epoch: int = 0,
            new_isr: list[int] = FRESH,
            new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = FRESH,
            leader_recovery_state: int = 0,
            partition_epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.leader_epoch: int = leader_epoch
            self.new_isr: list[int] = [] if new_isr is FRESH else new_isr
            self.new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = [] if new_isr_with_epochs is FRESH else new_isr_with_epochs
            self.leader_recovery_state: int = leader_recovery_state
            self.partition_epoch: int = partition_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[AlterPartitionRequest.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[AlterPartitionRequest.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: list[AlterPartitionRequest.TopicData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.topics: list[AlterPartitionRequest.TopicData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class AlterPartitionResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics")

    NAME = "AlterPartitionResponse"
    KIND = "response"
    API_KEY = 56
    VERSIONS = range(2, 4)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AlterPartitionResponse response api=56 versions=2-3 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    topics []TopicData 0+
        topic_id uuid 2+ ignorable
        partitions []PartitionData 0+
            partition_index int32 0+
            error_code int16 0+
            leader_id int32 0+ is=brokerId
            leader_epoch int32 0+
            isr []int32 0+ is=brokerId
            leader_recovery_state int8 1+ default=0 ignorable
            partition_epoch int32 0+
"""

    class PartitionData(Struct):
        __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch", "isr", "leader_recovery_state", "partition_epoch")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            leader_id: int = 0,
            leader_epoch: int = 0,
            isr: list[int] = FRESH,
            leader_recovery_state: int = 0,
            partition_epoch: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.error_code: int = error_code
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.isr: list[int] = [] if isr is FRESH else isr
            self.leader_recovery_state: int = leader_recovery_state
            self.partition_epoch: int = partition_epoch
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicData(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[AlterPartitionResponse.PartitionData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[AlterPartitionResponse.PartitionData] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[AlterPartitionResponse.TopicData] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.topics: list[AlterPartitionResponse.TopicData] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
