# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class InitProducerIdRequest(Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable2_pc", "keep_prepared_txn")

    NAME = "InitProducerIdRequest"
    KIND = "request"
    API_KEY = 22
    VERSIONS = range(0, 7)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
InitProducerIdRequest request api=22 versions=0-6 flexible=2+ listeners=broker latest-unstable
    transactional_id string 0+ nullable=0+ is=transactionalId
    transaction_timeout_ms int32 0+
    producer_id int64 3+ default=-1 is=producerId
    producer_epoch int16 3+ default=-1
    enable2_pc bool 6+ default=false
    keep_prepared_txn bool 6+ default=false
"""

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.transaction_timeout_ms: int = transaction_timeout_ms
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.enable2_pc: bool = enable2_pc
        self.keep_prepared_txn: bool = keep_prepared_txn
        self.unknown_tagged_fields = unknown_tagged_fields


class InitProducerIdResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch", "ongoing_txn_producer_id", "ongoing_txn_producer_epoch")

    NAME = "InitProducerIdResponse"
    KIND = "response"
    API_KEY = 22
    VERSIONS = range(0, 7)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
InitProducerIdResponse response api=22 versions=0-6 flexible=2+
    throttle_time_ms int32 0+ ignorable
    error_code int16 0+
    producer_id int64 0+ default=-1 is=producerId
    producer_epoch int16 0+
    ongoing_txn_producer_id int64 6+ default=-1 is=producerId
    ongoing_txn_producer_epoch int16 6+ default=-1
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.ongoing_txn_producer_id: int = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch: int = ongoing_txn_producer_epoch
        self.unknown_tagged_fields = unknown_tagged_fields
