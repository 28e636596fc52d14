# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeTransactionsRequest(Message):
    __slots__ = ("transactional_ids",)

    NAME = "DescribeTransactionsRequest"
    KIND = "request"
    API_KEY = 65
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeTransactionsRequest request api=65 versions=0 flexible=0+ listeners=broker
    transactional_ids []string 0+ is=transactionalId
"""

    def __init__(
        self,
        *,
        transactional_ids: list[str] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_ids: list[str] = [] if transactional_ids is FRESH else transactional_ids
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "transaction_states")

    NAME = "DescribeTransactionsResponse"
    KIND = "response"
    API_KEY = 65
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeTransactionsResponse response api=65 versions=0 flexible=0+
    throttle_time_ms int32 0+
    transaction_states []TransactionState 0+
        error_code int16 0+
        transactional_id string 0+ is=transactionalId
        transaction_state string 0+
        transaction_timeout_ms int32 0+
        transaction_start_time_ms int64 0+
        producer_id int64 0+ is=producerId
        producer_epoch int16 0+
        topics []TopicData 0+
            topic string 0+ key is=topicName
            partitions []int32 0+
"""

    class TopicData(Struct):
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

    class TransactionState(Struct):
        __slots__ = ("error_code", "transactional_id", "transaction_state", "transaction_timeout_ms", "transaction_start_time_ms", "producer_id", "producer_epoch", "topics")

        def __init__(
            self,
            *,
            error_code: int = 0,
            transactional_id: str = "",
            transaction_state: str = "",
            transaction_timeout_ms: int = 0,
            transaction_start_time_ms: int = 0,
            producer_id: int = 0,
            producer_epoch: int = 0,
            topics: list[DescribeTransactionsResponse.TopicData] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.transactional_id: str = transactional_id
            self.transaction_state: str = transaction_state
            self.transaction_timeout_ms: int = transaction_timeout_ms
            self.transaction_start_time_ms: int = transaction_start_time_ms
            self.producer_id: int = producer_id
            self.producer_epoch: int = producer_epoch
            self.topics: list[DescribeTransactionsResponse.TopicData] = [] if topics is FRESH else topics
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: list[DescribeTransactionsResponse.TransactionState] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.transaction_states: list[DescribeTransactionsResponse.TransactionState] = [] if transaction_states is FRESH else transaction_states
        self.unknown_tagged_fields = unknown_tagged_fields
