# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class EnvelopeRequest(Message):
    __slots__ = ("request_data", "request_principal", "client_host_address")

    NAME = "EnvelopeRequest"
    KIND = "request"
    API_KEY = 58
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
EnvelopeRequest request api=58 versions=0 flexible=0+ listeners=controller
    request_data bytes 0+
    request_principal bytes 0+ nullable=0+
    client_host_address bytes 0+
"""

    def __init__(
        self,
        *,
        request_data: bytes = b"",
        request_principal: bytes | None = b"",
        client_host_address: bytes = b"",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.request_data: bytes = request_data
        self.request_principal: bytes | None = request_principal
        self.client_host_address: bytes = client_host_address
        self.unknown_tagged_fields = unknown_tagged_fields


class EnvelopeResponse(Message):
    __slots__ = ("response_data", "error_code")

    NAME = "EnvelopeResponse"
    KIND = "response"
    API_KEY = 58
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
EnvelopeResponse response api=58 versions=0 flexible=0+
    response_data bytes 0+ nullable=0+ default=null
    error_code int16 0+
"""

    def __init__(
        self,
        *,
        response_data: bytes | None = None,
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.response_data: bytes | None = response_data
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields
