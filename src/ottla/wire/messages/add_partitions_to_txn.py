# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class AddPartitionsToTxnRequest(Message):
    __slots__ = ("transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id", "v3_and_below_producer_epoch", "v3_and_below_topics")

    NAME = "AddPartitionsToTxnRequest"
    KIND = "request"
    API_KEY = 24
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
AddPartitionsToTxnRequest request api=24 versions=0-5 flexible=3+ listeners=broker
    transactions []AddPartitionsToTxnTransaction 4+
        transactional_id string 4+ key is=transactionalId
        producer_id int64 4+ is=producerId
        producer_epoch int16 4+
        verify_only bool 4+ default=false
        topics []AddPartitionsToTxnTopic 4+
    v3_and_below_transactional_id string 0-3 is=transactionalId
    v3_and_below_producer_id int64 0-3 is=producerId
    v3_and_below_producer_epoch int16 0-3
    v3_and_below_topics []AddPartitionsToTxnTopic 0-3
    struct AddPartitionsToTxnTopic 0+
        name string 0+ key is=topicName
        partitions []int32 0+
"""

    class AddPartitionsToTxnTransaction(Struct):
        __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")

        def __init__(
            self,
            *,
            transactional_id: str = "",
            producer_id: int = 0,
            producer_epoch: int = 0,
            verify_only: bool = False,
            topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.transactional_id: str = transactional_id
            self.producer_id: int = producer_id
            self.producer_epoch: int = producer_epoch
            self.verify_only: bool = verify_only
            self.topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = [] if topics is FRESH else topics
            self.unknown_tagged_fields = unknown_tagged_fields

    class AddPartitionsToTxnTopic(Struct):
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

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = FRESH,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = [] if transactions is FRESH else transactions
        self.v3_and_below_transactional_id: str = v3_and_below_transactional_id
        self.v3_and_below_producer_id: int = v3_and_below_producer_id
        self.v3_and_below_producer_epoch: int = v3_and_below_producer_epoch
        self.v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = [] if v3_and_below_topics is FRESH else v3_and_below_topics
        self.unknown_tagged_fields = unknown_tagged_fields


class AddPartitionsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")

    NAME = "AddPartitionsToTxnResponse"
    KIND = "response"
    API_KEY = 24
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
AddPartitionsToTxnResponse response api=24 versions=0-5 flexible=3+
    throttle_time_ms int32 0+
    error_code int16 4+ ignorable
    results_by_transaction []AddPartitionsToTxnResult 4+
        transactional_id string 4+ key is=transactionalId
        topic_results []AddPartitionsToTxnTopicResult 4+
    results_by_topic_v3_and_below []AddPartitionsToTxnTopicResult 0-3
    struct AddPartitionsToTxnTopicResult 0+
        name string 0+ key is=topicName
        results_by_partition []AddPartitionsToTxnPartitionResult 0+
    struct AddPartitionsToTxnPartitionResult 0+
        partition_index int32 0+ key
        partition_error_code int16 0+
"""

    class AddPartitionsToTxnResult(Struct):
        __slots__ = ("transactional_id", "topic_results")

        def __init__(
            self,
            *,
            transactional_id: str = "",
            topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.transactional_id: str = transactional_id
            self.topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = [] if topic_results is FRESH else topic_results
            self.unknown_tagged_fields = unknown_tagged_fields

    class AddPartitionsToTxnTopicResult(Struct):
        __slots__ = ("name", "results_by_partition")

        def __init__(
            self,
            *,
            name: str = "",
            results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = [] if results_by_partition is FRESH else results_by_partition
            self.unknown_tagged_fields = unknown_tagged_fields

    class AddPartitionsToTxnPartitionResult(Struct):
        __slots__ = ("partition_index", "partition_error_code")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            partition_error_code: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.partition_error_code: int = partition_error_code
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = FRESH,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = [] if results_by_transaction is FRESH else results_by_transaction
        self.results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = [] if results_by_topic_v3_and_below is FRESH else results_by_topic_v3_and_below
        self.unknown_tagged_fields = unknown_tagged_fields
