# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class SaslAuthenticateRequest(Message):
    __slots__ = ("auth_bytes",)

    NAME = "SaslAuthenticateRequest"
    KIND = "request"
    API_KEY = 36
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
SaslAuthenticateRequest request api=36 versions=0-2 flexible=2+ listeners=broker,controller
    auth_bytes bytes 0+
"""

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.auth_bytes: bytes = auth_bytes
        self.unknown_tagged_fields = unknown_tagged_fields


class SaslAuthenticateResponse(Message):
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")

    NAME = "SaslAuthenticateResponse"
    KIND = "response"
    API_KEY = 36
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
SaslAuthenticateResponse response api=36 versions=0-2 flexible=2+
    error_code int16 0+
    error_message string 0+ nullable=0+
    auth_bytes bytes 0+
    session_lifetime_ms int64 1+ default=0 ignorable
"""

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.auth_bytes: bytes = auth_bytes
        self.session_lifetime_ms: int = session_lifetime_ms
        self.unknown_tagged_fields = unknown_tagged_fields
