"""When each role acts without being asked, and what it does then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.raft import following, leading, voting
from ottla.raft.events import TimePassed
from ottla.raft.quorum_state import QuorumState
from ottla.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached


def deadline_ms(quorum: QuorumState) -> int | None:
    """When `TimePassed` has an effect; None: never, unless another event comes first."""
    role = quorum.role
    return _DEADLINES[type(role)](quorum, role)


def _leader_deadline(quorum: QuorumState, leader: Leader) -> int | None:
    if leader.progress.keys() <= {quorum.local_id}:
        return None  # there is no other voter
    return min(leader.check_quorum_ms, leader.begin_epoch_ms)


def _resigned_deadline(quorum: QuorumState, resigned: Resigned) -> int:
    if resigned.unacknowledged:
        return min(resigned.deadline_ms, resigned.resend_ms)
    return resigned.deadline_ms


def _election_deadline(quorum: QuorumState, role: Prospective | Candidate) -> int:
    return min(role.deadline_ms, role.resend_ms) if quorum.is_voter else role.deadline_ms


def _follower_deadline(quorum: QuorumState, follower: Follower) -> int | None:
    return min(follower.deadline_ms, follower.update_voter_ms) if quorum.is_voter else None


def _unattached_deadline(quorum: QuorumState, unattached: Unattached) -> int | None:
    return unattached.deadline_ms if quorum.is_voter else None


def on_time_passed(quorum: QuorumState, event: TimePassed) -> None:
    due_ms = deadline_ms(quorum)
    if due_ms is None or event.now_ms < due_ms:
        return
    role = quorum.role
    _TIMERS[type(role)](quorum, role, event.now_ms)
    quorum.announce_leader()


def _on_follower_timer(quorum: QuorumState, follower: Follower, now_ms: int) -> None:
    if now_ms >= follower.deadline_ms:
        voting.become_prospective(quorum, now_ms)
    else:
        following.send_update(quorum, follower, now_ms)


def _on_unattached_timer(quorum: QuorumState, unattached: Unattached, now_ms: int) -> None:
    voting.become_prospective(quorum, now_ms)


_DEADLINES: dict[type[Role], Callable[[QuorumState, Any], int | None]] = {
    Unattached: _unattached_deadline,
    Prospective: _election_deadline,
    Candidate: _election_deadline,
    Leader: _leader_deadline,
    Follower: _follower_deadline,
    Resigned: _resigned_deadline,
}
_TIMERS: dict[type[Role], Callable[[QuorumState, Any, int], None]] = {
    Unattached: _on_unattached_timer,
    Prospective: voting.on_election_timer,
    Candidate: voting.on_election_timer,
    Leader: leading.on_leader_timer,
    Follower: _on_follower_timer,
    Resigned: leading.on_resigned_timer,
}
