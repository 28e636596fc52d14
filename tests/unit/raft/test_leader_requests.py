"""What a replica does when others name a leader: by requests, responses and fetches."""

from __future__ import annotations

from tests.unit.raft.scenario import KEYS, VOTERS, Scenario

from ottla.raft.election_state import ElectionState
from ottla.raft.events import HighWatermarkReceived, LeaderDiscovered
from ottla.raft.messages import BeginEpoch, EndEpoch, Response, Vote
from ottla.raft.roles import Follower, Leader, Unattached
from ottla.raft.voters import ReplicaKey
from ottla.wire.errors import ErrorCode


def only_voter() -> Scenario:
    """It leads epoch 5."""
    scenario = Scenario(1, election=ElectionState(4, 1), end=(100, 4))
    assert (scenario.role(), scenario.epoch) == (Leader, 5)
    return scenario


def observer() -> Scenario:
    return Scenario(2, 3)


def test_the_only_voter_grants_no_vote() -> None:
    only = only_voter()

    def ask(epoch: int, *, candidate: int = 2, last_epoch: int = 3, is_pre_vote: bool = False) -> Response:
        return only.receive(Vote(epoch, ReplicaKey(candidate), last_epoch, 10, is_pre_vote))

    assert ask(4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert ask(6) == Response(ErrorCode.NONE, 1, 5, is_granted=False)
    assert ask(6, candidate=-1).error is ErrorCode.INVALID_REQUEST
    assert ask(6, last_epoch=6).error is ErrorCode.INVALID_REQUEST
    assert ask(6, last_epoch=6, is_pre_vote=True).error is ErrorCode.NONE
    assert (only.role(), only.epoch) == (Leader, 5)


def test_the_only_voter_takes_another_leader_for_one_of_another_quorum() -> None:
    only = only_voter()

    def claim(leader_id: int, epoch: int) -> ErrorCode:
        error = only.receive(BeginEpoch(leader_id, epoch)).error
        assert only.receive(EndEpoch(leader_id, epoch)).error is error
        return error

    assert claim(2, 4) is ErrorCode.FENCED_LEADER_EPOCH
    assert claim(-1, 6) is ErrorCode.INVALID_REQUEST
    assert claim(2, 6) is ErrorCode.INCONSISTENT_VOTER_SET
    assert claim(1, 5) is ErrorCode.NONE


def test_a_request_to_another_directory_is_rejected() -> None:
    only = only_voter()
    for own in (None, ReplicaKey(1), VOTERS[1].key):
        assert only.receive(BeginEpoch(1, 5, own)).error is ErrorCode.NONE
    for other in (ReplicaKey(1, b"x" * 16), KEYS[2]):
        assert only.receive(BeginEpoch(1, 5, other)).error is ErrorCode.INVALID_VOTER_KEY


def test_an_observer_follows_the_leader_of_the_highest_epoch() -> None:
    one = observer()
    known = []
    for leader_id, epoch in ((2, 3), (3, 2), (-1, 4), (3, 4)):
        one.step(LeaderDiscovered(leader_id, epoch, 0))
        known.append((one.role(), one.replica.leader_id, one.epoch))
    assert known == [(Follower, 2, 3), (Follower, 2, 3), (Unattached, -1, 4), (Follower, 3, 4)]


def test_the_high_watermark_of_an_observer_stays_within_its_log_and_never_decreases() -> None:
    one = observer()
    one.step(LeaderDiscovered(2, 3, 0))
    one.step(HighWatermarkReceived(50, end_offset=20))
    assert one.replica.high_watermark == 20
    assert one.step(HighWatermarkReceived(10, end_offset=30)) == []
    assert one.replica.high_watermark == 20
    one.step(HighWatermarkReceived(50, end_offset=60))
    assert one.replica.high_watermark == 50
