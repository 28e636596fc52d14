"""A leader: it starts an epoch, counts what its followers have, and resigns.

It resigns on request, when a majority has not fetched for a while, and when its removal from the voters is
committed. Until its epoch is over it then asks the other voters to elect a successor.
"""

from __future__ import annotations

from ottla.raft import follower_progress
from ottla.raft.effects import HighWatermarkAdvanced, SendRequest, StartEpoch
from ottla.raft.election_state import EPOCH_MAX
from ottla.raft.events import ReplicaFetched, ResignRequested, SnapshotFetched
from ottla.raft.messages import BeginEpoch, EndEpoch
from ottla.raft.quorum_state import BOOTSTRAP_OFFSET, QuorumState
from ottla.raft.roles import Candidate, Leader, Progress, Resigned, Unattached
from ottla.raft.voters import VoterSet


def become_leader(quorum: QuorumState, candidate: Candidate, now_ms: int) -> None:
    voters = quorum.voters.last
    leader = Leader(
        candidate.epoch,
        quorum.local_id,
        quorum.end.offset,
        frozenset(candidate.votes.granted),
        {voter.key.id: Progress() for voter in voters},
        check_quorum_ms=now_ms + quorum.timeouts.check_quorum_ms,
        begin_epoch_ms=now_ms + quorum.timeouts.begin_epoch_ms,
    )
    if quorum.kraft_version.last == 0:
        leader.reported_voters = voters.updated(quorum.local)
    quorum.become(leader)
    new_voters = _voters_to_append(quorum)
    quorum.emit(
        StartEpoch(
            leader.epoch,
            leader.leader_id,
            tuple(voters.ids),
            tuple(sorted(leader.granting)),
            None if new_voters is None else quorum.kraft_version.last,
            new_voters,
        )
    )
    for voter in voters:
        if voter.key.id != quorum.local_id:
            quorum.emit(SendRequest(voter.key.id, BeginEpoch(leader.leader_id, leader.epoch, voter.key)))


def _voters_to_append(quorum: QuorumState) -> VoterSet | None:
    """The voters, if the log of a dynamic quorum does not describe them as they are."""
    if quorum.kraft_version.last == 0:
        return None
    voters = quorum.voters.last
    if quorum.voters.last_offset == BOOTSTRAP_OFFSET or voters.get(quorum.local_id) != quorum.local:
        return voters.updated(quorum.local)
    return None


# Followers


def on_replica_fetched(quorum: QuorumState, event: ReplicaFetched) -> None:
    leader, key, now_ms = quorum.leader_role, event.key, event.now_ms
    if leader is None or key.id < 0 or key.id == quorum.local_id:
        return
    end_offset = quorum.flushed_end.offset
    if not quorum.voters.last.is_voter(key):
        follower_progress.record_observer_fetch(leader, key, event.offset, end_offset, now_ms)
        return
    follower_progress.record_fetch(leader.progress[key.id], event.offset, end_offset, now_ms)
    record_contact(quorum, leader, key.id, now_ms)
    advance_high_watermark(quorum, leader, now_ms)


def on_snapshot_fetched(quorum: QuorumState, event: SnapshotFetched) -> None:
    leader, key = quorum.leader_role, event.key
    if leader is not None and key.id != quorum.local_id and quorum.voters.last.is_voter(key):
        record_contact(quorum, leader, key.id, event.now_ms)


def record_contact(quorum: QuorumState, leader: Leader, voter_id: int, now_ms: int) -> None:
    timeout_ms = quorum.timeouts.check_quorum_ms
    follower_progress.record_contact(leader, quorum.local_id, voter_id, now_ms, timeout_ms)


def advance_high_watermark(quorum: QuorumState, leader: Leader, now_ms: int) -> None:
    offset = follower_progress.committed_offset(leader)
    if offset is None:
        return
    leader.high_watermark = offset
    quorum.emit(HighWatermarkAdvanced(offset))
    voters_offset = quorum.voters.last_offset
    if not quorum.is_voter and (voters_offset is None or voters_offset < offset):
        resign(quorum, leader, now_ms)  # its removal is committed
        quorum.announce_leader()


# Timers


def on_leader_timer(quorum: QuorumState, leader: Leader, now_ms: int) -> None:
    if now_ms >= leader.check_quorum_ms:
        resign(quorum, leader, now_ms)
        return
    interval_ms = quorum.timeouts.begin_epoch_ms
    leader.begin_epoch_ms = now_ms + interval_ms
    own_id, voters = quorum.local_id, quorum.voters.last
    for voter in follower_progress.silent_voters(leader, own_id, voters, now_ms, interval_ms):
        quorum.emit(SendRequest(voter.key.id, BeginEpoch(own_id, leader.epoch, voter.key)))


def on_resigned_timer(quorum: QuorumState, resigned: Resigned, now_ms: int) -> None:
    if now_ms < resigned.deadline_ms:
        send_end_epoch(quorum, resigned, now_ms)
        return
    epoch = min(resigned.epoch + 1, EPOCH_MAX)
    # It led the last epoch, so in that epoch it votes for no other candidate.
    voted = quorum.local.key if epoch == resigned.epoch else None
    quorum.become(Unattached(epoch, quorum.election_deadline(now_ms), voted=voted))


# Resigning


def on_resign_requested(quorum: QuorumState, event: ResignRequested) -> None:
    leader = quorum.leader_role
    if leader is not None:
        resign(quorum, leader, event.now_ms)


def resign(quorum: QuorumState, leader: Leader, now_ms: int) -> None:
    own_id = quorum.local_id
    successors = follower_progress.preferred_successors(leader, own_id, quorum.voters.last)
    unacknowledged = {key.id for key in successors}
    deadline_ms = quorum.election_deadline(now_ms)
    resigned = Resigned(leader.epoch, deadline_ms, own_id, successors, unacknowledged)
    quorum.become(resigned)
    send_end_epoch(quorum, resigned, now_ms)


def send_end_epoch(quorum: QuorumState, resigned: Resigned, now_ms: int) -> None:
    resigned.resend_ms = now_ms + quorum.timeouts.resend_ms
    request = EndEpoch(resigned.leader_id, resigned.epoch, resigned.successors)
    for voter_id in sorted(resigned.unacknowledged):
        quorum.emit(SendRequest(voter_id, request))


def on_end_epoch_acknowledged(quorum: QuorumState, voter_id: int) -> None:
    if isinstance(quorum.role, Resigned):
        quorum.role.unacknowledged.discard(voter_id)
