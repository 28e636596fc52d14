"""DeleteTopics (20), versions 1 to 6.

The controller deletes the topics, by name or (v6) by id; the brokers delete their replicas once the records
are committed, which is when the response is sent. With `delete.topic.enable=false` all are rejected:
TOPIC_DELETION_DISABLED, and INVALID_REQUEST before v3. v5 adds error messages.
"""

from __future__ import annotations

from typing import Protocol

from ottla.controller.topics import Deleted, read_deletion, remove_topics
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, made_of
from ottla.server.parts import HasQuorum, HasStepRunner
from ottla.wire.errors import KafkaError
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

KEY = 20

_Result = DeleteTopicsResponse.DeletableTopicResult


class Parts(HasQuorum, HasStepRunner, Protocol):
    """The parts of a node that DeleteTopics needs."""


async def handle(parts: Parts, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    run = parts.step_runner.run
    wanted = await run(read_deletion(request))
    deleted = await decide(
        parts.quorum,
        lambda state: remove_topics(state, wanted, context.version),
        timeout_ms=request.timeout_ms,
    )
    return DeleteTopicsResponse(responses=await run(made_of(deleted, Deleted.to_answer)))


def refuse(request: DeleteTopicsRequest, error: KafkaError, version: int) -> Steps[DeleteTopicsResponse]:
    code = error.code
    by_name = yield from made_of(request.topic_names, lambda name: _Result(name=name, error_code=code))
    results = yield from made_of(
        request.topics,
        lambda topic: _Result(name=topic.name, topic_id=topic.topic_id, error_code=code),
    )
    return DeleteTopicsResponse(responses=by_name + results)


API = Api(KEY, handle, refuse=refuse)
