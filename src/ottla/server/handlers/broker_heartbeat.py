"""BrokerHeartbeat (63), versions 0 to 2, on controller listeners.

A broker reports that it is alive, how far it has read the metadata log, and whether it wants to be fenced or
to shut down; the response says whether it is fenced and may shut down. v1 adds offline directories; v2
cordoned ones. A heartbeat counts when it is processed, and its response waits for the commit however long
that takes: an accepted heartbeat is never rejected later, and a controller that cannot commit resigns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.decisions import decision_for
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 63


async def handle(
    parts: HasQuorum, request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse:
    try:
        response: BrokerHeartbeatResponse = await decide(parts.quorum, decision_for(request, context.version))
    except KafkaError as error:
        return BrokerHeartbeatResponse(error_code=error.code)
    return response


API = Api(KEY, handle)
