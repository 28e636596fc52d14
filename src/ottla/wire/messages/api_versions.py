# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class ApiVersionsRequest(Message):
    __slots__ = ("client_software_name", "client_software_version")

    NAME = "ApiVersionsRequest"
    KIND = "request"
    API_KEY = 18
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
ApiVersionsRequest request api=18 versions=0-4 flexible=3+ listeners=broker,controller
    client_software_name string 3+ ignorable
    client_software_version string 3+ ignorable
"""

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.client_software_name: str = client_software_name
        self.client_software_version: str = client_software_version
        self.unknown_tagged_fields = unknown_tagged_fields


class ApiVersionsResponse(Message):
    __slots__ = ("error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch", "finalized_features", "zk_migration_ready")

    NAME = "ApiVersionsResponse"
    KIND = "response"
    API_KEY = 18
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 3
    SCHEMA = """\
ApiVersionsResponse response api=18 versions=0-4 flexible=3+
    error_code int16 0+
    api_keys []ApiVersion 0+
        api_key int16 0+ key
        min_version int16 0+
        max_version int16 0+
    throttle_time_ms int32 1+ ignorable
    supported_features []SupportedFeatureKey 3+ tag=0@3+ ignorable
        name string 3+ key
        min_version int16 3+
        max_version int16 3+
    finalized_features_epoch int64 3+ tag=1@3+ default=-1 ignorable
    finalized_features []FinalizedFeatureKey 3+ tag=2@3+ ignorable
        name string 3+ key
        max_version_level int16 3+
        min_version_level int16 3+
    zk_migration_ready bool 3+ tag=3@3+ default=false ignorable
"""

    class ApiVersion(Struct):
        __slots__ = ("api_key", "min_version", "max_version")

        def __init__(
            self,
            *,
            api_key: int = 0,
            min_version: int = 0,
            max_version: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.api_key: int = api_key
            self.min_version: int = min_version
            self.max_version: int = max_version
            self.unknown_tagged_fields = unknown_tagged_fields

    class SupportedFeatureKey(Struct):
        __slots__ = ("name", "min_version", "max_version")

        def __init__(
            self,
            *,
            name: str = "",
            min_version: int = 0,
            max_version: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.min_version: int = min_version
            self.max_version: int = max_version
            self.unknown_tagged_fields = unknown_tagged_fields

    class FinalizedFeatureKey(Struct):
        __slots__ = ("name", "max_version_level", "min_version_level")

        def __init__(
            self,
            *,
            name: str = "",
            max_version_level: int = 0,
            min_version_level: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.max_version_level: int = max_version_level
            self.min_version_level: int = min_version_level
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersionsResponse.ApiVersion] = FRESH,
        throttle_time_ms: int = 0,
        supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = FRESH,
        finalized_features_epoch: int = -1,
        finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = FRESH,
        zk_migration_ready: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.api_keys: list[ApiVersionsResponse.ApiVersion] = [] if api_keys is FRESH else api_keys
        self.throttle_time_ms: int = throttle_time_ms
        self.supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = [] if supported_features is FRESH else supported_features
        self.finalized_features_epoch: int = finalized_features_epoch
        self.finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = [] if finalized_features is FRESH else finalized_features
        self.zk_migration_ready: bool = zk_migration_ready
        self.unknown_tagged_fields = unknown_tagged_fields
