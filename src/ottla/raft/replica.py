"""One replica of the metadata log as a state machine: `step(event)` returns effects.

It does no IO, and reads neither a clock nor a source of randomness: times come with the events, random
numbers from a callable. `roles.py` lists the transitions between roles, and `_HANDLERS` says who handles
which event. `voting.py`, `leading.py`, `following.py` and `log_progress.py` handle them on a `QuorumState`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.raft import following, leading, log_progress, role_timers, voter_changes, voting
from ottla.raft.effects import Effect, SendResponse
from ottla.raft.election_state import ElectionState
from ottla.raft.events import (
    Event,
    HighWatermarkReceived,
    KraftVersionAppended,
    LeaderDiscovered,
    LeaderResponded,
    LogAppended,
    LogFlushed,
    LogReplaced,
    LogTruncated,
    ReplicaFetched,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SnapshotFetched,
    TimePassed,
    VotersAppended,
)
from ottla.raft.messages import BeginEpoch, EndEpoch, Response, UpdateVoter, Vote
from ottla.raft.quorum_state import LogEnd, NotLeader, QuorumState, Timeouts
from ottla.raft.roles import Candidate, Follower, Resigned, Role, Unattached, Votes
from ottla.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.wire.errors import ErrorCode

__all__ = ["NotLeader", "Replica", "Timeouts"]


class Replica:
    """The quorum as one replica sees it. Before `start` it takes only the control records of its log."""

    def __init__(
        self,
        local: Voter,
        static_voters: VoterSet,
        *,
        timeouts: Timeouts,
        draw: Callable[[int], int],
    ) -> None:
        self._quorum = quorum = QuorumState(local, static_voters, timeouts, draw)
        self.local = local
        self.voters = quorum.voters
        self.kraft_version = quorum.kraft_version

    def start(self, election: ElectionState, end_offset: int, end_epoch: int, now_ms: int) -> list[Effect]:
        """Start from the disk: the last election, the end of the log, and the epoch of its last record."""
        quorum = self._quorum
        quorum.effects = []
        quorum.end = quorum.flushed_end = LogEnd(end_epoch, end_offset)
        quorum.become(_first_role(quorum, election, now_ms))
        role = quorum.role
        if quorum.is_only_voter and isinstance(role, (Unattached, Follower, Resigned)):
            voting.become_prospective(quorum, now_ms)
        elif isinstance(role, Candidate):
            voting.start_campaign(quorum, role, now_ms)
        elif isinstance(role, Resigned):
            leading.send_end_epoch(quorum, role, now_ms)
        quorum.announce_leader()
        return quorum.effects

    def step(self, event: Event) -> list[Effect]:
        """Take an event, and return its effects in the order in which they must be carried out."""
        quorum = self._quorum
        quorum.effects = []
        _HANDLERS[type(event)](quorum, event)
        return quorum.effects

    # State

    @property
    def role(self) -> Role:
        return self._quorum.role

    @property
    def is_started(self) -> bool:
        return self._quorum.is_started

    @property
    def is_leader(self) -> bool:
        return self._quorum.leader_role is not None

    def is_following(self, leader_id: int, epoch: int) -> bool:
        """Whether what this leader sent in this epoch may still change the log."""
        role = self._quorum.role
        return isinstance(role, Follower) and (role.leader_id, role.epoch) == (leader_id, epoch)

    @property
    def epoch(self) -> int:
        return self._quorum.role.epoch

    @property
    def leader_id(self) -> int:
        return self._quorum.role.leader_id

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed; -1 while that is not known."""
        return self._quorum.high_watermark

    @property
    def end_offset(self) -> int:
        """The end of the log on stable storage."""
        return self._quorum.flushed_end.offset

    @property
    def is_voter(self) -> bool:
        return self._quorum.is_voter

    @property
    def is_only_voter(self) -> bool:
        return self._quorum.is_only_voter

    @property
    def deadline_ms(self) -> int | None:
        """When `TimePassed` has an effect; None: never, unless another event comes first."""
        return role_timers.deadline_ms(self._quorum)

    # Voters that the leader may append; VoterChangeRefused if they may not change so

    def check_new_voter(self, key: ReplicaKey) -> None:
        voter_changes.check_new_voter(self._quorum, key)

    def with_voter(self, voter: Voter, now_ms: int) -> VoterSet:
        return voter_changes.with_voter(self._quorum, voter, now_ms)

    def without_voter(self, key: ReplicaKey) -> VoterSet:
        return voter_changes.without_voter(self._quorum, key)

    def with_updated_voter(self, voter: Voter, now_ms: int) -> VoterSet | None:
        """None if the log need not change."""
        return voter_changes.with_updated_voter(self._quorum, voter, now_ms)

    def with_kraft_version(self, level: int) -> VoterSet:
        """The voters to append when kraft.version rises; ValueError if one of them does not support it."""
        return voter_changes.with_kraft_version(self._quorum, level)


def _first_role(quorum: QuorumState, election: ElectionState, now_ms: int) -> Role:
    deadline_ms = quorum.election_deadline(now_ms)
    if election.epoch < quorum.end.epoch:
        return Unattached(quorum.end.epoch, deadline_ms)  # the log was copied from elsewhere
    if election.leader_id == quorum.local_id:
        return Resigned(election.epoch, deadline_ms, election.leader_id)
    if election.voted is not None and election.voted.matches(quorum.local.key):
        return Candidate(election.epoch, deadline_ms, Votes(quorum.voters.last), quorum.local.key)
    if election.leader_id in quorum.voters.last.ids:
        return following.new_follower(quorum, election.epoch, election.leader_id, election.voted, now_ms)
    return Unattached(election.epoch, deadline_ms, election.leader_id, election.voted)


# Messages of other replicas


def _on_request(quorum: QuorumState, event: RequestReceived) -> None:
    request, now_ms = event.request, event.now_ms
    is_granted = False
    if isinstance(request, Vote):
        error, is_granted = voting.on_vote_request(quorum, request, now_ms)
    elif isinstance(request, BeginEpoch):
        error = following.on_begin_epoch(quorum, request, now_ms)
    elif isinstance(request, EndEpoch):
        error = following.on_end_epoch(quorum, request, now_ms)
    else:
        raise TypeError(f"The driver of a leader handles {request}")
    quorum.announce_leader()
    role = quorum.role
    quorum.emit(SendResponse(Response(error, role.leader_id, role.epoch, is_granted)))


def _on_response(quorum: QuorumState, event: ResponseReceived) -> None:
    _handle_response(quorum, event.replica_id, event)
    quorum.announce_leader()


def _handle_response(quorum: QuorumState, replica_id: int, event: ResponseReceived) -> None:
    request, response, now_ms = event.request, event.response, event.now_ms
    if response.error is ErrorCode.UNSUPPORTED_VERSION and isinstance(request, Vote):
        voting.on_pre_vote_unsupported(quorum, request, now_ms)
        return
    if response.epoch < quorum.role.epoch or response.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
        return
    following.discover_leader(quorum, response.leader_id, response.epoch, now_ms)
    if response.error is not ErrorCode.NONE or request.epoch != quorum.role.epoch:
        return
    if isinstance(request, Vote):
        voting.on_vote_response(quorum, replica_id, request, response.is_granted, now_ms)
    elif isinstance(request, EndEpoch):
        leading.on_end_epoch_acknowledged(quorum, replica_id)
    elif isinstance(request, UpdateVoter):
        following.on_update_accepted(quorum)


_HANDLERS: dict[type[Event], Callable[[QuorumState, Any], None]] = {
    TimePassed: role_timers.on_time_passed,
    RequestReceived: _on_request,
    ResponseReceived: _on_response,
    ResignRequested: leading.on_resign_requested,
    LogAppended: log_progress.on_appended,
    LogFlushed: log_progress.on_flushed,
    LogTruncated: log_progress.on_truncated,
    LogReplaced: log_progress.on_replaced,
    VotersAppended: log_progress.on_voters_appended,
    KraftVersionAppended: log_progress.on_kraft_version_appended,
    ReplicaFetched: leading.on_replica_fetched,
    SnapshotFetched: leading.on_snapshot_fetched,
    LeaderDiscovered: following.on_leader_discovered,
    LeaderResponded: following.on_leader_responded,
    HighWatermarkReceived: following.on_high_watermark_received,
}
