"""AlterPartition (56), versions 2 to 3, on controller listeners.

A leader proposes ISR changes; the controller stores or rejects each partition on its own. A request with a
stale broker epoch is rejected as a whole. v3 contains the epochs of the brokers in the ISR, so that a broker
that has restarted meanwhile does not count as in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.decisions import decision_for
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 56


async def handle(
    parts: HasQuorum, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    try:
        response: AlterPartitionResponse = await decide(parts.quorum, decision_for(request, context.version))
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code)
    return response


API = Api(KEY, handle)
