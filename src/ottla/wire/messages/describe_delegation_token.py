# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeDelegationTokenRequest(Message):
    __slots__ = ("owners",)

    NAME = "DescribeDelegationTokenRequest"
    KIND = "request"
    API_KEY = 41
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DescribeDelegationTokenRequest request api=41 versions=1-3 flexible=2+ listeners=broker,controller
    owners []DescribeDelegationTokenOwner 0+ nullable=0+
        principal_type string 0+
        principal_name string 0+
"""

    class DescribeDelegationTokenOwner(Struct):
        __slots__ = ("principal_type", "principal_name")

        def __init__(
            self,
            *,
            principal_type: str = "",
            principal_name: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.principal_type: str = principal_type
            self.principal_name: str = principal_name
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = [] if owners is FRESH else owners
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeDelegationTokenResponse(Message):
    __slots__ = ("error_code", "tokens", "throttle_time_ms")

    NAME = "DescribeDelegationTokenResponse"
    KIND = "response"
    API_KEY = 41
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
DescribeDelegationTokenResponse response api=41 versions=1-3 flexible=2+
    error_code int16 0+
    tokens []DescribedDelegationToken 0+
        principal_type string 0+
        principal_name string 0+
        token_requester_principal_type string 3+
        token_requester_principal_name string 3+
        issue_timestamp int64 0+
        expiry_timestamp int64 0+
        max_timestamp int64 0+
        token_id string 0+
        hmac bytes 0+
        renewers []DescribedDelegationTokenRenewer 0+
            principal_type string 0+
            principal_name string 0+
    throttle_time_ms int32 0+
"""

    class DescribedDelegationTokenRenewer(Struct):
        __slots__ = ("principal_type", "principal_name")

        def __init__(
            self,
            *,
            principal_type: str = "",
            principal_name: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.principal_type: str = principal_type
            self.principal_name: str = principal_name
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribedDelegationToken(Struct):
        __slots__ = ("principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp", "expiry_timestamp", "max_timestamp", "token_id", "hmac", "renewers")

        def __init__(
            self,
            *,
            principal_type: str = "",
            principal_name: str = "",
            token_requester_principal_type: str = "",
            token_requester_principal_name: str = "",
            issue_timestamp: int = 0,
            expiry_timestamp: int = 0,
            max_timestamp: int = 0,
            token_id: str = "",
            hmac: bytes = b"",
            renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.principal_type: str = principal_type
            self.principal_name: str = principal_name
            self.token_requester_principal_type: str = token_requester_principal_type
            self.token_requester_principal_name: str = token_requester_principal_name
            self.issue_timestamp: int = issue_timestamp
            self.expiry_timestamp: int = expiry_timestamp
            self.max_timestamp: int = max_timestamp
            self.token_id: str = token_id
            self.hmac: bytes = hmac
            self.renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = [] if renewers is FRESH else renewers
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = FRESH,
        throttle_time_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = [] if tokens is FRESH else tokens
        self.throttle_time_ms: int = throttle_time_ms
        self.unknown_tagged_fields = unknown_tagged_fields
