"""Elections among three voters: who grants votes to whom, and who becomes a leader."""

from __future__ import annotations

import pytest
from tests.unit.raft.scenario import KEYS, VOTER_IDS, leader, vote, voter

from ottla.raft.effects import PersistElection
from ottla.raft.election_state import EPOCH_JUMP_MAX, EPOCH_MAX, ElectionState, to_json
from ottla.raft.events import LeaderResponded
from ottla.raft.messages import BeginEpoch, EndEpoch, Response, Vote
from ottla.raft.roles import Candidate, Leader, Prospective, Resigned, Unattached
from ottla.raft.voters import ReplicaKey
from ottla.wire.errors import ErrorCode


class TestVotes:
    def test_a_vote_is_persisted_before_the_response(self) -> None:
        one = voter()
        assert one.receive(vote()).is_granted
        assert one.effects[-2] == PersistElection(ElectionState(5, -1, KEYS[2]))

    def test_a_voter_votes_once_in_an_epoch(self) -> None:
        one = voter()
        assert one.receive(vote(2)).is_granted
        assert not one.receive(vote(3)).is_granted
        assert one.receive(vote(2)).is_granted  # the candidate retries

    def test_a_vote_survives_a_restart(self) -> None:
        restarted = voter(ElectionState(5, -1, KEYS[2]))
        assert not restarted.receive(vote(3)).is_granted
        assert restarted.receive(vote(2)).is_granted

    @pytest.mark.parametrize("is_pre_vote", [True, False])
    @pytest.mark.parametrize(("last", "is_granted"), [((4, 9), False), ((3, 99), False), ((4, 10), True)])
    def test_a_candidate_whose_log_is_behind_gets_no_vote(
        self, last: tuple[int, int], is_granted: bool, is_pre_vote: bool
    ) -> None:
        assert voter().receive(vote(last=last, is_pre_vote=is_pre_vote)).is_granted is is_granted

    def test_only_the_flushed_part_of_a_log_counts(self) -> None:
        one = voter()
        one.append(15)
        assert one.receive(vote(last=(4, 10))).is_granted
        other = voter()
        other.append(15)
        other.wait_until(1000)
        (_, request), *_ = other.sent
        assert isinstance(request, Vote)
        assert request.last_offset == 10

    def test_pre_votes_are_granted_to_any_number_of_voters(self) -> None:
        one = voter(ElectionState(5))
        assert one.receive(vote(2, is_pre_vote=True)).is_granted
        assert one.receive(vote(3, is_pre_vote=True)).is_granted
        assert one.replica.role.election.voted is None

    def test_a_follower_grants_no_pre_vote_once_it_has_fetched_from_its_leader(self) -> None:
        follower = voter(ElectionState(5, 3))
        assert follower.receive(vote(2, is_pre_vote=True)).is_granted
        follower.step(LeaderResponded(10))
        assert not follower.receive(vote(2, is_pre_vote=True)).is_granted

    def test_a_higher_epoch_takes_effect_even_if_the_candidate_gets_no_vote(self) -> None:
        one = voter()
        assert not one.receive(vote(epoch=9, last=(1, 1))).is_granted
        assert one.epoch == 9


class TestElections:
    def test_a_majority_of_pre_votes_and_then_of_votes_makes_a_leader(self) -> None:
        one = voter()
        one.wait_until(1000)
        assert one.sent == [
            (i, Vote(4, KEYS[1], 4, 10, is_pre_vote=True, receiver=ReplicaKey(i))) for i in (2, 3)
        ]
        assert (one.role(), one.epoch) == (Prospective, 4)
        one.grant(2)
        assert (one.role(), one.epoch) == (Candidate, 5)
        assert one.effects[0] == PersistElection(ElectionState(5, -1, KEYS[1]))
        assert one.sent == [
            (i, Vote(5, KEYS[1], 4, 10, is_pre_vote=False, receiver=ReplicaKey(i))) for i in (2, 3)
        ]
        one.grant(3)
        assert (one.role(), one.epoch) == (Leader, 5)
        assert one.effects[0] == PersistElection(ElectionState(5, 1))
        assert (one.epoch_start.voter_ids, one.epoch_start.granting_ids) == (VOTER_IDS, (1, 3))
        assert one.sent == [(i, BeginEpoch(1, 5, ReplicaKey(i))) for i in (2, 3)]

    def test_a_late_pre_vote_does_not_count_as_a_vote(self) -> None:
        one = voter()
        one.wait_until(1000)
        pre_vote = Response(ErrorCode.NONE, -1, 4, is_granted=True)
        one.respond(2, pre_vote)
        one.respond(3, pre_vote)
        assert one.role() is Candidate

    def test_a_voter_that_does_not_support_pre_votes_is_asked_for_its_vote(self) -> None:
        one = voter()
        one.wait_until(1000)
        one.respond(2, Response(ErrorCode.UNSUPPORTED_VERSION, -1, -1))
        assert (one.role(), one.epoch) == (Candidate, 5)

    def test_the_request_to_a_voter_that_has_not_responded_is_sent_again(self) -> None:
        one = voter()
        one.wait_until(1000)
        first = one.sent
        one.now_ms = 1001
        one.reject(2)
        assert one.replica.deadline_ms == 1200
        one.wait_until(1200)
        assert one.sent == first[1:]


class TestLimitOfEpochs:
    @pytest.mark.parametrize("is_pre_vote", [False, True])
    def test_a_vote_request_with_a_much_higher_epoch_changes_nothing(self, is_pre_vote: bool) -> None:
        for one in (voter(), leader()):
            before, epoch = one.replica.role, one.epoch
            for requested in (epoch + EPOCH_JUMP_MAX + 1, EPOCH_MAX):
                response = one.receive(vote(4, requested, is_pre_vote=is_pre_vote))
                assert (response.error, response.epoch) == (ErrorCode.INVALID_REQUEST, epoch)
                assert not response.is_granted
                assert one.effects == []
                assert one.replica.role is before

    def test_a_leader_with_a_much_higher_epoch_is_not_followed(self) -> None:
        one = leader()
        for request in (BeginEpoch(4, EPOCH_MAX), EndEpoch(4, EPOCH_MAX, ())):
            response = one.receive(request)
            assert response == Response(ErrorCode.INVALID_REQUEST, 1, 5)
            assert one.effects == []

    def test_a_candidate_that_was_partitioned_for_long_is_elected(self) -> None:
        one = leader()
        assert one.receive(vote(2, 5 + EPOCH_JUMP_MAX, last=(5, 11))).is_granted
        assert one.epoch == 5 + EPOCH_JUMP_MAX

    def test_a_replica_that_is_even_further_behind_takes_the_epoch_from_a_response(self) -> None:
        one = voter()
        one.wait_until(1000)
        far = 4 + 3 * EPOCH_JUMP_MAX
        one.respond(2, Response(ErrorCode.FENCED_LEADER_EPOCH, 3, far, is_granted=False))
        assert (one.epoch, one.replica.leader_id) == (far, 3)

    def test_after_the_last_epoch_there_is_no_election(self) -> None:
        one = voter(ElectionState(EPOCH_MAX))
        one.wait_until(1000)
        assert one.role() is Prospective
        one.grant(2)
        assert (one.role(), one.epoch) == (Unattached, EPOCH_MAX)
        persisted = [effect.election for effect in one.effects if isinstance(effect, PersistElection)]
        assert [election.epoch for election in persisted] == [EPOCH_MAX]

    def test_a_leader_that_resigned_in_the_last_epoch_stays_in_it_and_votes_for_nobody_else(self) -> None:
        one = voter(ElectionState(EPOCH_MAX, leader_id=1))
        assert one.role() is Resigned
        one.wait_until(1000)
        assert (one.role(), one.epoch) == (Unattached, EPOCH_MAX)
        assert not one.receive(Vote(EPOCH_MAX, KEYS[2], 9, 100, False)).is_granted
        assert one.effects == []

    def test_an_epoch_beyond_the_last_is_never_written(self) -> None:
        with pytest.raises(ValueError, match="2147483648"):
            to_json(ElectionState(EPOCH_MAX + 1), 1, VOTER_IDS)
