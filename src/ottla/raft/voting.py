"""Elections: who gets this replica's vote, and how this replica asks for votes itself.

A prospective candidate first asks in its own epoch whether a majority would vote for it (pre-vote). Only then
does it become a candidate in a new epoch, so that a replica that was partitioned disturbs no leader.
"""

from __future__ import annotations

from ottla.raft import leading
from ottla.raft.effects import PersistElection, SendRequest
from ottla.raft.election_state import EPOCH_MAX, NOBODY
from ottla.raft.following import check_peer, discover_leader, new_follower
from ottla.raft.messages import Vote
from ottla.raft.quorum_state import QuorumState
from ottla.raft.roles import Candidate, Follower, Leader, Prospective, Unattached, Votes
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode

# Voting for others


def on_vote_request(quorum: QuorumState, vote: Vote, now_ms: int) -> tuple[ErrorCode, bool]:
    """An error, or whether the vote is granted."""
    is_illegal = vote.last_epoch > vote.epoch if vote.is_pre_vote else vote.last_epoch >= vote.epoch
    if vote.last_offset < 0 or vote.last_epoch < 0 or is_illegal:
        return ErrorCode.INVALID_REQUEST, False
    error = check_peer(quorum, vote.epoch, vote.candidate.id)
    if error is not ErrorCode.NONE:
        return error, False
    discover_leader(quorum, NOBODY, vote.epoch, now_ms)
    if not quorum.is_receiver(vote.receiver):
        return ErrorCode.INVALID_VOTER_KEY, False
    is_granted = vote.epoch == quorum.role.epoch and _can_grant(quorum, vote)
    if is_granted and not vote.is_pre_vote and quorum.role.election.voted is None:
        _record_own_vote(quorum, vote, now_ms)
    return ErrorCode.NONE, is_granted


def _can_grant(quorum: QuorumState, vote: Vote) -> bool:
    role = quorum.role
    is_up_to_date = (vote.last_epoch, vote.last_offset) >= quorum.flushed_end
    if isinstance(role, Leader):
        return False
    if vote.is_pre_vote:
        return is_up_to_date and not (isinstance(role, Follower) and role.has_fetched)
    if not isinstance(role, (Unattached, Prospective)):
        return False
    if role.voted is not None:
        return role.voted.id == vote.candidate.id and (
            role.voted.directory_id in (uuid.ZERO, vote.candidate.directory_id)
        )
    return role.leader_id == NOBODY and is_up_to_date


def _record_own_vote(quorum: QuorumState, vote: Vote, now_ms: int) -> None:
    role = quorum.role
    deadline_ms = quorum.election_deadline(now_ms)  # the candidate has at least as good a chance
    if isinstance(role, Unattached):
        quorum.become(Unattached(role.epoch, deadline_ms, role.leader_id, vote.candidate))
    elif isinstance(role, Prospective):
        role.voted, role.deadline_ms = vote.candidate, deadline_ms
        quorum.emit(PersistElection(role.election))


# Asking for votes


def become_prospective(quorum: QuorumState, now_ms: int) -> None:
    role = quorum.role
    votes = Votes(quorum.voters.last, granted={quorum.local_id})
    election = role.election
    leader_id = NOBODY if election.leader_id == quorum.local_id else election.leader_id
    deadline_ms = quorum.election_deadline(now_ms)
    prospective = Prospective(role.epoch, deadline_ms, votes, leader_id, election.voted)
    quorum.become(prospective, is_durable=False)
    if votes.is_won:
        become_candidate(quorum, now_ms)
    else:
        request_votes(quorum, prospective, now_ms)


def become_candidate(quorum: QuorumState, now_ms: int) -> None:
    role, deadline_ms = quorum.role, quorum.election_deadline(now_ms)
    if role.epoch >= EPOCH_MAX:  # no election is possible any more
        quorum.become(Unattached(role.epoch, deadline_ms, voted=role.election.voted))
        return
    candidate = Candidate(role.epoch + 1, deadline_ms, Votes(quorum.voters.last), quorum.local.key)
    quorum.become(candidate)
    start_campaign(quorum, candidate, now_ms)


def start_campaign(quorum: QuorumState, candidate: Candidate, now_ms: int) -> None:
    """A candidate votes for itself and asks the other voters."""
    if quorum.is_voter:
        candidate.votes.granted.add(quorum.local_id)
    if candidate.votes.is_won:
        leading.become_leader(quorum, candidate, now_ms)
    else:
        request_votes(quorum, candidate, now_ms)


def request_votes(quorum: QuorumState, role: Prospective | Candidate, now_ms: int) -> None:
    role.resend_ms = now_ms + quorum.timeouts.resend_ms
    if role.votes.is_lost or not quorum.is_voter:
        role.resend_ms = role.deadline_ms  # it can no longer win, and waits for the end of its election
        return
    is_pre_vote = isinstance(role, Prospective)
    last_epoch, last_offset = quorum.flushed_end
    for voter in role.votes.unrecorded:
        vote = Vote(role.epoch, quorum.local.key, last_epoch, last_offset, is_pre_vote, voter.key)
        quorum.emit(SendRequest(voter.key.id, vote))


def on_vote_response(
    quorum: QuorumState, voter_id: int, request: Vote, is_granted: bool, now_ms: int
) -> None:
    role = quorum.role
    if not isinstance(role, Prospective if request.is_pre_vote else Candidate):
        return
    assert isinstance(role, (Prospective, Candidate))
    votes = role.votes
    if votes.voters.get(voter_id) is None:
        return
    votes.record(voter_id, is_granted=is_granted)
    if votes.is_won:
        if isinstance(role, Candidate):
            leading.become_leader(quorum, role, now_ms)
        else:
            become_candidate(quorum, now_ms)
    elif votes.is_lost and isinstance(role, Prospective):
        _end_pre_vote(quorum, role, now_ms)


def on_pre_vote_unsupported(quorum: QuorumState, request: Vote, now_ms: int) -> None:
    """A voter that does not know pre-votes is asked for its vote instead."""
    role = quorum.role
    if isinstance(role, Prospective) and request.is_pre_vote and request.epoch == role.epoch:
        become_candidate(quorum, now_ms)


def on_election_timer(quorum: QuorumState, role: Prospective | Candidate, now_ms: int) -> None:
    if now_ms < role.deadline_ms:
        request_votes(quorum, role, now_ms)
    elif not quorum.is_voter:
        quorum.become(Unattached(role.epoch, quorum.election_deadline(now_ms), voted=role.voted))
    elif isinstance(role, Candidate):
        become_prospective(quorum, now_ms)
    else:
        _end_pre_vote(quorum, role, now_ms)


def _end_pre_vote(quorum: QuorumState, role: Prospective, now_ms: int) -> None:
    """The pre-vote failed and changed nothing: follow the leader again if one is known."""
    if role.leader_id != NOBODY:
        quorum.become(new_follower(quorum, role.epoch, role.leader_id, role.voted, now_ms))
    else:
        quorum.become(Unattached(role.epoch, quorum.election_deadline(now_ms), voted=role.voted))
