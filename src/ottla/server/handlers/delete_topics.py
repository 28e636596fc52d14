"""DeleteTopics (20), versions 1 to 6.

Topics are removed by the controller, by name or (v6) by id; their replicas go once the records are
committed, which is when the answer leaves. With `delete.topic.enable=false` all are refused:
TOPIC_DELETION_DISABLED, and INVALID_REQUEST before v3. v5 error messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.topics import delete_topics
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 20

_Result = DeleteTopicsResponse.DeletableTopicResult


async def handle(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    try:
        return await decide(
            broker,
            lambda state: delete_topics(state, request, context.version),
            timeout_ms=request.timeout_ms,
        )
    except KafkaError as error:
        results = [_Result(name=name, error_code=error.code) for name in request.topic_names]
        results += [
            _Result(name=topic.name, topic_id=topic.topic_id, error_code=error.code)
            for topic in request.topics
        ]
        return DeleteTopicsResponse(responses=results)


API = Api(KEY, handle)
