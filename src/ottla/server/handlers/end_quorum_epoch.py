"""EndQuorumEpoch (54), versions 0 to 1, on controller listeners.

A leader that resigns announces the end of its epoch, and the preferred candidates. The only voter of a quorum
accepts no leader but itself: a sender that claims otherwise has another voter set (INCONSISTENT_VOTER_SET).
v1 names candidates with their directories, and contains the leader's endpoints.
"""

from __future__ import annotations

from typing import Protocol

from ottla.raft.messages import EndEpoch
from ottla.raft.metadata_log import TOPIC
from ottla.raft.voters import ReplicaKey
from ottla.server.handlers.quorum_requests import (
    asked_replica,
    is_of_this_cluster,
    leader_endpoints,
    learn_endpoints,
    only_partition,
)
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasClusterId, HasQuorum
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

KEY = 54


class Parts(HasClusterId, HasQuorum, Protocol):
    """The parts of a node that EndQuorumEpoch needs."""


async def handle(
    parts: Parts, request: EndQuorumEpochRequest, context: RequestContext
) -> EndQuorumEpochResponse | None:
    if not is_of_this_cluster(parts, request.cluster_id):
        return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = only_partition(request.topics)
    if asked is None:
        return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    if context.version >= 1:
        successors = [
            ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in asked.preferred_candidates
        ]
    else:
        successors = [ReplicaKey(node_id) for node_id in asked.preferred_successors]
    end = EndEpoch(asked.leader_id, asked.leader_epoch, tuple(successors))
    answer = await asked_replica(parts.quorum, end)
    if answer is None:
        return None
    if answer.error == ErrorCode.NONE:
        learn_endpoints(parts.quorum, context, asked.leader_id, request.leader_endpoints)
    part = EndQuorumEpochResponse.PartitionData(
        partition_index=0, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    response = EndQuorumEpochResponse(
        topics=[EndQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[part])]
    )
    if context.version >= 1:
        response.node_endpoints = leader_endpoints(parts.quorum, context, EndQuorumEpochResponse.NodeEndpoint)
    return response


API = Api(KEY, handle)
