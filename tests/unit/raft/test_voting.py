"""Three voters: who votes for whom, who steps down, who should follow a leader that resigns."""

from __future__ import annotations

import pytest

from ottla.raft.effects import Ask, Effect, LeadershipLost, PersistElection, StartEpoch
from ottla.raft.election_state import EPOCH_JUMP_MAX, EPOCH_MAX, ElectionState, to_json
from ottla.raft.messages import Answer, BeginEpoch, EndEpoch, UpdateVoter, Vote, VoterChangeRefused
from ottla.raft.replica import Replica, Timeouts
from ottla.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.wire.errors import ErrorCode

IDS = (1, 2, 3)
KEYS = {node_id: ReplicaKey(node_id, bytes([node_id]) * 16) for node_id in range(1, 5)}
VOTERS = {key.id: Voter(key, (VoterEndpoint("C", f"host-{key.id}", 1),)) for key in KEYS.values()}
END = (10, 4)  # offset and epoch


def replica(
    election: ElectionState | None = None, *, is_dynamic: bool = False, end: tuple[int, int] = END
) -> Replica:
    static = VoterSet() if is_dynamic else VoterSet.static({i: ("localhost", i) for i in IDS}, "C")
    machine = Replica(VOTERS[1], static, timeouts=Timeouts(1000, 2000), draw=lambda bound: 0)
    if is_dynamic:
        machine.kraft_version_written(0, 1)
        machine.voters_written(0, VoterSet(VOTERS[i] for i in IDS))
    machine.start(election or ElectionState(4), *end, now_ms=0)
    return machine


def role_of(machine: Replica) -> type[Role]:
    return type(machine.role)


def vote(
    candidate: int = 2, epoch: int = 5, *, last: tuple[int, int] = (4, 10), is_pre_vote: bool = False
) -> Vote:
    return Vote(epoch, KEYS[candidate], *last, is_pre_vote)


def granted(machine: Replica, request: Vote) -> bool:
    return machine.asked(request, 0)[1].is_granted


def asks(effects: list[Effect]) -> list[tuple[int, object]]:
    return [(effect.replica_id, effect.request) for effect in effects if isinstance(effect, Ask)]


def leader(*, is_dynamic: bool = False) -> Replica:
    """Replica 1 leads epoch 5 and its first record is committed."""
    machine = replica(is_dynamic=is_dynamic)
    machine.tick(1000)
    for is_pre_vote in (True, False):
        epoch = 4 if is_pre_vote else 5
        yes = Answer(ErrorCode.NONE, -1, epoch, is_granted=True)
        machine.answered(2, Vote(epoch, KEYS[1], 4, 10, is_pre_vote), yes, 1000)
    machine.appended(11, 5)
    machine.flushed(11, 1000)
    machine.fetched_by(KEYS[2], 11, 1000)
    assert role_of(machine) is Leader
    assert machine.high_watermark == 11
    return machine


class TestVoting:
    def test_a_vote_is_on_disk_before_it_is_told(self) -> None:
        machine = replica()
        effects, answer = machine.asked(vote(), 0)
        assert answer.is_granted
        assert effects[-2] == PersistElection(ElectionState(5, -1, KEYS[2]))

    def test_one_vote_an_epoch(self) -> None:
        machine = replica()
        assert granted(machine, vote(2))
        assert not granted(machine, vote(3))
        assert granted(machine, vote(2))  # asked again

    def test_a_vote_outlives_a_restart(self) -> None:
        machine = replica(ElectionState(5, -1, KEYS[2]))
        assert not granted(machine, vote(3))
        assert granted(machine, vote(2))

    @pytest.mark.parametrize(("last", "is_granted"), [((4, 9), False), ((3, 99), False), ((4, 10), True)])
    def test_only_for_a_log_that_is_not_behind(self, last: tuple[int, int], is_granted: bool) -> None:
        for is_pre_vote in (True, False):
            assert granted(replica(), vote(last=last, is_pre_vote=is_pre_vote)) is is_granted

    def test_only_what_is_on_disk_counts(self) -> None:
        machine = replica()
        machine.appended(15, 4)
        assert granted(machine, vote())
        machine = replica()
        machine.appended(15, 4)
        (_, request), *_ = asks(machine.tick(1000))
        assert isinstance(request, Vote)
        assert request.last_offset == 10

    def test_a_pre_vote_promises_nothing(self) -> None:
        machine = replica(ElectionState(5))
        assert granted(machine, vote(2, is_pre_vote=True))
        assert granted(machine, vote(3, is_pre_vote=True))
        assert machine.role.election.voted is None

    def test_who_hears_from_its_leader_helps_nobody_to_replace_it(self) -> None:
        machine = replica(ElectionState(5, 3))
        assert granted(machine, vote(2, is_pre_vote=True))  # not heard of yet since the start
        machine.fetched_from_leader(10)
        assert not granted(machine, vote(2, is_pre_vote=True))

    def test_a_higher_epoch_is_taken_over_even_from_a_log_that_is_behind(self) -> None:
        machine = replica()
        assert not granted(machine, vote(epoch=9, last=(1, 1)))
        assert machine.epoch == 9


class TestElections:
    def test_a_new_epoch_begins_only_after_a_majority_would_vote(self) -> None:
        machine = replica()
        sent = asks(machine.tick(1000))
        assert sent == [
            (i, Vote(4, KEYS[1], 4, 10, is_pre_vote=True, receiver=ReplicaKey(i))) for i in (2, 3)
        ]
        assert (role_of(machine), machine.epoch) == (Prospective, 4)
        yes = Answer(ErrorCode.NONE, -1, 4, is_granted=True)
        effects = machine.answered(2, Vote(4, KEYS[1], 4, 10, True), yes, 1001)
        assert (role_of(machine), machine.epoch) == (Candidate, 5)
        assert effects[0] == PersistElection(ElectionState(5, -1, KEYS[1]))
        assert len(asks(effects)) == 2

    def test_an_old_pre_vote_is_no_vote(self) -> None:
        machine = replica()
        machine.tick(1000)
        yes = Answer(ErrorCode.NONE, -1, 4, is_granted=True)
        pre_vote = Vote(4, KEYS[1], 4, 10, True)
        machine.answered(2, pre_vote, yes, 1001)
        machine.answered(3, pre_vote, yes, 1002)
        assert role_of(machine) is Candidate

    def test_a_voter_that_knows_no_pre_votes_is_asked_for_its_vote(self) -> None:
        machine = replica()
        machine.tick(1000)
        refused = Answer(ErrorCode.UNSUPPORTED_VERSION, -1, -1)
        machine.answered(2, Vote(4, KEYS[1], 4, 10, True), refused, 1001)
        assert (role_of(machine), machine.epoch) == (Candidate, 5)

    def test_who_does_not_answer_is_asked_again(self) -> None:
        machine = replica()
        first = asks(machine.tick(1000))
        no = Answer(ErrorCode.NONE, -1, 4, is_granted=False)
        machine.answered(2, Vote(4, KEYS[1], 4, 10, True), no, 1001)
        assert machine.deadline_ms == 1200
        assert asks(machine.tick(1200)) == first[1:]

    def test_the_leader_tells_everybody_and_again_who_does_not_fetch(self) -> None:
        machine = leader()
        assert machine.deadline_ms == 2000
        assert asks(machine.tick(2000)) == [(i, BeginEpoch(1, 5, ReplicaKey(i))) for i in (2, 3)]
        machine.fetched_by(KEYS[2], 11, 2500)
        assert asks(machine.tick(3000)) == [(3, BeginEpoch(1, 5, ReplicaKey(3)))]

    def test_a_leader_that_hears_of_a_higher_epoch_gives_way(self) -> None:
        machine = leader()
        effects = machine.asked(vote(epoch=6, last=(5, 11)), 1500)[0]
        assert effects[0] == LeadershipLost(5)
        assert role_of(machine) is Unattached
        assert machine.high_watermark == 11


class TestSteppingDown:
    def test_a_leader_without_a_majority_that_fetches_resigns(self) -> None:
        machine = leader()
        machine.tick(3500)
        assert role_of(machine) is Leader
        machine.tick(4000)  # 3,000 ms after the last fetch
        assert role_of(machine) is Resigned

    def test_one_fetch_of_two_is_enough(self) -> None:
        machine = leader()
        machine.fetched_by(KEYS[3], 11, 3000)
        machine.tick(4000)
        assert role_of(machine) is Leader

    def test_the_one_with_the_longest_log_should_follow(self) -> None:
        machine = leader()
        machine.fetched_by(KEYS[3], 9, 1000)
        end = EndEpoch(1, 5, (ReplicaKey(2), ReplicaKey(3)))
        assert asks(machine.resign(1500)) == [(2, end), (3, end)]

    @pytest.mark.parametrize(
        ("successors", "wait_ms"), [((1, 2, 3), 0), ((2, 1, 3), 250), ((2, 3, 1), 500), ((2, 3), 1000)]
    )
    def test_those_before_us_try_first(self, successors: tuple[int, ...], wait_ms: int) -> None:
        machine = replica(ElectionState(5, 3))
        machine.fetched_from_leader(100)
        machine.asked(EndEpoch(3, 5, tuple(KEYS[i] for i in successors)), 100)
        machine.tick(100 + wait_ms - 1)
        assert role_of(machine) is Follower
        machine.tick(100 + wait_ms)
        assert role_of(machine) is Prospective

    def test_a_leader_of_before_a_restart_goes_into_another_epoch(self) -> None:
        machine = replica(ElectionState(5, 1))
        assert role_of(machine) is Resigned
        assert not granted(machine, vote(2, epoch=5))
        machine.tick(1000)
        assert (role_of(machine), machine.epoch) == (Unattached, 6)


class TestCommit:
    def test_a_majority_commits_and_only_with_a_record_of_its_own_epoch(self) -> None:
        machine = replica()
        machine.tick(1000)
        yes = Answer(ErrorCode.NONE, -1, 5, is_granted=True)
        machine.answered(2, Vote(4, KEYS[1], 4, 10, True), Answer(ErrorCode.NONE, -1, 4, True), 1000)
        effects = machine.answered(2, Vote(5, KEYS[1], 4, 10, False), yes, 1000)
        assert StartEpoch(5, 1, IDS, (1, 2)) in effects
        machine.flushed(10, 1001)
        assert machine.fetched_by(KEYS[2], 10, 1002) == []  # all of an earlier epoch
        machine.flushed(11, 1003)
        assert machine.high_watermark == -1
        machine.fetched_by(KEYS[2], 11, 1004)
        assert machine.high_watermark == 11

    def test_what_is_not_on_the_leaders_own_disk_needs_the_others(self) -> None:
        machine = leader()
        machine.appended(13, 5)
        machine.fetched_by(KEYS[2], 13, 1100)
        assert machine.high_watermark == 11
        machine.fetched_by(KEYS[3], 12, 1100)
        assert machine.high_watermark == 12


class TestVoterChanges:
    def test_an_observer_that_has_caught_up_becomes_a_voter(self) -> None:
        machine = leader(is_dynamic=True)
        with pytest.raises(VoterChangeRefused, match="not caught up"):
            machine.with_voter(VOTERS[4], 1100)
        machine.fetched_by(KEYS[4], 11, 1100)
        voters = machine.with_voter(VOTERS[4], 1200)
        assert voters.ids == [1, 2, 3, 4]
        machine.voters_written(11, voters)
        assert machine.role.progress[4].end_offset == 11  # type: ignore[union-attr]
        with pytest.raises(VoterChangeRefused, match="not committed yet"):
            machine.without_voter(KEYS[2])

    def test_a_leader_that_is_removed_commits_that_without_itself_and_resigns(self) -> None:
        machine = leader(is_dynamic=True)
        voters = machine.without_voter(KEYS[1])
        machine.voters_written(11, voters)
        machine.appended(12, 5)
        machine.flushed(12, 1100)
        machine.fetched_by(KEYS[2], 12, 1100)
        assert role_of(machine) is Leader
        effects = machine.fetched_by(KEYS[3], 12, 1100)
        assert role_of(machine) is Resigned
        assert LeadershipLost(5) in effects
        assert machine.high_watermark == 12

    def test_another_disk_under_the_same_id_is_another_voter(self) -> None:
        machine = leader(is_dynamic=True)
        with pytest.raises(VoterChangeRefused) as refused:
            machine.without_voter(ReplicaKey(2, b"x" * 16))
        assert refused.value.code is ErrorCode.VOTER_NOT_FOUND
        assert refused.value.message.startswith(
            "Cannot remove voter ReplicaKey(id=2, directoryId=eHh4eHh4eHh4eHh4eHh4eA) from the set of voters "
        )
        machine.fetched_by(ReplicaKey(2, b"x" * 16), 11, 1100)
        assert machine.role.progress[2].last_fetch_ms == 1000  # type: ignore[union-attr]

    def test_a_voter_of_a_static_quorum_tells_each_leader_what_it_is(self) -> None:
        machine = replica(ElectionState(5, 3))
        machine.fetched_from_leader(500)
        assert asks(machine.tick(2000)) == [(3, UpdateVoter(5, VOTERS[1]))]
        machine.answered(3, UpdateVoter(5, VOTERS[1]), Answer(ErrorCode.NONE, 3, 5), 2001)
        machine.fetched_from_leader(3500)
        assert asks(machine.tick(4000)) == []

    def test_a_static_quorum_becomes_dynamic_once_all_have_told(self) -> None:
        machine = leader()
        with pytest.raises(ValueError, match="not all of the voters support it"):
            machine.upgrade(1)
        for voter_id in (2, 3):
            assert machine.with_updated_voter(VOTERS[voter_id], 1100) is None
        assert machine.upgrade(1) == VoterSet(VOTERS[i] for i in IDS)


# Epochs without end


@pytest.mark.parametrize("is_pre_vote", [False, True])
def test_a_vote_of_an_absurd_epoch_changes_nothing(is_pre_vote: bool) -> None:
    for machine in (replica(), leader()):
        before, epoch = machine.role, machine.epoch
        for asked in (epoch + EPOCH_JUMP_MAX + 1, EPOCH_MAX):
            effects, answer = machine.asked(vote(4, asked, is_pre_vote=is_pre_vote), 0)
            assert (answer.error, answer.epoch, answer.is_granted) == (
                ErrorCode.INVALID_REQUEST,
                epoch,
                False,
            )
            assert effects == []
            assert machine.role is before


def test_a_leader_of_an_absurd_epoch_is_not_followed() -> None:
    machine = leader()
    for told in (BeginEpoch(4, EPOCH_MAX), EndEpoch(4, EPOCH_MAX, ())):
        effects, answer = machine.asked(told, 0)
        assert (answer.error, answer.leader_id, answer.epoch) == (ErrorCode.INVALID_REQUEST, 1, 5)
        assert effects == []


def test_a_candidate_that_was_alone_for_long_is_heard() -> None:
    machine = leader()
    assert granted(machine, vote(2, 5 + EPOCH_JUMP_MAX, last=(5, 11)))
    assert machine.epoch == 5 + EPOCH_JUMP_MAX


def test_whoever_is_further_behind_takes_the_epoch_from_an_answer() -> None:
    machine = replica()
    machine.tick(1000)
    far = 4 + 3 * EPOCH_JUMP_MAX
    request = Vote(4, KEYS[1], 4, 10, True)
    machine.answered(2, request, Answer(ErrorCode.FENCED_LEADER_EPOCH, 3, far, is_granted=False), 1000)
    assert (machine.epoch, machine.leader_id) == (far, 3)


def test_after_the_last_epoch_there_is_no_election() -> None:
    machine = replica(ElectionState(EPOCH_MAX))
    machine.tick(1000)
    assert role_of(machine) is Prospective
    yes = Answer(ErrorCode.NONE, -1, EPOCH_MAX, is_granted=True)
    effects = machine.answered(2, Vote(EPOCH_MAX, KEYS[1], 4, 10, True), yes, 1000)
    assert (role_of(machine), machine.epoch) == (Unattached, EPOCH_MAX)
    assert [effect.election.epoch for effect in effects if isinstance(effect, PersistElection)] == [EPOCH_MAX]


def test_a_leader_of_the_last_epoch_that_resigned_stays_in_it_and_votes_for_no_other() -> None:
    machine = replica(ElectionState(EPOCH_MAX, leader_id=1))
    assert role_of(machine) is Resigned
    machine.tick(1000)
    assert (role_of(machine), machine.epoch) == (Unattached, EPOCH_MAX)
    effects, answer = machine.asked(Vote(EPOCH_MAX, KEYS[2], 9, 100, False), 1000)
    assert (effects, answer.is_granted) == ([], False)


def test_no_epoch_is_written_that_could_not_be_read() -> None:
    with pytest.raises(ValueError, match="2147483648"):
        to_json(ElectionState(EPOCH_MAX + 1), 1, IDS)
