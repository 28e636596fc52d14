"""Groups that move between the two protocols while they live, and classic members of consumer groups."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.groups.classic.classic_consumer import CALLER, ClassicConsumer, versioned
from tests.unit.coordinator.groups.consumer.consumer_world import Consumer, World, settle
from tests.unit.coordinator.groups.shards import topic_id_of
from tests.unit.coordinator.pending import recorded

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.coordinator.groups.consumer.member import MemberState
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment


def classic_group(world: World, *, instance_id: str | None = None) -> ClassicConsumer:
    """A stable classic group of one consumer that owns all of topic a."""
    member = ClassicConsumer(world, ["a"], instance_id=instance_id)
    assert member.join() == -1
    world.fire(("classic-join", "g"))
    assert member.joined(member.answers[0]) == 0
    assert member.leads
    assert member.sync({member.id: {"a": list(range(len(world.image.topics_by_name["a"].partitions)))}}) == 0
    return member


def settle_all(classic: list[ClassicConsumer], consumers: list[Consumer]) -> None:
    for _ in range(6):
        for member in classic:
            member.rejoin_if_told()
        settle(consumers, 1)


def test_a_consumer_that_joins_a_classic_group_makes_it_a_consumer_group() -> None:
    world = World(a=2)
    old = classic_group(world)
    generation = old.generation
    new = Consumer(world, "m1", ["a"])
    assert new.beat() == 0
    group = world.group()
    assert group.members.keys() == {old.id, "m1"}
    assert group.members[old.id].classic is not None
    assert group.epoch == generation + 1
    assert new.may_own == set()  # the other one still owns all
    settle_all([old], [new])
    assert len(new.may_own) == 1
    assert sum(map(len, old.owned.values())) == 1
    assert group.state_name == "Stable"
    assert not [key for key in world.timers if str(key[0]).startswith("classic-")]


def test_a_classic_member_has_to_rejoin_and_revokes_before_others_get_partitions() -> None:
    world = World(a=2)
    old = classic_group(world)
    new = Consumer(world, "m1", ["a"])
    new.beat()
    assert old.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert old.join() == 0
    assert world.group().members[old.id].state is MemberState.UNREVOKED_PARTITIONS
    assert old.sync() == 0
    assert sum(map(len, old.owned.values())) == 1
    new.beat()
    assert new.may_own == set()
    assert old.beat() == ErrorCode.REBALANCE_IN_PROGRESS  # it has to say that it gave up
    assert old.join() == 0
    assert old.sync() == 0
    new.beat()
    assert len(new.may_own) == 1
    assert old.beat() == 0


def test_the_converted_group_is_the_same_after_a_reload() -> None:
    world = World(a=2)
    old = classic_group(world)
    new = Consumer(world, "m1", ["a"])
    new.beat()
    world.restart()
    assert world.group().members[old.id].classic is not None
    settle_all([old], [new])
    assert world.group().state_name == "Stable"


def test_members_with_held_classic_requests_have_to_rejoin() -> None:
    world = World(a=2)
    classic_group(world)
    second = ClassicConsumer(world, ["a"])
    assert second.join() == -1
    Consumer(world, "m1", ["a"]).beat()
    assert [answer.error_code for answer in second.answers] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert second.join() == 0


def test_a_classic_group_is_upgraded_during_its_first_rebalance() -> None:
    world = World(a=2)
    old = ClassicConsumer(world, ["a"])
    assert old.join() == -1
    new = Consumer(world, "m1", ["a"])
    assert new.beat() == 0
    assert [answer.error_code for answer in old.answers] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert old.join() == 0
    assert old.sync() == 0
    settle_all([old], [new])
    assert sum(map(len, old.owned.values())) == 1
    assert len(new.may_own) == 1


def test_a_group_is_upgraded_whose_member_no_longer_has_the_protocol_of_the_last_generation() -> None:
    world = World(a=2)
    classic_group(world)
    second = ClassicConsumer(world, ["a"])
    second.protocols = ["range"]  # the generation before chose cooperative-sticky
    assert second.join() == -1
    new = Consumer(world, "m1", ["a"])
    assert new.beat() == 0
    assert world.group().members[second.id].topic_names == {"a"}


def test_the_group_goes_back_when_the_last_consumer_of_the_new_protocol_leaves() -> None:
    world = World(a=2)
    old = classic_group(world)
    new = Consumer(world, "m1", ["a"])
    settle_all([old], [new])
    new.beat()
    settle_all([old], [new])
    assert new.leave() == 0
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicState.PREPARING
    assert group.members.keys() == {old.id}
    assert not [key for key in world.timers if str(key[0]).startswith("consumer-")]
    assert old.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert old.join() == 0
    assert old.leads
    assert old.sync({old.id: {"a": [0, 1]}}) == 0
    reloaded = world.reload(fast=False).shard.groups["g"]
    assert isinstance(reloaded, ClassicGroup)


def test_the_group_goes_back_when_the_session_of_the_last_consumer_ends() -> None:
    world = World(a=2)
    classic_group(world)
    Consumer(world, "m1", ["a"]).beat()
    world.fire(("consumer-session", "g", "m1"))
    assert isinstance(world.shard.groups["g"], ClassicGroup)


def test_a_group_of_which_nobody_is_left_does_not_go_back() -> None:
    world = World(a=2)
    old = classic_group(world)
    new = Consumer(world, "m1", ["a"])
    new.beat()
    assert old.leave() == 0
    new.leave()
    assert isinstance(world.shard.groups["g"], ConsumerGroup)
    assert world.group().is_empty


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_without_leave_to_upgrade_a_classic_group_takes_no_consumers(policy: str) -> None:
    world = World({"group.consumer.migration.policy": policy}, a=2)
    classic_group(world)
    response = world.join("m1", "a")
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(world.shard.groups["g"], ClassicGroup)


def test_without_leave_to_downgrade_the_group_stays_as_it_is() -> None:
    world = World({"group.consumer.migration.policy": "upgrade"}, a=2)
    old = classic_group(world)
    new = Consumer(world, "m1", ["a"])
    new.beat()
    new.leave()
    assert world.group().members.keys() == {old.id}


def test_classic_members_alone_in_a_consumer_group_are_assigned_anew_when_something_changes() -> None:
    world = World({"group.consumer.migration.policy": "upgrade"}, a=2)
    old = classic_group(world)
    new = Consumer(world, "m1", ["a"])
    settle_all([old], [new])
    new.leave()
    settle_all([old], [])
    assert old.owned == {"a": [0, 1]}
    world.grow_topic("a", 3)
    settle_all([old], [])
    assert old.owned == {"a": [0, 1, 2]}
    assert world.group().state_name == "Stable"


def test_with_migration_disabled_a_consumer_group_takes_no_classic_members() -> None:
    world = World({"group.consumer.migration.policy": "disabled"}, a=2)
    settle([Consumer(world, "m1", ["a"])])
    assert ClassicConsumer(world, ["a"]).join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_joins_a_consumer_group_and_gets_its_share() -> None:
    world = World(a=2)
    new = Consumer(world, "m1", ["a"])
    settle([new])
    old = ClassicConsumer(world, ["a"])
    assert old.join() == 0
    assert old.sync() == 0
    assert world.timers["consumer-session", "g", old.id].delay_ms == 10_000
    settle_all([old], [new])
    assert sum(map(len, old.owned.values())) == 1
    assert len(new.may_own) == 1
    assert world.shard.consumer.describe("g").members[1].member_type == 0


def test_a_classic_member_of_another_protocol_type_is_refused() -> None:
    world = World(a=2)
    settle([Consumer(world, "m1", ["a"])])
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="connect",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    pending = recorded()
    response = world.take(world.shard.classic.join(request, CALLER, pending))
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_that_names_a_protocol_twice_counts_once() -> None:
    world = World(a=3)
    new = Consumer(world, "m1", ["a"])
    settle([new])
    classic = [ClassicConsumer(world, ["a"]) for _ in range(3)]
    for member, protocols in zip(
        classic, (["range", "odd", "range", "odd"], ["range"], ["odd"]), strict=True
    ):
        member.protocols = protocols
    assert [member.join() for member in classic] == [0, 0, ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert new.leave() == 0
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.protocol_name == "range"


def test_a_classic_member_with_bytes_that_are_no_subscription_is_refused() -> None:
    world = World(a=2)
    settle([Consumer(world, "m1", ["a"])])
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="given",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0")],
    )
    pending = recorded()
    response = world.take(world.shard.classic.join(request, CALLER, pending))
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_that_does_not_join_again_in_time_is_fenced() -> None:
    world = World(a=2)
    old = classic_group(world)
    Consumer(world, "m1", ["a"]).beat()
    assert old.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    key = ("consumer-join", "g", old.id)
    first = world.timers[key]
    old.beat()
    assert world.timers[key] is first  # the time runs from when it was told first
    world.fire(key)
    assert old.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_sync_in_time_is_fenced() -> None:
    world = World(a=2)
    settle([Consumer(world, "m1", ["a"])])
    old = ClassicConsumer(world, ["a"])
    old.join()
    world.fire(("consumer-sync", "g", old.id))
    assert old.sync() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_of_another_generation_or_name_is_refused() -> None:
    world = World(a=2)
    settle([Consumer(world, "m1", ["a"])])
    old = ClassicConsumer(world, ["a"])
    old.join()
    old.generation += 1
    assert old.beat() == ErrorCode.ILLEGAL_GENERATION
    assert old.sync() == ErrorCode.ILLEGAL_GENERATION
    old.id = "m1"
    assert old.beat() == ErrorCode.UNKNOWN_MEMBER_ID  # it does not speak the classic protocol


def test_a_classic_static_member_takes_the_place_of_its_former_self_and_the_group_goes_back() -> None:
    world = World(a=2)
    new = Consumer(world, "m1", ["a"], instance_id="i1")
    settle([new])
    old = ClassicConsumer(world, ["a"], instance_id="i1")
    assert old.join() == 0
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicState.STABLE
    assert group.members.keys() == {old.id}
    assert old.sync() == 0
    assert old.owned == {"a": [0, 1]}
    assert new.beat() == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_static_member_is_restarted_with_the_new_protocol() -> None:
    world = World(a=2)
    old = classic_group(world, instance_id="i1")
    new = Consumer(world, "m1", ["a"], instance_id="i1")
    settle([new])
    assert len(new.may_own) == 2
    assert world.group().members.keys() == {"m1"}
    assert old.beat() == ErrorCode.FENCED_INSTANCE_ID


def test_leave_group_removes_members_of_both_protocols() -> None:
    world = World(a=2)
    old = classic_group(world)
    new = Consumer(world, "m1", ["a"], instance_id="i1")
    new.beat()
    request = LeaveGroupRequest(
        group_id="g",
        members=[
            LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id="i1"),
            LeaveGroupRequest.MemberIdentity(member_id="nobody"),
            LeaveGroupRequest.MemberIdentity(member_id="x", group_instance_id="i1"),
        ],
    )
    response = world.take(world.shard.classic.leave(request, CALLER))
    assert [answer.error_code for answer in response.members] == [
        0,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.members.keys() == {old.id}


def test_an_empty_group_of_either_protocol_makes_room_for_the_other() -> None:
    world = World(a=2)
    old = classic_group(world)
    old.leave()
    new = Consumer(world, "m1", ["a"])
    settle([new])
    assert len(new.may_own) == 2
    new.leave()
    again = ClassicConsumer(world, ["a"])
    assert again.join() == -1
    assert isinstance(world.shard.groups["g"], ClassicGroup)
    world.restart()
    assert isinstance(world.shard.groups["g"], ClassicGroup)


def test_an_assignment_with_data_of_a_custom_assignor_is_not_thrown_away() -> None:
    world = World(a=2)
    member = classic_group(world)
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    group.members[member.id].assignment = versioned(ConsumerProtocolAssignment(user_data=b"mine"))
    response = world.join("m1", "a")
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in (response.error_message or "")
    assert topic_id_of("a") in world.image.topics
