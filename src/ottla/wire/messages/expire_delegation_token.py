# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class ExpireDelegationTokenRequest(Message):
    __slots__ = ("hmac", "expiry_time_period_ms")

    NAME = "ExpireDelegationTokenRequest"
    KIND = "request"
    API_KEY = 40
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
ExpireDelegationTokenRequest request api=40 versions=1-2 flexible=2+ listeners=broker,controller
    hmac bytes 0+
    expiry_time_period_ms int64 0+
"""

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        expiry_time_period_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.hmac: bytes = hmac
        self.expiry_time_period_ms: int = expiry_time_period_ms
        self.unknown_tagged_fields = unknown_tagged_fields


class ExpireDelegationTokenResponse(Message):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")

    NAME = "ExpireDelegationTokenResponse"
    KIND = "response"
    API_KEY = 40
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
ExpireDelegationTokenResponse response api=40 versions=1-2 flexible=2+
    error_code int16 0+
    expiry_timestamp_ms int64 0+
    throttle_time_ms int32 0+
"""

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.expiry_timestamp_ms: int = expiry_timestamp_ms
        self.throttle_time_ms: int = throttle_time_ms
        self.unknown_tagged_fields = unknown_tagged_fields
