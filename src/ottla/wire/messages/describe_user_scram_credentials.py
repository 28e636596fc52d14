# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class DescribeUserScramCredentialsRequest(Message):
    __slots__ = ("users",)

    NAME = "DescribeUserScramCredentialsRequest"
    KIND = "request"
    API_KEY = 50
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeUserScramCredentialsRequest request api=50 versions=0 flexible=0+ listeners=broker,controller
    users []UserName 0+ nullable=0+
        name string 0+
"""

    class UserName(Struct):
        __slots__ = ("name",)

        def __init__(
            self,
            *,
            name: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        users: list[DescribeUserScramCredentialsRequest.UserName] | None = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.users: list[DescribeUserScramCredentialsRequest.UserName] | None = [] if users is FRESH else users
        self.unknown_tagged_fields = unknown_tagged_fields


class DescribeUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    NAME = "DescribeUserScramCredentialsResponse"
    KIND = "response"
    API_KEY = 50
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DescribeUserScramCredentialsResponse response api=50 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+
    results []DescribeUserScramCredentialsResult 0+
        user string 0+
        error_code int16 0+
        error_message string 0+ nullable=0+
        credential_infos []CredentialInfo 0+
            mechanism int8 0+
            iterations int32 0+
"""

    class CredentialInfo(Struct):
        __slots__ = ("mechanism", "iterations")

        def __init__(
            self,
            *,
            mechanism: int = 0,
            iterations: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.mechanism: int = mechanism
            self.iterations: int = iterations
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribeUserScramCredentialsResult(Struct):
        __slots__ = ("user", "error_code", "error_message", "credential_infos")

        def __init__(
            self,
            *,
            user: str = "",
            error_code: int = 0,
            error_message: str | None = "",
            credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.user: str = user
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = [] if credential_infos is FRESH else credential_infos
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
