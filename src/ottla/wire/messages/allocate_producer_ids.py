# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class AllocateProducerIdsRequest(Message):
    __slots__ = ("broker_id", "broker_epoch")

    NAME = "AllocateProducerIdsRequest"
    KIND = "request"
    API_KEY = 67
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AllocateProducerIdsRequest request api=67 versions=0 flexible=0+ listeners=controller
    broker_id int32 0+ is=brokerId
    broker_epoch int64 0+ default=-1
"""

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


class AllocateProducerIdsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id_start", "producer_id_len")

    NAME = "AllocateProducerIdsResponse"
    KIND = "response"
    API_KEY = 67
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AllocateProducerIdsResponse response api=67 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    producer_id_start int64 0+ is=producerId
    producer_id_len int32 0+
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id_start: int = 0,
        producer_id_len: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.producer_id_start: int = producer_id_start
        self.producer_id_len: int = producer_id_len
        self.unknown_tagged_fields = unknown_tagged_fields
