"""AlterClientQuotas (49), versions 0 to 1.

Sets and removes quotas of users, client ids and addresses. Each entity succeeds or fails by itself, and
`validate_only` writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.quotas import alter_client_quotas
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 49

_Entity = AlterClientQuotasResponse.EntityData


async def handle(
    broker: Broker, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    try:
        return await decide(broker, lambda state: alter_client_quotas(state, request))
    except KafkaError as error:
        return AlterClientQuotasResponse(
            entries=[
                AlterClientQuotasResponse.EntryData(
                    error_code=error.code,
                    error_message=error.message,
                    entity=[
                        _Entity(entity_type=one.entity_type, entity_name=one.entity_name)
                        for one in entry.entity
                    ],
                )
                for entry in request.entries
            ]
        )


API = Api(KEY, handle)
