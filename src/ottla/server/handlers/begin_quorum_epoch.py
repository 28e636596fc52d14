"""BeginQuorumEpoch (53), versions 0 to 1, on controller listeners.

A new leader announces its election, repeatedly to voters that do not fetch. The only voter of a quorum
accepts no leader but itself: a sender that claims otherwise has another voter set (INCONSISTENT_VOTER_SET).
v1 contains the leader's endpoints.
"""

from __future__ import annotations

from typing import Protocol

from ottla.raft.messages import BeginEpoch
from ottla.raft.metadata_log import TOPIC
from ottla.server.handlers.quorum_requests import (
    asked_replica,
    is_of_this_cluster,
    leader_endpoints,
    learn_endpoints,
    only_partition,
    receiver_of,
)
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasClusterId, HasQuorum
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

KEY = 53


class Parts(HasClusterId, HasQuorum, Protocol):
    """The parts of a node that BeginQuorumEpoch needs."""


async def handle(
    parts: Parts, request: BeginQuorumEpochRequest, context: RequestContext
) -> BeginQuorumEpochResponse | None:
    if not is_of_this_cluster(parts, request.cluster_id):
        return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = only_partition(request.topics)
    if asked is None:
        return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    receiver = receiver_of(request.voter_id, asked.voter_directory_id)
    answer = await asked_replica(parts.quorum, BeginEpoch(asked.leader_id, asked.leader_epoch, receiver))
    if answer is None:
        return None
    if answer.error == ErrorCode.NONE:
        learn_endpoints(parts.quorum, context, asked.leader_id, request.leader_endpoints)
    part = BeginQuorumEpochResponse.PartitionData(
        partition_index=0, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    response = BeginQuorumEpochResponse(
        topics=[BeginQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[part])]
    )
    if context.version >= 1:
        response.node_endpoints = leader_endpoints(
            parts.quorum, context, BeginQuorumEpochResponse.NodeEndpoint
        )
    return response


API = Api(KEY, handle)
