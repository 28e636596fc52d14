"""AllocateProducerIds (67), version 0, on controller listeners.

Allocates a block of producer ids to a broker; no other broker ever gets these ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.decisions import decision_for
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 67


async def handle(
    parts: HasQuorum, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    try:
        response: AllocateProducerIdsResponse = await decide(
            parts.quorum, decision_for(request, context.version)
        )
    except KafkaError as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return response


API = Api(KEY, handle)
