"""The leader of three voters lets them change, one change at a time."""

from __future__ import annotations

import pytest
from tests.unit.raft.scenario import KEYS, VOTER_IDS, VOTERS, leader

from ottla.raft.effects import LeadershipLost
from ottla.raft.events import VotersAppended
from ottla.raft.messages import VoterChangeRefused
from ottla.raft.roles import Leader, Resigned
from ottla.raft.voters import ReplicaKey, VoterSet
from ottla.wire.errors import ErrorCode


def test_an_observer_that_has_caught_up_becomes_a_voter() -> None:
    one = leader(is_dynamic=True)
    with pytest.raises(VoterChangeRefused, match="not caught up"):
        one.replica.with_voter(VOTERS[4], 1100)
    one.now_ms = 1100
    one.fetch(4, 11)
    voters = one.replica.with_voter(VOTERS[4], 1200)
    assert voters.ids == [1, 2, 3, 4]
    one.step(VotersAppended(11, voters))
    assert one.leader.progress[4].end_offset == 11


def test_a_change_waits_for_the_commit_of_the_one_before() -> None:
    one = leader(is_dynamic=True)
    one.step(VotersAppended(11, one.replica.without_voter(KEYS[3])))
    one.append(12)
    one.flush(12)
    with pytest.raises(VoterChangeRefused, match="not committed yet"):
        one.replica.without_voter(KEYS[2])
    one.fetch(2, 12)
    assert one.replica.without_voter(KEYS[2]).ids == [1]


def test_a_removed_leader_commits_its_removal_without_its_own_vote_and_resigns() -> None:
    one = leader(is_dynamic=True)
    one.step(VotersAppended(11, one.replica.without_voter(KEYS[1])))
    one.append(12)
    one.flush(12)
    one.fetch(2, 12)
    assert one.role() is Leader
    one.fetch(3, 12)
    assert one.role() is Resigned
    assert LeadershipLost(5) in one.effects
    assert one.replica.high_watermark == 12


def test_another_directory_under_the_same_id_is_another_voter() -> None:
    one = leader(is_dynamic=True)
    with pytest.raises(VoterChangeRefused) as refused:
        one.replica.without_voter(ReplicaKey(2, b"x" * 16))
    assert refused.value.code is ErrorCode.VOTER_NOT_FOUND
    assert refused.value.message.startswith(
        "Cannot remove voter ReplicaKey(id=2, directoryId=eHh4eHh4eHh4eHh4eHh4eA) from the set of voters "
    )
    one.now_ms = 1100
    one.fetch(ReplicaKey(2, b"x" * 16), 11)
    assert one.leader.progress[2].last_fetch_ms == 1000


def test_a_static_quorum_becomes_dynamic_once_all_voters_have_described_themselves() -> None:
    one = leader()
    with pytest.raises(ValueError, match="not all of the voters support it"):
        one.replica.with_kraft_version(1)
    for voter_id in (2, 3):
        assert one.replica.with_updated_voter(VOTERS[voter_id], 1100) is None
    assert one.replica.with_kraft_version(1) == VoterSet(VOTERS[i] for i in VOTER_IDS)
