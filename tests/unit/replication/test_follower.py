"""The fetches of a follower, and its side of a fetch session."""

from __future__ import annotations

from typing import Any, cast

from tests.unit.replication.world import TOPIC_ID, ModelLog

from ottla.replication.follower import (
    Append,
    FindOffsets,
    Following,
    GiveUp,
    Pause,
    Position,
    Restart,
    out_of_range,
)
from ottla.wire.errors import ErrorCode


def log_of(*epochs: int) -> Any:
    log = ModelLog()
    for value, epoch in enumerate(epochs):
        log.take(epoch, value)
    return log


def position(log: Any, index: int = 0, leader_epoch: int = 5) -> Position:
    return Position("t", TOPIC_ID, index, leader_epoch, log)


def plan(following: Following, now_ms: int = 0) -> Any:
    return following.plan(now_ms, lambda _key: 0, lambda _position: False)


def step(following: Following, log: Any, code: int = 0, **fields: int) -> Any:
    facts = {
        "diverging_epoch": -1,
        "diverging_end_offset": -1,
        "high_watermark": 3,
        "log_start_offset": 0,
    } | fields
    return following.step(log, leader_epoch=5, code=code, **cast(Any, facts))


def test_a_fetch_starts_at_the_log_end_with_the_last_records_epoch() -> None:
    following = Following()
    following.follow(position(log_of(1, 1, 3)))
    (asked,) = plan(following).sent
    assert (asked.offset, asked.last_fetched_epoch, asked.leader_epoch) == (3, 3, 5)


def test_a_session_sends_changed_and_forgotten_partitions() -> None:
    following = Following()
    logs = [log_of(1), log_of(1)]
    for index, log in enumerate(logs):
        following.follow(position(log, index))
    first = plan(following)
    assert (first.session_id, first.session_epoch, len(first.sent)) == (0, 0, 2)
    assert following.session.on_response(0, 77)
    second = plan(following)
    assert (second.session_id, second.session_epoch, second.sent) == (77, 1, [])
    assert len(second.fetches) == 2
    following.session.on_response(0, 77)
    logs[1].take(5, 9)
    following.appended(following.positions[TOPIC_ID, 1], logs[1], 2)
    following.forget((TOPIC_ID, 0))
    third = plan(following)
    assert (third.session_epoch, [one.index for one in third.sent]) == (2, [1])
    assert third.forgotten == [(TOPIC_ID, 0)]


def test_a_session_lost_by_the_leader_restarts() -> None:
    following = Following()
    following.follow(position(log_of(1)))
    plan(following)
    following.session.on_response(0, 77)
    plan(following)
    assert not following.session.on_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    again = plan(following)
    assert (again.session_id, again.session_epoch, len(again.sent)) == (0, 0, 1)
    following.session.on_response(0, 78)
    plan(following)
    following.session.reset()  # the connection broke: the leader must close its session
    again = plan(following)
    assert (again.session_id, again.session_epoch) == (78, 0)


def test_a_response_counts_only_for_an_unchanged_position() -> None:
    following = Following()
    log = log_of(1)
    following.follow(position(log))
    asked = plan(following).fetches[TOPIC_ID, 0]
    assert following.current(asked) is not None
    log.take(5, 8)
    following.appended(following.positions[TOPIC_ID, 0], log, 2)
    assert following.current(asked) is None
    following.follow(position(log_of(1), leader_epoch=6))
    assert following.current(asked) is None


def test_a_repeated_leader_epoch_changes_nothing() -> None:
    following = Following()
    first = position(log_of(1))
    following.follow(first)
    following.follow(position(log_of(1, 1)))
    assert following.positions[TOPIC_ID, 0] is first


def test_errors_pause_or_end_the_fetching_of_a_partition() -> None:
    following = Following()
    log = log_of(1)
    following.follow(position(log))
    assert isinstance(step(following, log), Append)
    assert step(following, log, ErrorCode.OFFSET_OUT_OF_RANGE) == FindOffsets()
    assert step(following, log, ErrorCode.FENCED_LEADER_EPOCH) == GiveUp()
    for code in (
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ):
        assert step(following, log, code) == Pause(code)
    following.pause([(TOPIC_ID, 0)], 500)
    assert plan(following, 499) is None
    assert following.next_resume_ms(499) == 500
    assert plan(following, 500) is not None


def test_a_log_outside_the_leaders_range_is_truncated_or_restarted() -> None:
    assert out_of_range(log_of(1, 1, 1), 0, 2) == Restart(truncate_to=2)
    assert out_of_range(log_of(1, 1, 1), 5, 9) == Restart(start_over_at=5)
    assert out_of_range(log_of(1, 1, 1), 0, 9) == Restart()


def test_a_log_without_epochs_waits_for_its_truncation() -> None:
    following = Following()
    log = ModelLog()
    log.records = [(-1, 1), (-1, 2)]
    following.follow(position(log))
    assert plan(following) is None
    assert len(following.without_epochs(0)) == 1
    following.follow(position(log_of(), 1))  # an empty log needs no truncation
    assert plan(following) is not None
