"""AlterPartition (56), versions 2 to 3, on controller listeners.

A leader tells who is in sync with it, and the controller writes that down or says why not: each partition by
itself. A broker whose epoch is over is refused as a whole. v3 names the epochs of the brokers in sync, so
that one which was restarted meanwhile is not taken for in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.decisions import decision_for
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 56


async def handle(
    broker: Broker, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    try:
        response: AlterPartitionResponse = await decide(broker, decision_for(request, context.version))
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code)
    return response


API = Api(KEY, handle)
