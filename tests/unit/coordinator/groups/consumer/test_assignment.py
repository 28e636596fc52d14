"""Assignments too large for one step: made by a task, while the group goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.coordinator.groups.consumer.consumer_world import CALLER, NO_ANSWER, Consumer, World, settle
from tests.unit.coordinator.groups.shards import topic_id_of
from tests.unit.coordinator.pending import recorded

from ottla.coordinator.groups.assignors import ASSIGNORS
from ottla.coordinator.groups.assignors.spec import AssignmentFailed
from ottla.coordinator.groups.consumer import target_assignment
from ottla.coordinator.result import HELD
from ottla.wire.errors import CoordinatorNotAvailable, ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


@pytest.fixture(autouse=True)
def _no_assignment_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_assignment, "INLINE_WORK", 0)


def begin(world: World, **fields: Any) -> list[Any]:
    """A first heartbeat that is held; where its answer will be."""
    request = ConsumerGroupHeartbeatRequest(
        **{
            "group_id": "g",
            "member_id": "m1",
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["a"],
            "topic_partitions": [],
            **fields,
        }
    )
    answers: list[Any] = []
    world.is_busy = True
    response = world.take(world.shard.consumer.heartbeat(request, CALLER, recorded(answers)))
    assert response is HELD
    return answers


def test_the_heartbeat_that_needs_the_assignment_is_answered_when_it_is_there() -> None:
    world = World(a=3)
    answers = begin(world)
    assert answers == []
    assert len(world.shard.on_unloaded()) == 1
    world.work()
    (answer,) = answers
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert [topic.partitions for topic in answer.assignment.topic_partitions] == [[0, 1, 2]]
    assert world.shard.on_unloaded() == []


def test_without_a_reply_to_hold_the_member_gets_it_with_its_next_heartbeat() -> None:
    world = World(a=1)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m1",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["a"],
        topic_partitions=[],
    )
    response = world.take(world.shard.consumer.heartbeat(request, CALLER))
    assert response.assignment.topic_partitions == []
    later = world.heartbeat(member_id="m1", member_epoch=response.member_epoch)
    assert later.assignment is not None
    assert [topic.partitions for topic in later.assignment.topic_partitions] == [[0]]


def test_others_are_answered_at_once_meanwhile() -> None:
    world = World(a=2)
    first = Consumer(world, "m1", ["a"])
    settle([first])
    world.is_busy = True
    second = Consumer(world, "m2", ["a"])
    assert second.beat() == NO_ANSWER
    assert first.beat() == 0
    third = Consumer(world, "m3", ["a"])
    assert third.beat() == 0
    assert third.told == {}
    assert len(world.tasks) == 1
    world.work()
    settle([first, second, third])
    assert sorted(len(member.may_own) for member in (first, second, third)) == [0, 1, 1]


def test_a_member_that_left_meanwhile_gets_nothing_and_its_request_an_error() -> None:
    world = World(a=2)
    answers = begin(world)
    world.is_busy = True
    world.heartbeat(member_id="m1", member_epoch=-1)
    world.work()
    assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.group().target == {}
    assert world.group().is_empty


def test_who_took_over_from_a_static_member_meanwhile_gets_its_share() -> None:
    world = World(a=2)
    first = Consumer(world, "m1", ["a"], instance_id="i1")
    settle([first])
    world.is_busy = True
    Consumer(world, "m2", ["a"]).beat()
    world.heartbeat(member_id="m1", member_epoch=-2, instance_id="i1")
    back = Consumer(world, "m9", ["a"], instance_id="i1")
    back.beat()
    world.work()
    assert world.group().target.keys() == {"m9", "m2"}
    assert [len(target[topic_id_of("a")]) for target in world.group().target.values()] == [1, 1]


def test_a_new_group_does_not_get_the_assignment_of_a_removed_one_of_its_name() -> None:
    world = World(a=2, b=2)
    answers = begin(world)
    world.heartbeat(member_id="m1", member_epoch=-1)
    for record in world.group().tombstones():
        world.replay(record)
    world.is_busy = True
    Consumer(world, "m1", ["b"]).beat()
    world.work()
    assert [answer.error_code for answer in answers] == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert world.group().target_epoch <= world.group().epoch
    member = Consumer(world, "m1", ["b"])
    settle([member])
    assert world.names(member.owned) == {("b", 0), ("b", 1)}


def test_records_that_the_log_refused_leave_the_group_free_to_try_again() -> None:
    world = World(a=2)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m1",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[],
        subscribed_topic_regex="a",
        topic_partitions=[],
    )
    pending = recorded()
    for _ in range(2):
        result = world.shard.consumer.heartbeat(request, CALLER, pending)
        assert [task.key for task in result.tasks] == [("consumer-regex", "g")]
        assert result.on_failed is not None
        result.on_failed(CoordinatorNotAvailable())
    answers = begin(world)
    world.work()
    assert answers[0].error_code == 0


class _Failing:
    name = "uniform"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def assign(self, _spec: Any) -> Iterator[None]:
        yield
        raise self._error


def test_an_assignment_that_cannot_be_made_is_an_error_of_the_server(monkeypatch: Any) -> None:
    world = World(a=2)
    monkeypatch.setitem(ASSIGNORS, "uniform", _Failing(AssignmentFailed("no way")))
    answers = begin(world)
    world.work()
    assert answers[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "no way" in answers[0].error_message
    monkeypatch.undo()
    member = Consumer(world, "m1", ["a"])
    settle([member])
    assert len(member.may_own) == 2


def test_a_task_that_fails_unforeseen_does_not_keep_the_group_from_the_next(monkeypatch: Any) -> None:
    world = World(a=2)
    monkeypatch.setitem(ASSIGNORS, "uniform", _Failing(ZeroDivisionError()))
    begin(world)
    with pytest.raises(ZeroDivisionError):
        world.work()
    world.tasks.clear()
    monkeypatch.undo()
    member = Consumer(world, "m1", ["a"])
    settle([member])
    assert len(member.may_own) == 2
