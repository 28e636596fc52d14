"""ElectLeaders (43), versions 0 to 2.

Gives partitions their preferred leader back, or (v1, unclean) any live replica where none is in sync: those
that are named, or all where the list is null. v1 an error code for the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.elections import elect_leaders
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.common import decide
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 43


async def handle(
    broker: Broker, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    try:
        return await decide(
            broker, lambda state: elect_leaders(state, request), timeout_ms=request.timeout_ms
        )
    except KafkaError as error:
        return _refused(request, error, context.version)


def _refused(request: ElectLeadersRequest, error: KafkaError, version: int) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code if version >= 1 else ErrorCode.NONE,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    ElectLeadersResponse.PartitionResult(
                        partition_id=index, error_code=error.code, error_message=error.message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


API = Api(KEY, handle)
