"""RemoveRaftVoter (81), version 0.

Lets a voter of the metadata quorum, named by its id and its directory, vote no more. A leader that removes
itself resigns once that is committed. VOTER_NOT_FOUND if there is no such voter or it is the last one,
UNSUPPORTED_VERSION in a static quorum, REQUEST_TIMED_OUT while another change is under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.raft.messages import VoterChangeRefused
from ottla.raft.voters import ReplicaKey
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.raft_common import is_of_this_cluster, voter_changes
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 81


async def handle(
    broker: Broker, request: RemoveRaftVoterRequest, context: RequestContext
) -> RemoveRaftVoterResponse:
    if not is_of_this_cluster(broker, request.cluster_id):
        return RemoveRaftVoterResponse(
            error_code=ErrorCode.INCONSISTENT_CLUSTER_ID,
            error_message=f'The given id "{request.cluster_id}" doesn\'t match the cluster id '
            f'"{broker.cluster_id}"',
        )
    try:
        changes = voter_changes(broker)
        if request.voter_id < 0 or request.voter_directory_id == uuid.ZERO:
            raise VoterChangeRefused(
                ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter"
            )
        await changes.remove(ReplicaKey(request.voter_id, request.voter_directory_id))
    except VoterChangeRefused as refused:
        return RemoveRaftVoterResponse(error_code=refused.code, error_message=refused.message)
    return RemoveRaftVoterResponse(error_message=None)


API = Api(KEY, handle)
