"""CreateTopics (19), versions 2 to 7.

The controller creates the topics: with a number of partitions and replicas (-1: its defaults) or a manual
assignment, and with settings. Each topic succeeds or fails on its own. `validate_only` decides and writes
nothing. The response is sent once the records are committed. v4 adds defaults with -1; v5 returns the
settings and counts of the topic; v6 adds quota errors; v7 returns its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.decisions import decision_for
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, made_of
from ottla.wire.errors import KafkaError
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 19


async def handle(
    parts: HasQuorum, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    response: CreateTopicsResponse = await decide(
        parts.quorum, decision_for(request, context.version), timeout_ms=request.timeout_ms
    )
    return response


def refuse(request: CreateTopicsRequest, error: KafkaError, version: int) -> Steps[CreateTopicsResponse]:
    topics = yield from made_of(
        request.topics,
        lambda topic: CreateTopicsResponse.CreatableTopicResult(
            name=topic.name, error_code=error.code, error_message=error.message
        ),
    )
    return CreateTopicsResponse(topics=topics)


API = Api(KEY, handle, refuse=refuse)
