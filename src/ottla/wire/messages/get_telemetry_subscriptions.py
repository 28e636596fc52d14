# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message
from ottla.wire.uuid import ZERO


class GetTelemetrySubscriptionsRequest(Message):
    __slots__ = ("client_instance_id",)

    NAME = "GetTelemetrySubscriptionsRequest"
    KIND = "request"
    API_KEY = 71
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
GetTelemetrySubscriptionsRequest request api=71 versions=0 flexible=0+ listeners=broker
    client_instance_id uuid 0+
"""

    def __init__(
        self,
        *,
        client_instance_id: bytes = ZERO,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.client_instance_id: bytes = client_instance_id
        self.unknown_tagged_fields = unknown_tagged_fields


class GetTelemetrySubscriptionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "client_instance_id", "subscription_id", "accepted_compression_types", "push_interval_ms", "telemetry_max_bytes", "delta_temporality", "requested_metrics")

    NAME = "GetTelemetrySubscriptionsResponse"
    KIND = "response"
    API_KEY = 71
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
GetTelemetrySubscriptionsResponse response api=71 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    client_instance_id uuid 0+
    subscription_id int32 0+
    accepted_compression_types []int8 0+
    push_interval_ms int32 0+
    telemetry_max_bytes int32 0+
    delta_temporality bool 0+
    requested_metrics []string 0+
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: bytes = ZERO,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = FRESH,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.client_instance_id: bytes = client_instance_id
        self.subscription_id: int = subscription_id
        self.accepted_compression_types: list[int] = [] if accepted_compression_types is FRESH else accepted_compression_types
        self.push_interval_ms: int = push_interval_ms
        self.telemetry_max_bytes: int = telemetry_max_bytes
        self.delta_temporality: bool = delta_temporality
        self.requested_metrics: list[str] = [] if requested_metrics is FRESH else requested_metrics
        self.unknown_tagged_fields = unknown_tagged_fields
