"""A leader of three voters commits records, resigns, and knows how far its followers and observers are."""

from __future__ import annotations

import pytest
from tests.unit.raft.scenario import KEYS, VOTER_IDS, VOTERS, Scenario, elected_leader, leader, vote, voter

from ottla.raft.effects import HighWatermarkAdvanced, LeadershipLost, StartEpoch
from ottla.raft.election_state import ElectionState
from ottla.raft.events import LeaderResponded, LogFlushed, ResignRequested, SnapshotFetched
from ottla.raft.follower_progress import OBSERVER_SESSION_MS
from ottla.raft.messages import BeginEpoch, EndEpoch, Response, UpdateVoter
from ottla.raft.roles import Follower, Leader, Prospective, Resigned, Unattached
from ottla.raft.voters import ReplicaKey
from ottla.wire.errors import ErrorCode


class TestHighWatermark:
    def test_advances_with_a_majority_once_that_has_a_record_of_the_leaders_epoch(self) -> None:
        elected = elected_leader()
        assert elected.epoch_start == StartEpoch(5, 1, VOTER_IDS, (1, 2))
        elected.step(LogFlushed(10, 4, 1001))
        elected.fetch(2, 10)
        assert elected.effects == []  # everything so far is of an earlier epoch
        elected.flush(11)
        assert elected.replica.high_watermark == -1
        elected.fetch(2, 11)
        assert elected.effects == [HighWatermarkAdvanced(11)]
        assert elected.replica.high_watermark == 11

    def test_needs_the_other_voters_for_what_the_leader_has_not_flushed(self) -> None:
        one = leader()
        one.append(13)
        one.fetch(2, 13)
        assert one.replica.high_watermark == 11
        one.fetch(3, 12)
        assert one.replica.high_watermark == 12

    def test_does_not_advance_with_an_observer(self) -> None:
        one = leader()
        one.append(100)
        one.fetch(7, 1_000)
        assert one.effects == []
        assert one.replica.high_watermark == 11


class TestLeadership:
    def test_begin_epoch_goes_to_all_voters_and_then_to_those_that_do_not_fetch(self) -> None:
        elected = elected_leader()
        assert elected.sent == [(i, BeginEpoch(1, 5, ReplicaKey(i))) for i in (2, 3)]
        one = leader()
        assert one.replica.deadline_ms == 2000
        one.wait_until(2000)
        assert one.sent == [(i, BeginEpoch(1, 5, ReplicaKey(i))) for i in (2, 3)]
        one.now_ms = 2500
        one.fetch(2, 11)
        one.wait_until(3000)
        assert one.sent == [(3, BeginEpoch(1, 5, ReplicaKey(3)))]

    def test_is_lost_to_a_higher_epoch(self) -> None:
        one = leader()
        one.now_ms = 1500
        one.receive(vote(epoch=6, last=(5, 11)))
        assert one.effects[0] == LeadershipLost(5)
        assert one.role() is Unattached
        assert one.replica.high_watermark == 11

    def test_ends_when_a_majority_has_not_fetched_for_one_and_a_half_fetch_timeouts(self) -> None:
        one = leader()
        one.wait_until(3500)
        assert one.role() is Leader
        one.wait_until(4000)
        assert one.role() is Resigned

    @pytest.mark.parametrize("is_snapshot", [False, True])
    def test_continues_while_one_of_two_followers_fetches(self, is_snapshot: bool) -> None:
        one = leader()
        one.now_ms = 3000
        if is_snapshot:
            one.step(SnapshotFetched(KEYS[3], one.now_ms))
        else:
            one.fetch(3, 11)
        one.wait_until(4000)
        assert one.role() is Leader

    def test_the_voter_with_the_longest_log_is_the_preferred_successor(self) -> None:
        one = leader()
        one.fetch(3, 9)
        one.step(ResignRequested(1500))
        end = EndEpoch(1, 5, (ReplicaKey(2), ReplicaKey(3)))
        assert one.sent == [(2, end), (3, end)]

    def test_end_epoch_is_sent_again_to_voters_that_have_not_responded(self) -> None:
        one = leader()
        one.step(ResignRequested(1000))
        first = one.sent
        one.respond(2, Response(ErrorCode.NONE, 1, 5))
        assert one.replica.deadline_ms == 1200
        one.wait_until(1200)
        assert one.sent == first[1:]

    @pytest.mark.parametrize(
        ("successors", "wait_ms"), [((1, 2, 3), 0), ((2, 1, 3), 250), ((2, 3, 1), 500), ((2, 3), 1000)]
    )
    def test_a_successor_waits_longer_the_later_it_is_in_the_list(
        self, successors: tuple[int, ...], wait_ms: int
    ) -> None:
        follower = voter(ElectionState(5, 3))
        follower.now_ms = 100
        follower.step(LeaderResponded(100))
        follower.receive(EndEpoch(3, 5, tuple(KEYS[i] for i in successors)))
        follower.wait_until(100 + wait_ms - 1)
        assert follower.role() is Follower
        follower.wait_until(100 + wait_ms)
        assert follower.role() is Prospective

    def test_does_not_survive_a_restart_of_the_leader(self) -> None:
        former_leader = voter(ElectionState(5, 1))
        assert former_leader.role() is Resigned
        assert not former_leader.receive(vote(2, epoch=5)).is_granted
        former_leader.wait_until(1000)
        assert (former_leader.role(), former_leader.epoch) == (Unattached, 6)


class TestObservers:
    def test_are_known_to_the_leader_while_they_fetch(self) -> None:
        one = leader()
        quick, slow = ReplicaKey(7, b"q" * 16), ReplicaKey(8)
        one.now_ms = 1_500
        one.fetch(quick, 9)
        one.fetch(slow, 1)
        assert one.leader.observers[quick].last_caught_up_ms == -1
        one.now_ms = 2_000
        one.fetch(quick, 11)
        assert one.leader.observers[quick].end_offset == 11
        assert one.leader.observers[quick].last_caught_up_ms == 2_000
        one.now_ms = 1_500 + OBSERVER_SESSION_MS
        one.fetch(quick, 11)
        assert list(one.leader.observers) == [quick]


class TestUpdateVoter:
    def test_a_voter_of_a_static_quorum_describes_itself_to_each_leader_once(self) -> None:
        follower = voter(ElectionState(5, 3))
        follower.step(LeaderResponded(500))
        follower.wait_until(2000)
        assert follower.sent == [(3, UpdateVoter(5, VOTERS[1]))]
        follower.respond(3, Response(ErrorCode.NONE, 3, 5))
        follower.step(LeaderResponded(3500))
        follower.wait_until(4000)
        assert follower.sent == []

    def test_an_observer_sends_none(self) -> None:
        observer = Scenario(2, 3, election=ElectionState(5, 3))
        observer.wait_until(2000)
        assert observer.effects == []
