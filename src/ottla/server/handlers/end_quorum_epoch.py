"""EndQuorumEpoch (54), versions 0 to 1, on controller listeners.

A leader that stops tells that its epoch is over. The only voter of a quorum has no other leader than
itself: whoever says otherwise counts other voters than this replica does (INCONSISTENT_VOTER_SET). v1 says
where the leader is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.raft.journal import TOPIC
from ottla.raft.requests import judge_leader
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.raft_common import (
    is_of_this_cluster,
    leader_endpoints,
    only_partition,
    replica_of,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 54


def handle(broker: Broker, request: EndQuorumEpochRequest, context: RequestContext) -> EndQuorumEpochResponse:
    if not is_of_this_cluster(broker, request.cluster_id):
        return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = only_partition(request.topics)
    if asked is None:
        return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    replica = replica_of(broker)
    error = judge_leader(replica, epoch=asked.leader_epoch, leader_id=asked.leader_id)
    answer = EndQuorumEpochResponse.PartitionData(
        partition_index=0, error_code=error, leader_id=replica.leader_id, leader_epoch=replica.epoch
    )
    response = EndQuorumEpochResponse(
        topics=[EndQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[answer])]
    )
    if context.version >= 1:
        response.node_endpoints = leader_endpoints(broker, context, EndQuorumEpochResponse.NodeEndpoint)
    return response


API = Api(KEY, handle)
