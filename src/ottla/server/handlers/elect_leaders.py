"""ElectLeaders (43), versions 0 to 2.

Elects the preferred leaders of partitions, or (v1, unclean) any live replica if none is in sync: of the named
partitions, or of all if the list is null. v1 adds an error code for the whole.
"""

from __future__ import annotations

from copy import copy
from typing import Protocol

from ottla.controller.elections import elect_leaders
from ottla.server.handlers.common import decide_in_parts
from ottla.server.handlers.offset_common import in_parts
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasClock, HasQuorum, HasStepRunner
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

KEY = 43


class Parts(HasQuorum, HasStepRunner, HasClock, Protocol):
    """The parts of a node that ElectLeaders needs."""


async def handle(parts: Parts, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    pieces = await parts.step_runner.run(_parts(request))
    answers = await decide_in_parts(parts, pieces, elect_leaders, timeout_ms=request.timeout_ms)
    return _joined(answers)


def _parts(request: ElectLeadersRequest) -> Steps[list[ElectLeadersRequest]]:
    """Split a request with many partitions into several."""
    if request.topic_partitions is None:
        return [request]
    pieces = []
    for topics in (yield from in_parts(request.topic_partitions)):
        part = copy(request)
        part.topic_partitions = topics
        pieces.append(part)
    return pieces or [request]


def _joined(answers: list[ElectLeadersResponse]) -> ElectLeadersResponse:
    """Merge the responses; a topic whose partitions are in several of them becomes one topic again."""
    whole = answers[0]
    for answer in answers[1:]:
        rest = answer.replica_election_results
        last = whole.replica_election_results[-1] if whole.replica_election_results else None
        if last is not None and rest and rest[0].topic == last.topic:
            last.partition_result += rest[0].partition_result
            rest = rest[1:]
        whole.replica_election_results += rest
    return whole


def refuse(request: ElectLeadersRequest, error: KafkaError, version: int) -> ElectLeadersResponse:
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


API = Api(KEY, handle, refuse=refuse)
