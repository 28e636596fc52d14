"""Timers that fire late do not make others silent."""

from __future__ import annotations

from ottla.raft.contact_deadlines import GRACE_MS, OwnWork, Patience
from ottla.raft.roles import Follower, Leader, Resigned


def test_a_deadline_whose_timer_is_on_time_is_judged() -> None:
    role = Follower(1, 2000, 7)
    Patience(2000).extend(role, due_ms=2000, now_ms=2001)
    assert role.deadline_ms == 2000


def test_a_late_timer_extends_the_deadline_by_its_lateness_and_at_least_some_turns_of_the_loop() -> None:
    role = Follower(1, 2000, 7)
    Patience(2000).extend(role, due_ms=2000, now_ms=2300)
    assert role.deadline_ms == 2600
    role = Follower(1, 2000, 7)
    Patience(2000).extend(role, due_ms=2000, now_ms=2003)
    assert role.deadline_ms == 2003 + GRACE_MS


def test_a_timer_that_was_late_for_a_deadline_in_the_future_changes_nothing() -> None:
    role = Follower(1, 5000, 7)
    Patience(2000).extend(role, due_ms=2000, now_ms=2300)
    assert role.deadline_ms == 5000


def test_a_leader_gives_its_majority_more_time_and_one_that_resigned_judges_nobody() -> None:
    leader = Leader(1, 1, 0, frozenset(), {}, check_quorum_ms=3000, begin_epoch_ms=1000)
    Patience(2000).extend(leader, due_ms=1000, now_ms=3500)
    assert (leader.check_quorum_ms, leader.begin_epoch_ms) == (5500, 1000)
    resigned = Resigned(1, 2000, 1)
    Patience(2000).extend(resigned, due_ms=2000, now_ms=2300)
    assert resigned.deadline_ms == 2000


def test_a_loop_that_is_always_late_judges_in_the_end() -> None:
    role, patience, now_ms = Follower(1, 2000, 7), Patience(2000), 2000
    for _ in range(20):
        due_ms, now_ms = role.deadline_ms, role.deadline_ms + 300
        patience.extend(role, due_ms, now_ms)
        if role.deadline_ms <= now_ms:
            break
    assert role.deadline_ms <= now_ms
    extensions_ms = 2000
    lateness_ms = 7 * 300
    assert now_ms <= 2000 + extensions_ms + lateness_ms + 300
    role.deadline_ms = now_ms + 2000  # the leader was heard of: its next silence is another one
    patience.extend(role, role.deadline_ms, role.deadline_ms + 300)
    assert role.deadline_ms == now_ms + 2000 + 600


def test_the_leaders_time_stands_still_while_a_follower_works() -> None:
    role = Follower(1, 2000, 7)
    work = OwnWork(role, 500)
    work.end(role, 3500)
    assert role.deadline_ms == 5000
    work = OwnWork(role, 4000)
    role.deadline_ms = 4100  # the leader said that it resigns
    work.end(role, 9000)
    assert role.deadline_ms == 4100
    other = Follower(2, 2000, 8)
    work.end(other, 9000)
    assert other.deadline_ms == 2000
