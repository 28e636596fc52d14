"""SaslAuthenticate (36), versions 0 to 2.

A message of an authentication, which no listener of a node uses: ILLEGAL_SASL_STATE, as for SaslHandshake.
Its content is secret, and neither stored nor logged. v1 returns the session lifetime, v2 is flexible.
"""

from __future__ import annotations

from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.error_codes import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

KEY = 36


def handle(
    _parts: object, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="This listener does not use SASL. Connect without it.",
    )


API = Api(KEY, handle)
