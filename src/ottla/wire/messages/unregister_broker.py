# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class UnregisterBrokerRequest(Message):
    __slots__ = ("broker_id",)

    NAME = "UnregisterBrokerRequest"
    KIND = "request"
    API_KEY = 64
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UnregisterBrokerRequest request api=64 versions=0 flexible=0+ listeners=broker,controller
    broker_id int32 0+ is=brokerId
"""

    def __init__(
        self,
        *,
        broker_id: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.unknown_tagged_fields = unknown_tagged_fields


class UnregisterBrokerResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    NAME = "UnregisterBrokerResponse"
    KIND = "response"
    API_KEY = 64
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UnregisterBrokerResponse response api=64 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.unknown_tagged_fields = unknown_tagged_fields
