"""BeginQuorumEpoch (53), versions 0 to 1, on controller listeners.

A new leader tells that it was elected. The only voter of a quorum has no other leader than
itself: whoever says otherwise counts other voters than this replica does (INCONSISTENT_VOTER_SET). v1 says
where the leader is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.raft.journal import TOPIC
from ottla.raft.requests import is_addressed_to, judge_leader
from ottla.raft.voters import ReplicaKey
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.raft_common import (
    is_of_this_cluster,
    leader_endpoints,
    only_partition,
    replica_of,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 53


def handle(
    broker: Broker, request: BeginQuorumEpochRequest, context: RequestContext
) -> BeginQuorumEpochResponse:
    if not is_of_this_cluster(broker, request.cluster_id):
        return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = only_partition(request.topics)
    if asked is None:
        return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    replica = replica_of(broker)
    error = judge_leader(replica, epoch=asked.leader_epoch, leader_id=asked.leader_id)
    receiver = None if request.voter_id < 0 else ReplicaKey(request.voter_id, asked.voter_directory_id)
    if error is ErrorCode.NONE and not is_addressed_to(replica, receiver):
        error = ErrorCode.INVALID_VOTER_KEY
    answer = BeginQuorumEpochResponse.PartitionData(
        partition_index=0, error_code=error, leader_id=replica.leader_id, leader_epoch=replica.epoch
    )
    response = BeginQuorumEpochResponse(
        topics=[BeginQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[answer])]
    )
    if context.version >= 1:
        response.node_endpoints = leader_endpoints(broker, context, BeginQuorumEpochResponse.NodeEndpoint)
    return response


API = Api(KEY, handle)
