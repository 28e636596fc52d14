"""BrokerRegistration (62), versions 0 to 4, on controller listeners.

A starting broker sends its endpoints, features, rack and log directories to the controller, and gets the
broker epoch for its later requests. It is fenced until a heartbeat shows that it has caught up. v2 adds
directories; v3 the epoch of its last clean shutdown; v4 has the same fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.decisions import decision_for
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 62


async def handle(
    parts: HasQuorum, request: BrokerRegistrationRequest, context: RequestContext
) -> BrokerRegistrationResponse:
    try:
        response: BrokerRegistrationResponse = await decide(
            parts.quorum, decision_for(request, context.version)
        )
    except KafkaError as error:
        return BrokerRegistrationResponse(error_code=error.code)
    return response


API = Api(KEY, handle)
