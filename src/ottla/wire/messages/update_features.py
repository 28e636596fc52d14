# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class UpdateFeaturesRequest(Message):
    __slots__ = ("timeout_ms", "feature_updates", "validate_only")

    NAME = "UpdateFeaturesRequest"
    KIND = "request"
    API_KEY = 57
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UpdateFeaturesRequest request api=57 versions=0-2 flexible=0+ listeners=broker,controller
    timeout_ms int32 0+ default=60000
    feature_updates []FeatureUpdateKey 0+
        feature string 0+ key
        max_version_level int16 0+
        allow_downgrade bool 0
        upgrade_type int8 1+ default=1
    validate_only bool 1+ default=false
"""

    class FeatureUpdateKey(Struct):
        __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")

        def __init__(
            self,
            *,
            feature: str = "",
            max_version_level: int = 0,
            allow_downgrade: bool = False,
            upgrade_type: int = 1,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.feature: str = feature
            self.max_version_level: int = max_version_level
            self.allow_downgrade: bool = allow_downgrade
            self.upgrade_type: int = upgrade_type
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = FRESH,
        validate_only: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = [] if feature_updates is FRESH else feature_updates
        self.validate_only: bool = validate_only
        self.unknown_tagged_fields = unknown_tagged_fields


class UpdateFeaturesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    NAME = "UpdateFeaturesResponse"
    KIND = "response"
    API_KEY = 57
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UpdateFeaturesResponse response api=57 versions=0-2 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+
    results []UpdatableFeatureResult 0-1 ignorable
        feature string 0+ key
        error_code int16 0+
        error_message string 0+ nullable=0+
"""

    class UpdatableFeatureResult(Struct):
        __slots__ = ("feature", "error_code", "error_message")

        def __init__(
            self,
            *,
            feature: str = "",
            error_code: int = 0,
            error_message: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.feature: str = feature
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
