"""A follower: it discovers who leads which epoch, and keeps that leader informed about this voter.

Messages of an older epoch than this replica's change nothing.
"""

from __future__ import annotations

from ottla.raft.effects import HighWatermarkAdvanced, SendRequest
from ottla.raft.election_state import EPOCH_JUMP_MAX, NOBODY
from ottla.raft.events import HighWatermarkReceived, LeaderDiscovered, LeaderResponded
from ottla.raft.messages import BeginEpoch, EndEpoch, UpdateVoter
from ottla.raft.quorum_state import QuorumState
from ottla.raft.roles import Follower, Leader, Unattached
from ottla.raft.voters import ReplicaKey
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode


def on_leader_discovered(quorum: QuorumState, event: LeaderDiscovered) -> None:
    discover_leader(quorum, event.leader_id, event.epoch, event.now_ms)
    quorum.announce_leader()


def discover_leader(quorum: QuorumState, leader_id: int, epoch: int, now_ms: int) -> None:
    """Another replica names the leader of an epoch, or -1."""
    role = quorum.role
    if epoch < role.epoch or quorum.is_only_voter_leading:
        return
    if leader_id == quorum.local_id:
        leader_id = NOBODY  # this replica led that epoch before its restart
    if leader_id == NOBODY:
        if epoch > role.epoch:
            quorum.become(Unattached(epoch, quorum.unattached_deadline(now_ms)))
    elif epoch > role.epoch or role.leader_id == NOBODY or isinstance(role, Unattached):
        voted = role.election.voted if epoch == role.epoch else None
        quorum.become(new_follower(quorum, epoch, leader_id, voted, now_ms))


def new_follower(
    quorum: QuorumState, epoch: int, leader_id: int, voted: ReplicaKey | None, now_ms: int
) -> Follower:
    fetch_deadline_ms = now_ms + quorum.timeouts.fetch_ms
    return Follower(epoch, fetch_deadline_ms, leader_id, voted, update_voter_ms=fetch_deadline_ms)


def on_leader_responded(quorum: QuorumState, event: LeaderResponded) -> None:
    role = quorum.role
    if isinstance(role, Follower):
        role.deadline_ms = event.now_ms + quorum.timeouts.fetch_ms
        role.has_fetched = True


def on_high_watermark_received(quorum: QuorumState, event: HighWatermarkReceived) -> None:
    offset = min(event.high_watermark, event.end_offset)
    if isinstance(quorum.role, Leader) or offset <= quorum.leader_high_watermark:
        return
    quorum.leader_high_watermark = offset
    quorum.emit(HighWatermarkAdvanced(offset))


# Requests of leaders


def on_begin_epoch(quorum: QuorumState, request: BeginEpoch, now_ms: int) -> ErrorCode:
    error = _on_leader_request(quorum, request, now_ms)
    if error is ErrorCode.NONE and not quorum.is_receiver(request.receiver):
        return ErrorCode.INVALID_VOTER_KEY
    return error


def on_end_epoch(quorum: QuorumState, request: EndEpoch, now_ms: int) -> ErrorCode:
    error = _on_leader_request(quorum, request, now_ms)
    role = quorum.role
    if error is ErrorCode.NONE and isinstance(role, Follower) and role.leader_id == request.leader_id:
        role.deadline_ms = now_ms + _successor_backoff_ms(quorum, request.successors)
    return error


def _on_leader_request(quorum: QuorumState, request: BeginEpoch | EndEpoch, now_ms: int) -> ErrorCode:
    error = check_peer(quorum, request.epoch, request.leader_id)
    if error is not ErrorCode.NONE:
        return error
    role = quorum.role
    is_other_leader = request.epoch == role.epoch and role.leader_id not in (NOBODY, request.leader_id)
    if request.leader_id != quorum.local_id and (quorum.is_only_voter_leading or is_other_leader):
        return ErrorCode.INCONSISTENT_VOTER_SET
    discover_leader(quorum, request.leader_id, request.epoch, now_ms)
    return ErrorCode.NONE


def check_peer(quorum: QuorumState, epoch: int, peer_id: int) -> ErrorCode:
    """Whether a replica may send a request in this epoch."""
    if epoch < quorum.role.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    # One damaged or forged request must not use up the epochs, nor bring the quorum close to their end.
    is_jump_too_far = epoch - quorum.role.epoch > EPOCH_JUMP_MAX
    return ErrorCode.INVALID_REQUEST if peer_id < 0 or is_jump_too_far else ErrorCode.NONE


def _successor_backoff_ms(quorum: QuorumState, successors: tuple[ReplicaKey, ...]) -> int:
    """How long to wait after the leader has resigned, so that preferred successors go first."""
    longest_ms = quorum.timeouts.backoff_max_ms
    for position, key in enumerate(successors):
        if quorum.local.key.matches(key):
            if position == 0:
                return 0
            return min(longest_ms, (longest_ms >> (len(successors) - 1)) << (position - 1))
    return longest_ms if successors else 0


# What the leader knows of this voter


def send_update(quorum: QuorumState, role: Follower, now_ms: int) -> None:
    """Send UpdateVoter if the leader may not know the endpoints and levels of this voter."""
    role.update_voter_ms = now_ms + quorum.timeouts.fetch_ms
    known = quorum.voters.last.get(quorum.local_id)
    is_known = known == quorum.local if quorum.kraft_version.last else role.has_updated_leader
    if not is_known and quorum.local.endpoints and quorum.local.key.directory_id != uuid.ZERO:
        quorum.emit(SendRequest(role.leader_id, UpdateVoter(role.epoch, quorum.local)))


def on_update_accepted(quorum: QuorumState) -> None:
    if isinstance(quorum.role, Follower):
        quorum.role.has_updated_leader = True
