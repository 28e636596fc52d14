# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class CreateDelegationTokenRequest(Message):
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")

    NAME = "CreateDelegationTokenRequest"
    KIND = "request"
    API_KEY = 38
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
CreateDelegationTokenRequest request api=38 versions=1-3 flexible=2+ listeners=broker,controller
    owner_principal_type string 3+ nullable=3+
    owner_principal_name string 3+ nullable=3+
    renewers []CreatableRenewers 0+
        principal_type string 0+
        principal_name string 0+
    max_lifetime_ms int64 0+
"""

    class CreatableRenewers(Struct):
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
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = FRESH,
        max_lifetime_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.owner_principal_type: str | None = owner_principal_type
        self.owner_principal_name: str | None = owner_principal_name
        self.renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = [] if renewers is FRESH else renewers
        self.max_lifetime_ms: int = max_lifetime_ms
        self.unknown_tagged_fields = unknown_tagged_fields


class CreateDelegationTokenResponse(Message):
    __slots__ = ("error_code", "principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "token_id", "hmac", "throttle_time_ms")

    NAME = "CreateDelegationTokenResponse"
    KIND = "response"
    API_KEY = 38
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
CreateDelegationTokenResponse response api=38 versions=1-3 flexible=2+
    error_code int16 0+
    principal_type string 0+
    principal_name string 0+
    token_requester_principal_type string 3+
    token_requester_principal_name string 3+
    issue_timestamp_ms int64 0+
    expiry_timestamp_ms int64 0+
    max_timestamp_ms int64 0+
    token_id string 0+
    hmac bytes 0+
    throttle_time_ms int32 0+
"""

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.principal_type: str = principal_type
        self.principal_name: str = principal_name
        self.token_requester_principal_type: str = token_requester_principal_type
        self.token_requester_principal_name: str = token_requester_principal_name
        self.issue_timestamp_ms: int = issue_timestamp_ms
        self.expiry_timestamp_ms: int = expiry_timestamp_ms
        self.max_timestamp_ms: int = max_timestamp_ms
        self.token_id: str = token_id
        self.hmac: bytes = hmac
        self.throttle_time_ms: int = throttle_time_ms
        self.unknown_tagged_fields = unknown_tagged_fields
