"""SaslHandshake (17), versions 0 and 1.

Names the mechanism of an authentication. No listener of a node uses SASL, so the client has settings for
another listener: ILLEGAL_SASL_STATE and no mechanisms, as Kafka answers on a listener without SASL. The
connection stays usable. v1 announces SaslAuthenticate requests instead of raw bytes.
"""

from __future__ import annotations

from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.error_codes import ErrorCode
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

KEY = 17


def handle(_parts: object, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


API = Api(KEY, handle)
