"""What the leader of a quorum answers to other replicas: by epoch, position and snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ottla.raft.election_state import ElectionState
from ottla.raft.fetch_validation import READABLE, Position, judge_fetch
from ottla.raft.messages import Answer, BeginEpoch, EndEpoch, Vote
from ottla.raft.metadata_log import EpochEnd
from ottla.raft.replica import OBSERVER_SESSION_MS, Replica, Timeouts
from ottla.raft.roles import Follower, Leader, Unattached
from ottla.raft.snapshots import BOOTSTRAP_ID, SnapshotId
from ottla.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.wire.errors import ErrorCode

LOCAL = Voter(ReplicaKey(1, bytes(range(16))))
VOTERS = VoterSet([LOCAL])


@dataclass
class Log:
    """A log of epochs (epoch -> end), from `start_offset` on."""

    epochs: dict[int, int]
    start_offset: int = 0
    snapshots: list[SnapshotId] = field(default_factory=list)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[0] if self.snapshots else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        known = [one for one in self.epochs if one <= epoch]
        return EpochEnd(known[-1], self.epochs[known[-1]]) if known else EpochEnd(0, 0)


def leader(end_offset: int = 100, epoch: int = 5) -> Replica:
    replica = Replica(LOCAL, VOTERS, timeouts=Timeouts(), draw=lambda bound: 0)
    replica.start(ElectionState(epoch - 1, 1), end_offset, epoch - 1, 0)
    replica.flushed(end_offset, 0)
    assert isinstance(replica.role, Leader)
    assert replica.epoch == epoch
    return replica


def observer() -> Replica:
    replica = Replica(Voter(ReplicaKey(7)), VOTERS, timeouts=Timeouts(), draw=lambda bound: 0)
    replica.start(ElectionState(), 0, 0, 0)
    return replica


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_in_another_epoch_is_refused(epoch: int, error: ErrorCode) -> None:
    log = Log({3: 50, 5: 100})
    assert judge_fetch(leader(), log, Position(100, 3, epoch)) is error


def test_a_fetch_from_a_replica_that_does_not_lead_is_refused() -> None:
    replica = observer()
    verdict = judge_fetch(replica, Log({0: 0}), Position(0, 0, replica.epoch))
    assert verdict is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_position_in_the_log_is_read_from() -> None:
    log = Log({3: 50, 5: 100})
    assert judge_fetch(leader(), log, Position(0, 0, 5)) is READABLE
    assert judge_fetch(leader(), log, Position(20, 3, 5)) is READABLE
    assert judge_fetch(leader(), log, Position(50, 3, 5)) is READABLE
    assert judge_fetch(leader(), log, Position(100, 5, 5)) is READABLE


def test_a_log_that_goes_another_way_is_told_where() -> None:
    log = Log({3: 50, 5: 100})
    assert judge_fetch(leader(), log, Position(60, 3, 5)) == EpochEnd(3, 50)
    assert judge_fetch(leader(), log, Position(60, 4, 5)) == EpochEnd(3, 50)
    assert judge_fetch(leader(), log, Position(101, 5, 5)) == EpochEnd(5, 100)


def test_who_is_behind_the_logs_start_gets_the_latest_snapshot() -> None:
    first, latest = SnapshotId(50, 3), SnapshotId(80, 5)
    log = Log({3: 50, 5: 100}, start_offset=50, snapshots=[first, latest])
    assert judge_fetch(leader(), log, Position(20, 3, 5)) == latest
    assert judge_fetch(leader(), log, Position(50, 2, 5)) == latest
    assert judge_fetch(leader(), log, Position(60, 2, 5)) == latest
    assert judge_fetch(leader(), log, Position(50, 3, 5)) is READABLE


def test_an_empty_replica_gets_a_snapshot_unless_there_is_only_the_one_of_the_format() -> None:
    log = Log({3: 50, 5: 100}, snapshots=[BOOTSTRAP_ID])
    assert judge_fetch(leader(), log, Position(0, 0, 5)) is READABLE
    log.snapshots.append(SnapshotId(80, 5))
    assert judge_fetch(leader(), log, Position(0, 0, 5)) == SnapshotId(80, 5)


def test_the_only_voter_keeps_its_vote_to_itself() -> None:
    replica = leader()

    def vote(epoch: int, *, candidate: int = 2, last_epoch: int = 3, is_pre_vote: bool = False) -> Answer:
        return replica.asked(Vote(epoch, ReplicaKey(candidate), last_epoch, 10, is_pre_vote), 0)[1]

    assert vote(4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert vote(6) == Answer(ErrorCode.NONE, 1, 5, is_granted=False)
    assert vote(6, candidate=-1).error is ErrorCode.INVALID_REQUEST
    assert vote(6, last_epoch=6).error is ErrorCode.INVALID_REQUEST
    assert vote(6, last_epoch=6, is_pre_vote=True).error is ErrorCode.NONE
    assert isinstance(replica.role, Leader)
    assert replica.epoch == 5


def test_another_leader_is_one_of_another_quorum() -> None:
    replica = leader()

    def told(epoch: int, leader_id: int) -> ErrorCode:
        begin = replica.asked(BeginEpoch(leader_id, epoch), 0)[1].error
        assert replica.asked(EndEpoch(leader_id, epoch), 0)[1].error is begin
        return begin

    assert told(4, 2) is ErrorCode.FENCED_LEADER_EPOCH
    assert told(6, -1) is ErrorCode.INVALID_REQUEST
    assert told(6, 2) is ErrorCode.INCONSISTENT_VOTER_SET
    assert told(5, 1) is ErrorCode.NONE


def test_a_request_for_another_disk_is_not_for_this_replica() -> None:
    replica = leader()

    def error(receiver: ReplicaKey | None) -> ErrorCode:
        return replica.asked(BeginEpoch(1, 5, receiver), 0)[1].error

    for own in (None, ReplicaKey(1), LOCAL.key):
        assert error(own) is ErrorCode.NONE
    for other in (ReplicaKey(1, b"x" * 16), ReplicaKey(2)):
        assert error(other) is ErrorCode.INVALID_VOTER_KEY


# Observers


def test_observers_are_kept_while_they_fetch() -> None:
    replica = leader(end_offset=100)
    role = replica.role
    assert isinstance(role, Leader)
    quick, slow = ReplicaKey(7, b"q" * 16), ReplicaKey(8)
    replica.fetched_by(quick, 90, 1_000)
    replica.fetched_by(slow, 10, 1_000)
    assert role.observers[quick].last_caught_up_ms == -1
    replica.fetched_by(quick, 100, 2_000)
    assert role.observers[quick].end_offset == 100
    assert role.observers[quick].last_caught_up_ms == 2_000
    replica.fetched_by(quick, 100, 1_000 + OBSERVER_SESSION_MS)
    assert list(role.observers) == [quick]


def test_an_observer_does_not_move_the_high_watermark() -> None:
    replica = leader(end_offset=100)
    before = replica.high_watermark
    assert replica.fetched_by(ReplicaKey(7), 1_000, 0) == []
    assert replica.high_watermark == before


def test_an_observer_follows_whoever_leads_the_highest_epoch() -> None:
    replica = observer()
    known = []
    for leader_id, epoch in ((1, 3), (2, 2), (-1, 4), (2, 4)):
        replica.heard_of(leader_id, epoch, 0)
        known.append((type(replica.role), replica.leader_id, replica.epoch))
    assert known == [(Follower, 1, 3), (Follower, 1, 3), (Unattached, -1, 4), (Follower, 2, 4)]


def test_what_an_observer_takes_for_committed_is_in_its_log_and_never_goes_back() -> None:
    replica = observer()
    replica.heard_of(1, 3, 0)
    replica.follow_high_watermark(50, 20)
    assert replica.high_watermark == 20
    assert replica.follow_high_watermark(10, 30) == []
    assert replica.high_watermark == 20
    replica.follow_high_watermark(50, 60)
    assert replica.high_watermark == 50
