"""UnregisterBroker (64), version 0.

Unregisters a broker that will not come back. BROKER_ID_NOT_REGISTERED if there is no such broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.brokers import unregister_broker
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 64


async def handle(
    parts: HasQuorum, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    return await decide(parts.quorum, lambda state: unregister_broker(state, request))


def refuse(request: UnregisterBrokerRequest, error: KafkaError, version: int) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)


API = Api(KEY, handle, refuse=refuse)
