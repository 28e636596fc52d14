# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class TransactionLogKey(Message):
    __slots__ = ("transactional_id",)

    NAME = "TransactionLogKey"
    KIND = "coordinator-key"
    API_KEY = 0
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
TransactionLogKey coordinator-key api=0 versions=0 flexible=none
    transactional_id string 0
"""

    def __init__(
        self,
        *,
        transactional_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.unknown_tagged_fields = unknown_tagged_fields


class TransactionLogValue(Message):
    __slots__ = ("producer_id", "previous_producer_id", "next_producer_id", "producer_epoch", "next_producer_epoch", "transaction_timeout_ms", "transaction_status", "transaction_partitions", "transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms", "client_transaction_version")

    NAME = "TransactionLogValue"
    KIND = "coordinator-value"
    API_KEY = 0
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
TransactionLogValue coordinator-value api=0 versions=0-1 flexible=1+
    producer_id int64 0+
    previous_producer_id int64 1+ tag=0@1+ default=-1
    next_producer_id int64 1+ tag=1@1+ default=-1
    producer_epoch int16 0+
    next_producer_epoch int16 1+ tag=3@1+ default=-1
    transaction_timeout_ms int32 0+
    transaction_status int8 0+
    transaction_partitions []PartitionsSchema 0+ nullable=0+
        topic string 0+
        partition_ids []int32 0+
    transaction_last_update_timestamp_ms int64 0+
    transaction_start_timestamp_ms int64 0+
    client_transaction_version int16 1+ tag=2@1+ default=0
"""

    class PartitionsSchema(Struct):
        __slots__ = ("topic", "partition_ids")

        def __init__(
            self,
            *,
            topic: str = "",
            partition_ids: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.partition_ids: list[int] = [] if partition_ids is FRESH else partition_ids
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        next_producer_epoch: int = -1,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = FRESH,
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.producer_id: int = producer_id
        self.previous_producer_id: int = previous_producer_id
        self.next_producer_id: int = next_producer_id
        self.producer_epoch: int = producer_epoch
        self.next_producer_epoch: int = next_producer_epoch
        self.transaction_timeout_ms: int = transaction_timeout_ms
        self.transaction_status: int = transaction_status
        self.transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = [] if transaction_partitions is FRESH else transaction_partitions
        self.transaction_last_update_timestamp_ms: int = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms: int = transaction_start_timestamp_ms
        self.client_transaction_version: int = client_transaction_version
        self.unknown_tagged_fields = unknown_tagged_fields
