"""Static members of consumer groups: they leave for a while and come back to what they had."""

from __future__ import annotations

from tests.unit.coordinator.groups.consumer.consumer_world import Consumer, World, settle
from tests.unit.coordinator.groups.shards import topic_id_of

from ottla.coordinator.groups.consumer.member import LEAVE_STATIC_EPOCH
from ottla.wire.errors import ErrorCode


def joined(world: World, member_id: str, instance_id: str) -> Consumer:
    member = Consumer(world, member_id, ["a"], instance_id=instance_id)
    settle([member])
    return member


def test_a_static_member_that_left_keeps_its_partitions_and_its_session() -> None:
    world = World(a=2)
    joined(world, "m1", "i1")
    response = world.heartbeat(member_id="m1", member_epoch=-2, instance_id="i1")
    assert (response.error_code, response.member_epoch) == (0, -2)
    member = world.group().members["m1"]
    assert member.epoch == LEAVE_STATIC_EPOCH
    assert member.assigned == {topic_id_of("a"): {0: 0, 1: 0}}
    assert world.group().is_owned(topic_id_of("a"), 0)
    assert ("consumer-session", "g", "m1") in world.timers


def test_a_static_member_with_a_new_id_gets_the_same_partitions_without_a_rebalance() -> None:
    world = World(a=4)
    joined(world, "m1", "i1")
    other = Consumer(world, "m2", ["a"])
    settle([other])
    first = Consumer(world, "m1", ["a"], instance_id="i1")
    first.epoch = world.group().members["m1"].epoch
    settle([first, other])
    epoch = world.group().epoch
    had = world.group().members["m1"].assigned
    world.heartbeat(member_id="m1", member_epoch=-2, instance_id="i1")
    back = Consumer(world, "m9", ["a"], instance_id="i1")
    assert back.beat() == 0
    assert back.epoch == epoch == world.group().epoch
    assert {topic_id: set(partitions) for topic_id, partitions in had.items()} == back.told
    assert world.group().members.keys() == {"m9", "m2"}
    assert world.group().target.keys() == {"m9", "m2"}
    assert ("consumer-session", "g", "m1") not in world.timers


def test_an_instance_id_is_not_given_to_another_before_it_is_released() -> None:
    world = World(a=1)
    joined(world, "m1", "i1")
    refused = world.join("m2", "a", instance_id="i1")
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.group().members.keys() == {"m1"}


def test_the_former_holder_of_an_instance_id_is_fenced() -> None:
    world = World(a=1)
    joined(world, "m1", "i1")
    world.heartbeat(member_id="m1", member_epoch=-2, instance_id="i1")
    world.join("m2", "a", instance_id="i1")
    for epoch in (2, -1, -2):
        response = world.heartbeat(member_id="m1", member_epoch=epoch, instance_id="i1")
        assert response.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_unknown_instance_id_is_an_unknown_member() -> None:
    world = World(a=1)
    joined(world, "m1", "i1")
    for epoch in (2, -1, -2):
        response = world.heartbeat(member_id="m1", member_epoch=epoch, instance_id="other")
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_within_its_session_is_fenced() -> None:
    world = World(a=2)
    joined(world, "m1", "i1")
    world.heartbeat(member_id="m1", member_epoch=-2, instance_id="i1")
    world.fire(("consumer-session", "g", "m1"))
    assert world.group().is_empty
    assert world.group().static_members == {}


def test_a_static_member_leaves_for_good_with_epoch_minus_1() -> None:
    world = World(a=1)
    member = joined(world, "m1", "i1")
    assert member.leave() == 0
    assert world.group().is_empty


def test_a_static_member_with_a_new_subscription_causes_a_new_assignment() -> None:
    world = World(a=2, b=2)
    joined(world, "m1", "i1")
    epoch = world.group().epoch
    world.heartbeat(member_id="m1", member_epoch=-2, instance_id="i1")
    back = Consumer(world, "m2", ["b"], instance_id="i1")
    settle([back])
    assert world.group().epoch == epoch + 1
    assert world.names(back.owned) == {("b", 0), ("b", 1)}


def test_a_static_member_rejoins_after_a_reload() -> None:
    world = World(a=2)
    joined(world, "m1", "i1")
    world.heartbeat(member_id="m1", member_epoch=-2, instance_id="i1")
    loaded = world.reload(fast=False)
    world.shard = loaded.shard
    back = Consumer(world, "m2", ["a"], instance_id="i1")
    settle([back])
    assert len(back.may_own) == 2
    assert world.group().members.keys() == {"m2"}
