"""RemoveRaftVoter (81), version 0.

Removes a voter, given by its id and directory, from the metadata quorum. A leader that removes itself resigns
once that is committed. VOTER_NOT_FOUND if there is no such voter or it is the last one, UNSUPPORTED_VERSION
in a static quorum, REQUEST_TIMED_OUT while another change is in progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.raft.messages import VoterChangeRefused
from ottla.server.handlers.quorum_requests import change_asked_for
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from ottla.server.handlers.quorum_requests import VoterParts

KEY = 81


async def handle(
    parts: VoterParts, request: RemoveRaftVoterRequest, context: RequestContext
) -> RemoveRaftVoterResponse:
    try:
        changes, key = change_asked_for(parts, request, "Remove")
        await changes.remove(key)
    except VoterChangeRefused as refused:
        return RemoveRaftVoterResponse(error_code=refused.code, error_message=refused.message)
    return RemoveRaftVoterResponse(error_message=None)


API = Api(KEY, handle)
