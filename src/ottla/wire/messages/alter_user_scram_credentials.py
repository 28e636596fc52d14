# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class AlterUserScramCredentialsRequest(Message):
    __slots__ = ("deletions", "upsertions")

    NAME = "AlterUserScramCredentialsRequest"
    KIND = "request"
    API_KEY = 51
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AlterUserScramCredentialsRequest request api=51 versions=0 flexible=0+ listeners=broker,controller
    deletions []ScramCredentialDeletion 0+
        name string 0+
        mechanism int8 0+
    upsertions []ScramCredentialUpsertion 0+
        name string 0+
        mechanism int8 0+
        iterations int32 0+
        salt bytes 0+
        salted_password bytes 0+
"""

    class ScramCredentialDeletion(Struct):
        __slots__ = ("name", "mechanism")

        def __init__(
            self,
            *,
            name: str = "",
            mechanism: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.mechanism: int = mechanism
            self.unknown_tagged_fields = unknown_tagged_fields

    class ScramCredentialUpsertion(Struct):
        __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")

        def __init__(
            self,
            *,
            name: str = "",
            mechanism: int = 0,
            iterations: int = 0,
            salt: bytes = b"",
            salted_password: bytes = b"",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.mechanism: int = mechanism
            self.iterations: int = iterations
            self.salt: bytes = salt
            self.salted_password: bytes = salted_password
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = FRESH,
        upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = [] if deletions is FRESH else deletions
        self.upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = [] if upsertions is FRESH else upsertions
        self.unknown_tagged_fields = unknown_tagged_fields


class AlterUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    NAME = "AlterUserScramCredentialsResponse"
    KIND = "response"
    API_KEY = 51
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AlterUserScramCredentialsResponse response api=51 versions=0 flexible=0+
    throttle_time_ms int32 0+
    results []AlterUserScramCredentialsResult 0+
        user string 0+
        error_code int16 0+
        error_message string 0+ nullable=0+
"""

    class AlterUserScramCredentialsResult(Struct):
        __slots__ = ("user", "error_code", "error_message")

        def __init__(
            self,
            *,
            user: str = "",
            error_code: int = 0,
            error_message: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.user: str = user
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
