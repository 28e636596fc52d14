"""One replica decides alone: every way through the roles, and what must be on disk when."""

from __future__ import annotations

import pytest

from ottla.raft.effects import Effect, HighWatermarkMoved, LeaderChanged, PersistElection, StartEpoch
from ottla.raft.election_state import ElectionState
from ottla.raft.replica import BOOTSTRAP_OFFSET, NotLeader, Replica, Timeouts
from ottla.raft.roles import TRANSITIONS, Candidate, Follower, Leader, Prospective, Resigned, Unattached
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet

KEY = ReplicaKey(1, bytes(range(16)))
LOCAL = Voter(KEY, (VoterEndpoint("CONTROLLER", "localhost", 9093),))


def replica(*voter_ids: int) -> Replica:
    static = VoterSet.static(dict.fromkeys(voter_ids, ("localhost", 9093)), "CONTROLLER")
    return Replica(LOCAL, static, timeouts=Timeouts(1000, 2000), draw=lambda bound: bound - 1)


def started(
    machine: Replica, election: ElectionState | None = None, end: tuple[int, int] = (0, 0)
) -> list[Effect]:
    return machine.start(election or ElectionState(), *end, now_ms=0)


class TestAlone:
    def test_it_elects_itself_in_a_new_epoch_and_writes_that_down_first(self) -> None:
        machine = replica(1)
        effects = started(machine)
        assert effects == [
            PersistElection(ElectionState(0)),
            PersistElection(ElectionState(1, -1, KEY)),
            PersistElection(ElectionState(1, 1)),
            StartEpoch(1, 1, (1,), (1,)),
            LeaderChanged(1, 1),
        ]
        assert isinstance(machine.role, Leader)
        assert machine.deadline_ms is None

    def test_every_start_is_a_new_epoch(self) -> None:
        machine = replica(1)
        effects = started(machine, ElectionState(6, 1), (100, 6))
        assert StartEpoch(7, 1, (1,), (1,)) in effects

    def test_a_candidate_that_was_cut_off_goes_on_in_its_epoch(self) -> None:
        machine = replica(1)
        effects = started(machine, ElectionState(6, -1, KEY), (100, 5))
        assert machine.epoch == 6
        assert isinstance(effects[-2], StartEpoch)

    def test_the_log_may_know_a_higher_epoch_than_the_file(self) -> None:
        machine = replica(1)
        started(machine, ElectionState(2, 1), (100, 9))
        assert machine.epoch == 10

    def test_what_it_has_on_disk_is_committed_from_its_first_record_on(self) -> None:
        machine = replica(1)
        started(machine, ElectionState(6, 1), (100, 6))
        assert machine.flushed(100, 1) == []
        assert machine.flushed(101, 2) == [HighWatermarkMoved(101)]
        assert machine.flushed(101, 3) == []
        assert machine.flushed(140, 4) == [HighWatermarkMoved(140)]

    def test_it_resigns_and_commits_no_more(self) -> None:
        machine = replica(1)
        started(machine)
        machine.resign(5)
        assert isinstance(machine.role, Resigned)
        assert machine.flushed(10, 6) == []


class TestDynamic:
    def started(self, offset: int, voters: VoterSet) -> StartEpoch:
        machine = replica()
        machine.kraft_version_written(offset, 1)
        machine.voters_written(offset, voters)
        found = [effect for effect in started(machine) if isinstance(effect, StartEpoch)]
        return found[0]

    def test_the_first_leader_writes_the_voters_of_the_bootstrap_into_the_log(self) -> None:
        voters = VoterSet([LOCAL])
        effect = self.started(BOOTSTRAP_OFFSET, voters)
        assert (effect.kraft_version, effect.voters) == (1, voters)

    def test_later_ones_do_only_if_something_changed(self) -> None:
        assert self.started(7, VoterSet([LOCAL])).voters is None
        moved = VoterSet([Voter(KEY, (VoterEndpoint("CONTROLLER", "elsewhere", 1),))])
        assert self.started(7, moved).voters == VoterSet([LOCAL])

    def test_a_static_quorum_of_one_can_become_dynamic(self) -> None:
        machine = replica(1)
        started(machine)
        assert machine.upgrade(1) == VoterSet([LOCAL])
        with pytest.raises(ValueError, match="not all of the voters support it"):
            machine.upgrade(2)

    def test_only_a_leader_can_do_that(self) -> None:
        machine = replica(1, 2)
        started(machine)
        with pytest.raises(NotLeader):
            machine.upgrade(1)

    def test_who_is_no_voter_waits(self) -> None:
        machine = replica()
        started(machine)
        assert isinstance(machine.role, Unattached)
        assert machine.deadline_ms is None
        assert machine.tick(10**9) == []


class TestOneOfThree:
    """Without an answer from the others it gets nowhere, and never into a new epoch."""

    def test_it_waits_and_asks_and_waits_again(self) -> None:
        machine = replica(1, 2, 3)
        started(machine)
        assert isinstance(machine.role, Unattached)
        assert machine.deadline_ms == 1999
        assert machine.tick(1998) == []
        machine.tick(1999)
        assert isinstance(machine.role, Prospective)
        machine.tick(10_000)
        assert isinstance(machine.role, Unattached)
        assert machine.epoch == 0

    def test_a_follower_that_hears_nothing_asks_and_follows_on(self) -> None:
        machine = replica(1, 2, 3)
        started(machine, ElectionState(4, 2))
        assert isinstance(machine.role, Follower)
        machine.tick(2000)
        assert isinstance(machine.role, Prospective)
        machine.tick(10_000)
        assert isinstance(machine.role, Follower)
        assert (machine.leader_id, machine.epoch) == (2, 4)

    def test_a_leader_of_before_does_not_lead_on(self) -> None:
        machine = replica(1, 2, 3)
        started(machine, ElectionState(4, 1))
        assert isinstance(machine.role, Resigned)
        machine.tick(5000)
        assert isinstance(machine.role, Unattached)
        assert machine.epoch == 5

    def test_a_candidate_gives_up_its_election_and_asks_again(self) -> None:
        machine = replica(1, 2, 3)
        started(machine, ElectionState(4, -1, KEY))
        assert isinstance(machine.role, Candidate)
        machine.tick(5000)
        assert isinstance(machine.role, Prospective)


def test_the_table_of_transitions_is_closed() -> None:
    for targets in TRANSITIONS.values():
        assert targets <= set(TRANSITIONS)
    assert Leader not in TRANSITIONS[Follower]


def test_a_way_that_is_not_in_the_table_is_a_mistake() -> None:
    machine = replica(1, 2, 3)
    started(machine)
    with pytest.raises(RuntimeError, match="No way leads"):
        machine._become(Resigned(1, 1, 1), [])
