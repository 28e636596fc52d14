"""AlterClientQuotas (49), versions 0 to 1.

Sets and removes quotas of users, client ids and addresses. Each entity succeeds or fails on its own;
`validate_only` writes nothing. A request that would change more than 10,000 quotas is rejected, as in Kafka.
"""

from __future__ import annotations

from typing import Protocol

from ottla.controller.quotas import change_quotas, quotas_answered, read_quotas
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasQuorum, HasStepRunner
from ottla.wire.errors import KafkaError
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

KEY = 49

_Entity = AlterClientQuotasResponse.EntityData


class Parts(HasQuorum, HasStepRunner, Protocol):
    """The parts of a node that AlterClientQuotas needs."""


async def handle(
    parts: Parts, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    run = parts.step_runner.run
    wanted = await run(read_quotas(request))
    await decide(
        parts.quorum, lambda state: change_quotas(state, wanted, validate_only=request.validate_only)
    )
    return await run(quotas_answered(wanted))


def refuse(
    request: AlterClientQuotasRequest, error: KafkaError, version: int
) -> Steps[AlterClientQuotasResponse]:
    response = AlterClientQuotasResponse()
    for entry in request.entries:
        refused = AlterClientQuotasResponse.EntryData(error_code=error.code, error_message=error.message)
        response.entries.append(refused)
        for one in entry.entity:
            refused.entity.append(_Entity(entity_type=one.entity_type, entity_name=one.entity_name))
            yield
        yield
    return response


API = Api(KEY, handle, refuse=refuse)
