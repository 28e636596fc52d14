# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message
from ottla.wire.uuid import ZERO


class PushTelemetryRequest(Message):
    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")

    NAME = "PushTelemetryRequest"
    KIND = "request"
    API_KEY = 72
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
PushTelemetryRequest request api=72 versions=0 flexible=0+ listeners=broker
    client_instance_id uuid 0+
    subscription_id int32 0+
    terminating bool 0+
    compression_type int8 0+
    metrics bytes 0+
"""

    def __init__(
        self,
        *,
        client_instance_id: bytes = ZERO,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.client_instance_id: bytes = client_instance_id
        self.subscription_id: int = subscription_id
        self.terminating: bool = terminating
        self.compression_type: int = compression_type
        self.metrics: bytes = metrics
        self.unknown_tagged_fields = unknown_tagged_fields


class PushTelemetryResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")

    NAME = "PushTelemetryResponse"
    KIND = "response"
    API_KEY = 72
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
PushTelemetryResponse response api=72 versions=0 flexible=0+
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
