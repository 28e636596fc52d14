"""UpdateRaftVoter (82), version 0, on controller listeners.

A voter sends its endpoints and supported levels of kraft.version to its leader. A dynamic quorum stores them
in its log; the leader of a static one remembers them until the quorum becomes dynamic.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.raft.fetch_validation import refusal
from ottla.raft.messages import VoterChangeRefused
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint
from ottla.server.handlers.quorum_requests import (
    is_of_this_cluster,
    leader_endpoints,
    replica_of,
    voter_changes,
)
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasClusterId, HasQuorum
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

KEY = 82


class Parts(HasClusterId, HasQuorum, Protocol):
    """The parts of a node that UpdateRaftVoter needs."""


class _Node(NamedTuple):
    node_id: int
    host: str
    port: int


def handle(parts: Parts, request: UpdateRaftVoterRequest, context: RequestContext) -> UpdateRaftVoterResponse:
    error = ErrorCode.NONE
    try:
        _update(parts, request)
    except VoterChangeRefused as refused:
        error = refused.code
    replica = replica_of(parts.quorum)
    leader = UpdateRaftVoterResponse.CurrentLeader(leader_id=replica.leader_id, leader_epoch=replica.epoch)
    for node in leader_endpoints(parts.quorum, context, _Node):
        leader.host, leader.port = node.host, node.port
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def _update(parts: Parts, request: UpdateRaftVoterRequest) -> None:
    if not is_of_this_cluster(parts, request.cluster_id):
        raise VoterChangeRefused(ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster.")
    refused = refusal(replica_of(parts.quorum), request.current_leader_epoch)
    if refused is not None:
        raise VoterChangeRefused(refused, "This controller is not the leader of that epoch.")
    changes = voter_changes(parts.quorum)
    levels = request.k_raft_version_feature
    lowest, highest = levels.min_supported_version, levels.max_supported_version
    voter = Voter(
        ReplicaKey(request.voter_id, request.voter_directory_id),
        tuple(VoterEndpoint(one.name, one.host, one.port) for one in request.listeners),
        (lowest, highest),
    )
    is_reachable = any(one.name == changes.listener for one in voter.endpoints)
    if (
        voter.key.id < 0
        or voter.key.directory_id == uuid.ZERO
        or not is_reachable
        or not 0 <= lowest <= highest
    ):
        raise VoterChangeRefused(
            ErrorCode.INVALID_REQUEST,
            "The request lacks a valid voter id, directory id, endpoint or version range.",
        )
    changes.update(voter)


API = Api(KEY, handle)
