"""AlterPartitionReassignments (45), versions 0 to 1.

Starts to move partitions to other brokers, or cancels a reassignment if the replicas are null. Each partition
succeeds or fails on its own. v1 can forbid a change of the replication factor.
"""

from __future__ import annotations

from copy import copy
from typing import Protocol

from ottla.controller.reassignments import alter_partition_reassignments
from ottla.server.handlers.common import decide_in_parts
from ottla.server.handlers.offset_common import in_parts, rejoined
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasClock, HasQuorum, HasStepRunner
from ottla.wire.errors import KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

KEY = 45


class Parts(HasQuorum, HasStepRunner, HasClock, Protocol):
    """The parts of a node that AlterPartitionReassignments needs."""


async def handle(
    parts: Parts, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    pieces = await parts.step_runner.run(_parts(request))
    answers = await decide_in_parts(
        parts, pieces, alter_partition_reassignments, timeout_ms=request.timeout_ms
    )
    return _joined(answers)


def _parts(
    request: AlterPartitionReassignmentsRequest,
) -> Steps[list[AlterPartitionReassignmentsRequest]]:
    """Split a request with many partitions into several."""
    pieces = []
    for topics in (yield from in_parts(request.topics)):
        part = copy(request)
        part.topics = topics
        pieces.append(part)
    return pieces or [request]


def _joined(answers: list[AlterPartitionReassignmentsResponse]) -> AlterPartitionReassignmentsResponse:
    """Merge the responses; the error of the whole is that of the first part that has one."""
    whole = next((answer for answer in answers if answer.error_code), answers[0])
    whole.responses = rejoined([answer.responses for answer in answers], lambda topic: topic.name)
    return whole


def refuse(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, version: int
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            AlterPartitionReassignmentsResponse.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API = Api(KEY, handle, refuse=refuse)
