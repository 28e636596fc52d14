# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class ListTransactionsRequest(Message):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")

    NAME = "ListTransactionsRequest"
    KIND = "request"
    API_KEY = 66
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ListTransactionsRequest request api=66 versions=0-2 flexible=0+ listeners=broker
    state_filters []string 0+
    producer_id_filters []int64 0+ is=producerId
    duration_filter int64 1+ default=-1
    transactional_id_pattern string 2+ nullable=2+ default=null
"""

    def __init__(
        self,
        *,
        state_filters: list[str] = FRESH,
        producer_id_filters: list[int] = FRESH,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.state_filters: list[str] = [] if state_filters is FRESH else state_filters
        self.producer_id_filters: list[int] = [] if producer_id_filters is FRESH else producer_id_filters
        self.duration_filter: int = duration_filter
        self.transactional_id_pattern: str | None = transactional_id_pattern
        self.unknown_tagged_fields = unknown_tagged_fields


class ListTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")

    NAME = "ListTransactionsResponse"
    KIND = "response"
    API_KEY = 66
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ListTransactionsResponse response api=66 versions=0-2 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    unknown_state_filters []string 0+
    transaction_states []TransactionState 0+
        transactional_id string 0+ is=transactionalId
        producer_id int64 0+ is=producerId
        transaction_state string 0+
"""

    class TransactionState(Struct):
        __slots__ = ("transactional_id", "producer_id", "transaction_state")

        def __init__(
            self,
            *,
            transactional_id: str = "",
            producer_id: int = 0,
            transaction_state: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.transactional_id: str = transactional_id
            self.producer_id: int = producer_id
            self.transaction_state: str = transaction_state
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = FRESH,
        transaction_states: list[ListTransactionsResponse.TransactionState] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.unknown_state_filters: list[str] = [] if unknown_state_filters is FRESH else unknown_state_filters
        self.transaction_states: list[ListTransactionsResponse.TransactionState] = [] if transaction_states is FRESH else transaction_states
        self.unknown_tagged_fields = unknown_tagged_fields
