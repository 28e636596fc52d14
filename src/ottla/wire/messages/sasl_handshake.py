# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message


class SaslHandshakeRequest(Message):
    __slots__ = ("mechanism",)

    NAME = "SaslHandshakeRequest"
    KIND = "request"
    API_KEY = 17
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = None
    SCHEMA = """\
SaslHandshakeRequest request api=17 versions=0-1 flexible=none listeners=broker,controller
    mechanism string 0+
"""

    def __init__(
        self,
        *,
        mechanism: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.mechanism: str = mechanism
        self.unknown_tagged_fields = unknown_tagged_fields


class SaslHandshakeResponse(Message):
    __slots__ = ("error_code", "mechanisms")

    NAME = "SaslHandshakeResponse"
    KIND = "response"
    API_KEY = 17
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = None
    SCHEMA = """\
SaslHandshakeResponse response api=17 versions=0-1 flexible=none
    error_code int16 0+
    mechanisms []string 0+
"""

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.mechanisms: list[str] = [] if mechanisms is FRESH else mechanisms
        self.unknown_tagged_fields = unknown_tagged_fields
