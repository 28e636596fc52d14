# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class EndTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")

    NAME = "EndTxnRequest"
    KIND = "request"
    API_KEY = 26
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
EndTxnRequest request api=26 versions=0-5 flexible=3+ listeners=broker
    transactional_id string 0+ is=transactionalId
    producer_id int64 0+ is=producerId
    producer_epoch int16 0+
    committed bool 0+
"""

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.committed: bool = committed
        self.unknown_tagged_fields = unknown_tagged_fields


class EndTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")

    NAME = "EndTxnResponse"
    KIND = "response"
    API_KEY = 26
    VERSIONS = range(0, 6)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
EndTxnResponse response api=26 versions=0-5 flexible=3+
    throttle_time_ms int32 0+
    error_code int16 0+
    producer_id int64 5+ default=-1 ignorable is=producerId
    producer_epoch int16 5+ default=-1 ignorable
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.unknown_tagged_fields = unknown_tagged_fields
