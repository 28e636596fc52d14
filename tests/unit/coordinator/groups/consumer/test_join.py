"""Members of consumer groups: joining, living, leaving, and what they are refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.coordinator.groups.consumer.consumer_world import Consumer, World, settle
from tests.unit.coordinator.groups.shards import topic_id_of

from ottla.coordinator.groups.consumer.member import MemberState
from ottla.coordinator.result import Caller
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def assigned(response: ConsumerGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    if response.assignment is None:
        return None
    return {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}


def owned(**topics: list[int]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id_of(name), partitions=partitions)
        for name, partitions in topics.items()
    ]


def test_the_first_member_gets_all_partitions_with_its_first_heartbeat() -> None:
    world = World(a=3)
    response = world.join("m1", "a")
    assert response.error_code == 0
    assert response.member_id == "m1"
    assert response.member_epoch == 2  # a group begins with epoch 1
    assert response.heartbeat_interval_ms == 5000
    assert assigned(response) == {topic_id_of("a"): [0, 1, 2]}
    assert world.group().state_name == "Stable"


def test_a_member_without_an_id_is_given_one() -> None:
    world = World(a=1)
    response = world.join("", "a", caller=Caller(0))
    assert len(response.member_id or "") == 22
    assert world.group().members.keys() == {response.member_id}


def test_a_heartbeat_that_says_nothing_new_writes_nothing_and_brings_no_assignment() -> None:
    world = World(a=3)
    world.join("m1", "a")
    written = len(world.log)
    response = world.heartbeat(member_id="m1", member_epoch=2)
    assert (response.error_code, response.member_epoch, response.assignment) == (0, 2, None)
    assert len(world.log) == written


def test_a_full_heartbeat_brings_the_assignment_again() -> None:
    world = World(a=2)
    world.join("m1", "a")
    response = world.heartbeat(
        member_id="m1",
        member_epoch=2,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["a"],
        topic_partitions=owned(a=[0]),
    )
    assert assigned(response) == {topic_id_of("a"): [0, 1]}


def test_a_partition_moves_only_after_its_owner_has_given_it_up() -> None:
    world = World(a=2)
    world.join("m1", "a")
    second = world.join("m2", "a")
    assert assigned(second) == {}  # both are still with the first
    assert world.group().members["m2"].state is MemberState.UNRELEASED_PARTITIONS
    asked_back = world.heartbeat(member_id="m1", member_epoch=2)
    assert asked_back.member_epoch == 2
    (kept,) = assigned(asked_back)[topic_id_of("a")]  # type: ignore[index]
    assert world.group().members["m1"].state is MemberState.UNREVOKED_PARTITIONS
    assert world.group().state_name == "Reconciling"
    still_waiting = world.heartbeat(member_id="m2", member_epoch=3)
    assert still_waiting.assignment is None
    given_up = world.heartbeat(member_id="m1", member_epoch=2, topic_partitions=owned(a=[kept]))
    assert given_up.member_epoch == 3
    got = world.heartbeat(member_id="m2", member_epoch=3)
    assert assigned(got) == {topic_id_of("a"): [1 - kept]}
    assert world.group().state_name == "Stable"


def test_a_member_that_still_owns_what_it_is_to_give_up_stays_in_its_epoch() -> None:
    world = World(a=2)
    world.join("m1", "a")
    world.join("m2", "a")
    world.heartbeat(member_id="m1", member_epoch=2)
    response = world.heartbeat(member_id="m1", member_epoch=2, topic_partitions=owned(a=[0, 1]))
    assert response.member_epoch == 2
    assert world.group().members["m1"].state is MemberState.UNREVOKED_PARTITIONS


def test_a_member_that_does_not_give_up_in_time_is_fenced() -> None:
    world = World(a=2)
    first, second = Consumer(world, "m1", ["a"]), Consumer(world, "m2", ["a"])
    settle([first])
    second.beat()
    first.beat()
    timer = world.timers["consumer-rebalance", "g", "m1"]
    assert timer.delay_ms == 60_000
    world.fire(timer.key)
    assert first.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    settle([second])
    assert len(second.may_own) == 2


def test_the_rebalance_timer_stops_when_the_partitions_are_given_up() -> None:
    world = World(a=2)
    first, second = Consumer(world, "m1", ["a"]), Consumer(world, "m2", ["a"])
    settle([first])
    second.beat()
    first.beat()
    first.reconcile()
    first.beat()
    assert ("consumer-rebalance", "g", "m1") not in world.timers


def test_a_member_that_is_silent_for_its_session_is_fenced_and_its_partitions_go_to_others() -> None:
    world = World(a=2)
    first, second = Consumer(world, "m1", ["a"]), Consumer(world, "m2", ["a"])
    settle([first, second])
    assert world.timers["consumer-session", "g", "m1"].delay_ms == 45_000
    world.fire(("consumer-session", "g", "m1"))
    settle([second])
    assert len(second.may_own) == 2
    assert first.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leaving_member_is_answered_with_its_leave_epoch_and_removed_from_the_log() -> None:
    world = World(a=1)
    world.join("m1", "a")
    response = world.heartbeat(member_id="m1", member_epoch=-1)
    assert (response.error_code, response.member_epoch, response.member_id) == (0, -1, "m1")
    assert world.group().is_empty
    assert not [key for key in world.timers if key[0].startswith("consumer-")]
    reloaded = world.reload(fast=False)
    assert reloaded.shard.groups["g"].is_empty


@pytest.mark.parametrize("epoch", [-1, 3])
def test_a_heartbeat_of_an_unknown_member_fails(epoch: int) -> None:
    world = World(a=1)
    world.join("m1", "a")
    assert world.heartbeat(member_id="other", member_epoch=epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [-1, 3])
def test_a_heartbeat_to_a_group_that_is_not_there_is_refused(epoch: int) -> None:
    response = World(a=1).heartbeat(member_id="m1", member_epoch=epoch)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_greater_epoch_than_the_known_one_is_fenced() -> None:
    world = World(a=1)
    world.join("m1", "a")
    response = world.heartbeat(member_id="m1", member_epoch=9)
    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch (9) than the one known by the group coordinator (2)" in (
        response.error_message or ""
    )


def test_a_heartbeat_is_tried_again_with_the_previous_epoch_after_its_answer_was_lost() -> None:
    world = World(a=2)
    world.join("m1", "a")
    world.join("m2", "a")
    world.heartbeat(member_id="m1", member_epoch=2)
    (kept,) = world.group().members["m1"].assigned[topic_id_of("a")]
    world.heartbeat(member_id="m1", member_epoch=2, topic_partitions=owned(a=[kept]))  # now in epoch 3
    again = world.heartbeat(member_id="m1", member_epoch=2, topic_partitions=owned(a=[kept]))
    assert (again.error_code, again.member_epoch) == (0, 3)


@pytest.mark.parametrize("what", [None, [0, 1], []])
def test_the_previous_epoch_is_fenced_unless_the_member_owns_only_what_it_should(what: Any) -> None:
    world = World(a=2)
    world.join("m1", "a")
    world.join("m2", "a")
    world.heartbeat(member_id="m1", member_epoch=2)
    (kept,) = world.group().members["m1"].assigned[topic_id_of("a")]
    world.heartbeat(member_id="m1", member_epoch=2, topic_partitions=owned(a=[kept]))
    response = world.heartbeat(
        member_id="m1", member_epoch=2, topic_partitions=None if what is None else owned(a=what)
    )
    assert response.error_code == (0 if what == [] else ErrorCode.FENCED_MEMBER_EPOCH)


def test_a_fenced_member_joins_again_with_its_id_and_epoch_0() -> None:
    world = World(a=2)
    world.join("m1", "a")
    again = world.join("m1", "a")
    assert (again.error_code, again.member_epoch) == (0, 2)
    assert assigned(again) == {topic_id_of("a"): [0, 1]}


def test_a_full_group_takes_no_new_member_but_lets_the_old_ones_live() -> None:
    world = World({"group.consumer.max.size": "1"}, a=1)
    world.join("m1", "a")
    refused = world.join("m2", "a")
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.heartbeat(member_id="m1", member_epoch=2).error_code == 0
    assert world.group().members.keys() == {"m1"}


def test_a_subscription_to_a_topic_that_does_not_exist_is_served_once_it_does() -> None:
    world = World(a=1)
    member = Consumer(world, "m1", ["later"])
    settle([member])
    assert member.may_own == set()
    world.make_topic("later", 2)
    settle([member])
    assert member.may_own == {(topic_id_of("later"), 0), (topic_id_of("later"), 1)}


def test_a_topic_that_grows_is_shared_out_anew() -> None:
    world = World(a=1)
    members = [Consumer(world, "m1", ["a"]), Consumer(world, "m2", ["a"])]
    settle(members)
    epoch = world.group().epoch
    world.grow_topic("a", 4)
    settle(members)
    assert world.group().epoch == epoch + 1
    assert sorted(len(member.may_own) for member in members) == [2, 2]


def test_a_topic_that_is_deleted_and_made_again_is_another_topic() -> None:
    world = World(a=2)
    member = Consumer(world, "m1", ["a"])
    settle([member])
    world.delete_topic("a")
    settle([member])
    assert member.may_own == set()
    world.make_topic("a", 1, life=1)
    settle([member])
    assert member.may_own == {(topic_id_of("a", 1), 0)}


def test_a_change_of_leaders_alone_is_no_reason_to_assign_anew() -> None:
    world = World(a=2)
    member = Consumer(world, "m1", ["a"])
    settle([member])
    epoch, written = world.group().epoch, len(world.log)
    world.grow_topic("a", 2)  # nothing new
    member.beat()
    assert (world.group().epoch, len(world.log)) == (epoch, written)


def test_a_member_that_drops_a_topic_gives_it_up_before_the_next_assignment() -> None:
    world = World({"group.consumer.assignment.interval.ms": "1000"}, a=1, b=1)
    world.join("m1", "a", "b")
    response = world.heartbeat(member_id="m1", member_epoch=2, subscribed_topic_names=["a"])
    assert (response.member_epoch, assigned(response)) == (2, {topic_id_of("a"): [0]})
    assert world.group().members["m1"].state is MemberState.UNREVOKED_PARTITIONS
    assert world.group().state_name == "Assigning"


def test_members_that_join_within_the_assignment_interval_are_assigned_together() -> None:
    world = World({"group.consumer.assignment.interval.ms": "1000"}, a=4)
    members = [Consumer(world, f"m{i}", ["a"]) for i in range(4)]
    for member in members:
        member.beat()
    assert world.group().target_epoch == 2  # the first one's: the others wait
    assert world.group().epoch == 5
    world.clock.value_ms += 999
    members[0].beat()
    assert world.group().target_epoch == 2
    world.clock.value_ms += 1
    members[0].beat()
    assert world.group().target_epoch == 5
    settle(members)
    assert [len(member.may_own) for member in members] == [1, 1, 1, 1]


def test_the_assignor_that_most_members_ask_for_is_taken() -> None:
    world = World(a=4, b=4)
    world.join("m1", "a", "b", server_assignor="range")
    world.join("m2", "a", "b", server_assignor="range")
    world.join("m3", "a", "b", server_assignor="uniform")
    assert world.shard.consumer.describe("g").assignor_name == "range"
    assert {
        member_id: sorted(map(len, target.values())) for member_id, target in world.group().target.items()
    } == {"m1": [2, 2], "m2": [1, 1], "m3": [1, 1]}


def test_without_a_wish_the_first_assignor_of_the_node_is_taken() -> None:
    world = World({"group.consumer.assignors": "range,uniform"}, a=1)
    world.join("m1", "a")
    assert world.shard.consumer.describe("g").assignor_name == "range"


def test_an_assignor_that_a_loaded_group_asks_for_and_this_node_lacks_is_replaced_by_the_first() -> None:
    world = World({"group.consumer.assignors": "uniform"}, a=2)
    assert world.join("m1", "a", server_assignor="range").error_code == 0
    assert world.group().target["m1"] == {topic_id_of("a"): (0, 1)}


def test_group_settings_override_those_of_the_node() -> None:
    world = World(a=1)
    texts = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    world.settings._group_texts = {"g": texts}
    assert world.join("m1", "a").heartbeat_interval_ms == 7000
    assert world.timers["consumer-session", "g", "m1"].delay_ms == 50_000
