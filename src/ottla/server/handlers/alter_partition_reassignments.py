"""AlterPartitionReassignments (45), versions 0 to 1.

Starts to move partitions to other brokers, or cancels a move where the replicas are null. Each partition
succeeds or fails by itself. v1 may forbid that the replication factor changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.reassignments import alter_partition_reassignments
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.common import decide
from ottla.wire.errors import KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 45


async def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    try:
        return await decide(
            broker, lambda state: alter_partition_reassignments(state, request), timeout_ms=request.timeout_ms
        )
    except KafkaError as error:
        return _refused(request, error)


def _refused(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
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


API = Api(KEY, handle)
