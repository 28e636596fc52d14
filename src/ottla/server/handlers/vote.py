"""Vote (52), versions 0 to 2, on controller listeners.

A replica asks for a vote, or (v2, pre-vote) whether it would get one. The response is sent once the vote is
on disk. The only voter of a quorum never votes for another. v1 names the receiving voter and its directory:
INVALID_VOTER_KEY if it is not this one.
"""

from __future__ import annotations

from typing import Protocol

from ottla.raft.messages import Vote
from ottla.raft.metadata_log import TOPIC
from ottla.raft.voters import ReplicaKey
from ottla.server.handlers.quorum_requests import (
    asked_replica,
    is_of_this_cluster,
    leader_endpoints,
    only_partition,
    receiver_of,
)
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasClusterId, HasQuorum
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.vote import VoteRequest, VoteResponse

KEY = 52


class Parts(HasClusterId, HasQuorum, Protocol):
    """The parts of a node that Vote needs."""


async def handle(parts: Parts, request: VoteRequest, context: RequestContext) -> VoteResponse | None:
    if not is_of_this_cluster(parts, request.cluster_id):
        return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = only_partition(request.topics)
    if asked is None:
        return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
    vote = Vote(
        asked.replica_epoch,
        ReplicaKey(asked.replica_id, asked.replica_directory_id),
        asked.last_offset_epoch,
        asked.last_offset,
        asked.pre_vote,
        receiver_of(request.voter_id, asked.voter_directory_id),
    )
    answer = await asked_replica(parts.quorum, vote)
    if answer is None:
        return None
    part = VoteResponse.PartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        vote_granted=answer.is_granted,
    )
    response = VoteResponse(topics=[VoteResponse.TopicData(topic_name=TOPIC, partitions=[part])])
    if context.version >= 1:
        response.node_endpoints = leader_endpoints(parts.quorum, context, VoteResponse.NodeEndpoint)
    return response


API = Api(KEY, handle)
