"""Vote (52), versions 0 to 2, on controller listeners.

A replica asks to be elected, or (v2, pre-vote) whether it would be. The only voter of a quorum never votes
for another. v1 names the voter that is asked, and its directory: INVALID_VOTER_KEY if it is not this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.raft.journal import TOPIC
from ottla.raft.requests import is_addressed_to, judge_vote
from ottla.raft.voters import ReplicaKey
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.raft_common import (
    is_of_this_cluster,
    leader_endpoints,
    only_partition,
    replica_of,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 52


def handle(broker: Broker, request: VoteRequest, context: RequestContext) -> VoteResponse:
    if not is_of_this_cluster(broker, request.cluster_id):
        return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = only_partition(request.topics)
    if asked is None:
        return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
    replica = replica_of(broker)
    error = judge_vote(
        replica,
        epoch=asked.replica_epoch,
        candidate_id=asked.replica_id,
        last_epoch=asked.last_offset_epoch,
        last_offset=asked.last_offset,
        is_pre_vote=asked.pre_vote,
    )
    receiver = None if request.voter_id < 0 else ReplicaKey(request.voter_id, asked.voter_directory_id)
    if error is ErrorCode.NONE and not is_addressed_to(replica, receiver):
        error = ErrorCode.INVALID_VOTER_KEY
    answer = VoteResponse.PartitionData(
        partition_index=0, error_code=error, leader_id=replica.leader_id, leader_epoch=replica.epoch
    )
    response = VoteResponse(topics=[VoteResponse.TopicData(topic_name=TOPIC, partitions=[answer])])
    if context.version >= 1:
        response.node_endpoints = leader_endpoints(broker, context, VoteResponse.NodeEndpoint)
    return response


API = Api(KEY, handle)
