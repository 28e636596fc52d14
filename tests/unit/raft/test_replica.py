"""One replica starts, goes through its roles, and says what must be on disk when."""

from __future__ import annotations

import pytest
from tests.unit.raft.scenario import KEYS, VOTERS, Scenario

from ottla.raft.effects import HighWatermarkAdvanced, LeaderChanged, PersistElection, StartEpoch
from ottla.raft.election_state import ElectionState
from ottla.raft.events import LogFlushed, ResignRequested
from ottla.raft.quorum_state import BOOTSTRAP_OFFSET, QuorumState
from ottla.raft.replica import NotLeader, Timeouts
from ottla.raft.roles import TRANSITIONS, Candidate, Follower, Leader, Prospective, Resigned, Unattached
from ottla.raft.voters import Voter, VoterEndpoint, VoterSet

LOCAL = VOTERS[1]


class TestOnlyVoter:
    def test_elects_itself_in_a_new_epoch_and_persists_that_first(self) -> None:
        only = Scenario(1)
        assert only.effects == [
            PersistElection(ElectionState(0)),
            PersistElection(ElectionState(1, -1, KEYS[1])),
            PersistElection(ElectionState(1, 1)),
            StartEpoch(1, 1, (1,), (1,)),
            LeaderChanged(1, 1),
        ]
        assert only.role() is Leader
        assert only.replica.deadline_ms is None

    def test_starts_a_new_epoch_with_every_restart(self) -> None:
        only = Scenario(1, election=ElectionState(6, 1), end=(100, 6))
        assert only.epoch_start == StartEpoch(7, 1, (1,), (1,))

    def test_completes_its_election_after_a_crash_in_the_same_epoch(self) -> None:
        only = Scenario(1, election=ElectionState(6, -1, KEYS[1]), end=(100, 5))
        assert only.epoch == 6
        assert isinstance(only.effects[-2], StartEpoch)

    def test_takes_the_epoch_from_the_log_if_that_is_higher_than_in_the_file(self) -> None:
        only = Scenario(1, election=ElectionState(2, 1), end=(100, 9))
        assert only.epoch == 10

    def test_commits_what_it_has_flushed_from_the_first_record_of_its_epoch_on(self) -> None:
        only = Scenario(1, election=ElectionState(6, 1), end=(100, 6))
        assert only.step(LogFlushed(100, 6, 1)) == []
        assert only.step(LogFlushed(101, 7, 2)) == [HighWatermarkAdvanced(101)]
        assert only.step(LogFlushed(101, 7, 3)) == []
        assert only.step(LogFlushed(140, 7, 4)) == [HighWatermarkAdvanced(140)]

    def test_resigns_on_request_and_commits_nothing_more(self) -> None:
        only = Scenario(1)
        only.step(ResignRequested(5))
        assert only.role() is Resigned
        only.flush(10)
        assert only.effects == []


class TestDynamicQuorum:
    def test_the_first_leader_appends_the_voters_of_the_bootstrap_snapshot(self) -> None:
        voters = VoterSet([LOCAL])
        start = Scenario(log_voters=(BOOTSTRAP_OFFSET, voters)).epoch_start
        assert (start.kraft_version, start.voters) == (1, voters)

    def test_later_leaders_append_the_voters_only_if_their_own_endpoints_changed(self) -> None:
        assert Scenario(log_voters=(7, VoterSet([LOCAL]))).epoch_start.voters is None
        moved = VoterSet([Voter(LOCAL.key, (VoterEndpoint("CONTROLLER", "elsewhere", 1),))])
        assert Scenario(log_voters=(7, moved)).epoch_start.voters == VoterSet([LOCAL])

    def test_a_static_quorum_of_one_can_become_dynamic(self) -> None:
        only = Scenario(1)
        assert only.replica.with_kraft_version(1) == VoterSet([LOCAL])
        with pytest.raises(ValueError, match="not all of the voters support it"):
            only.replica.with_kraft_version(2)

    def test_only_a_leader_can_upgrade_kraft_version(self) -> None:
        with pytest.raises(NotLeader):
            Scenario(1, 2).replica.with_kraft_version(1)

    def test_an_observer_never_starts_an_election(self) -> None:
        observer = Scenario()
        assert observer.role() is Unattached
        assert observer.replica.deadline_ms is None
        observer.wait_until(10**9)
        assert observer.effects == []


class TestVoterThatNobodyAnswers:
    """It never enters a new epoch."""

    def test_alternates_between_unattached_and_prospective(self) -> None:
        alone = Scenario(1, 2, 3)
        assert alone.role() is Unattached
        assert alone.replica.deadline_ms == 1000
        alone.wait_until(999)
        assert alone.effects == []
        alone.wait_until(1000)
        assert alone.role() is Prospective
        alone.wait_until(10_000)
        assert alone.role() is Unattached
        assert alone.epoch == 0

    def test_follows_its_silent_leader_again_after_a_pre_vote(self) -> None:
        follower = Scenario(1, 2, 3, election=ElectionState(4, 2))
        assert follower.role() is Follower
        follower.wait_until(2000)
        assert follower.role() is Prospective
        follower.wait_until(10_000)
        assert follower.role() is Follower
        assert (follower.replica.leader_id, follower.epoch) == (2, 4)

    def test_does_not_lead_the_epoch_that_it_led_before_its_restart(self) -> None:
        former_leader = Scenario(1, 2, 3, election=ElectionState(4, 1))
        assert former_leader.role() is Resigned
        former_leader.wait_until(5000)
        assert former_leader.role() is Unattached
        assert former_leader.epoch == 5

    def test_goes_back_from_candidate_to_prospective(self) -> None:
        candidate = Scenario(1, 2, 3, election=ElectionState(4, -1, KEYS[1]))
        assert candidate.role() is Candidate
        candidate.wait_until(5000)
        assert candidate.role() is Prospective


def test_the_table_of_transitions_is_closed() -> None:
    for targets in TRANSITIONS.values():
        assert targets <= set(TRANSITIONS)
    assert Leader not in TRANSITIONS[Follower]


def test_a_transition_that_is_not_in_the_table_raises() -> None:
    quorum = QuorumState(LOCAL, VoterSet([LOCAL]), Timeouts(), lambda bound: 0)
    quorum.become(Unattached(1, 1))
    with pytest.raises(RuntimeError, match="There is no transition from Unattached"):
        quorum.become(Resigned(1, 1, 1))
