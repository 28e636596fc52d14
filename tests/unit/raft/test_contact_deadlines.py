"""A timer that fires late extends the deadline, because the others may not have been silent."""

from __future__ import annotations

from ottla.raft.contact_deadlines import GRACE_MS, DeadlineExtensions, FollowerWork
from ottla.raft.roles import Follower, Leader, Resigned


def test_a_timer_that_is_on_time_extends_nothing() -> None:
    role = Follower(1, 2000, 7)
    DeadlineExtensions(2000).extend(role, due_ms=2000, now_ms=2001)
    assert role.deadline_ms == 2000


def test_a_late_timer_extends_the_deadline_by_its_delay_and_at_least_by_some_turns_of_the_loop() -> None:
    role = Follower(1, 2000, 7)
    DeadlineExtensions(2000).extend(role, due_ms=2000, now_ms=2300)
    assert role.deadline_ms == 2600
    role = Follower(1, 2000, 7)
    DeadlineExtensions(2000).extend(role, due_ms=2000, now_ms=2003)
    assert role.deadline_ms == 2003 + GRACE_MS


def test_a_late_timer_does_not_extend_a_deadline_in_the_future() -> None:
    role = Follower(1, 5000, 7)
    DeadlineExtensions(2000).extend(role, due_ms=2000, now_ms=2300)
    assert role.deadline_ms == 5000


def test_a_leader_gives_its_majority_more_time_and_a_resigned_leader_waits_for_nobody() -> None:
    leader = Leader(1, 1, 0, frozenset(), {}, check_quorum_ms=3000, begin_epoch_ms=1000)
    DeadlineExtensions(2000).extend(leader, due_ms=1000, now_ms=3500)
    assert (leader.check_quorum_ms, leader.begin_epoch_ms) == (5500, 1000)
    resigned = Resigned(1, 2000, 1)
    DeadlineExtensions(2000).extend(resigned, due_ms=2000, now_ms=2300)
    assert resigned.deadline_ms == 2000


def test_a_deadline_passes_even_if_every_timer_is_late() -> None:
    role, extensions, now_ms = Follower(1, 2000, 7), DeadlineExtensions(2000), 2000
    for _ in range(20):
        due_ms, now_ms = role.deadline_ms, role.deadline_ms + 300
        extensions.extend(role, due_ms, now_ms)
        if role.deadline_ms <= now_ms:
            break
    assert role.deadline_ms <= now_ms
    extensions_ms_max = 2000
    lateness_ms = 7 * 300
    assert now_ms <= 2000 + extensions_ms_max + lateness_ms + 300
    role.deadline_ms = now_ms + 2000  # the leader responds, so the next deadline is another one
    extensions.extend(role, role.deadline_ms, role.deadline_ms + 300)
    assert role.deadline_ms == now_ms + 2000 + 600


def test_the_work_of_a_follower_extends_the_deadline_of_its_leader() -> None:
    role = Follower(1, 2000, 7)
    work = FollowerWork(role, 500)
    work.end(role, 3500)
    assert role.deadline_ms == 5000
    work = FollowerWork(role, 4000)
    role.deadline_ms = 4100  # the leader resigns
    work.end(role, 9000)
    assert role.deadline_ms == 4100
    other = Follower(2, 2000, 8)
    work.end(other, 9000)
    assert other.deadline_ms == 2000
