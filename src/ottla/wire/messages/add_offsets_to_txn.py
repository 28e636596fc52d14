# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class AddOffsetsToTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")

    NAME = "AddOffsetsToTxnRequest"
    KIND = "request"
    API_KEY = 25
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
AddOffsetsToTxnRequest request api=25 versions=0-4 flexible=3+ listeners=broker
    transactional_id string 0+ is=transactionalId
    producer_id int64 0+ is=producerId
    producer_epoch int16 0+
    group_id string 0+ is=groupId
"""

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class AddOffsetsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")

    NAME = "AddOffsetsToTxnResponse"
    KIND = "response"
    API_KEY = 25
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
AddOffsetsToTxnResponse response api=25 versions=0-4 flexible=3+
    throttle_time_ms int32 0+
    error_code int16 0+
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields
