"""AddRaftVoter (80), versions 0 to 1.

Makes an observer of the metadata quorum a voter; it must have caught up and report the levels of
kraft.version that it supports. UNSUPPORTED_VERSION in a static quorum, DUPLICATE_VOTER if its id is already a
voter, REQUEST_TIMED_OUT while another change is in progress or the node lags. v1 may ask for a response when
the change is appended, not when it is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.raft.messages import VoterChangeRefused
from ottla.raft.voters import Voter, VoterEndpoint
from ottla.server.handlers.quorum_requests import change_asked_for
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from ottla.server.handlers.quorum_requests import VoterParts

KEY = 80


async def handle(
    parts: VoterParts, request: AddRaftVoterRequest, context: RequestContext
) -> AddRaftVoterResponse:
    try:
        changes, key = change_asked_for(parts, request, "Add")
        voter = Voter(key, tuple(VoterEndpoint(one.name, one.host, one.port) for one in request.listeners))
        wants_commit = request.ack_when_committed if context.version >= 1 else True
        await changes.add(voter, wants_commit=wants_commit, timeout_ms=request.timeout_ms)
    except VoterChangeRefused as refused:
        return AddRaftVoterResponse(error_code=refused.code, error_message=refused.message)
    return AddRaftVoterResponse(error_message=None)


API = Api(KEY, handle)
