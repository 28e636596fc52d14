"""CreatePartitions (37), versions 0 to 3.

Adds partitions to topics; the controller places them, or uses the given assignments. Each topic succeeds or
fails on its own; `validate_only` writes nothing. More than 10,000 topics are rejected, as in Kafka. v3 adds
quota errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.create_partitions import create_partitions
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, made_of
from ottla.wire.errors import KafkaError
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 37


async def handle(
    parts: HasQuorum, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    return await decide(
        parts.quorum, lambda state: create_partitions(state, request), timeout_ms=request.timeout_ms
    )


def refuse(
    request: CreatePartitionsRequest, error: KafkaError, version: int
) -> Steps[CreatePartitionsResponse]:
    results = yield from made_of(
        request.topics,
        lambda topic: CreatePartitionsResponse.CreatePartitionsTopicResult(
            name=topic.name, error_code=error.code, error_message=error.message
        ),
    )
    return CreatePartitionsResponse(results=results)


API = Api(KEY, handle, refuse=refuse)
