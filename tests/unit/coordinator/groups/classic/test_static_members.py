"""Static members: they come back under a new id, without a rebalance, and fence their former selves."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.groups.classic.classic_world import World, subscription

from ottla.wire.errors import ErrorCode, NotEnoughReplicas


def static_group(count: int, **options: object) -> tuple[World, list[str], list[str]]:
    """A stable group of static members: their ids and their instance ids, the leader first."""
    world = World()
    ids = world.stable(count, static=True, **options)
    return world, ids, [world.group.members[member_id].instance_id or "" for member_id in ids]


def test_a_restarted_follower_gets_its_assignment_back_without_a_rebalance() -> None:
    world, (leader, follower), (_, instance) = static_group(2)
    back = world.join(instance_id=instance).answer
    assert back.member_id.startswith(f"{instance}-")
    assert back.member_id != follower
    assert (back.generation_id, back.leader, back.members, back.skip_assignment) == (1, leader, [], False)
    assert world.group.state_name == "Stable"
    synced = world.sync(back.member_id, 1, instance_id=instance).answer
    assert synced.assignment == follower.encode()
    assert world.heartbeat(leader, 1) == ErrorCode.NONE


def test_the_new_id_is_written_before_the_response() -> None:
    world, (leader, _follower), (_, instance) = static_group(2)
    back = world.join(instance_id=instance, session_ms=20_000).answer
    value = world.last_value
    assert value is not None
    assert (value.generation, value.leader) == (1, leader)
    kept = {member.group_instance_id: member for member in value.members}[instance]
    assert (kept.member_id, kept.session_timeout) == (back.member_id, 20_000)


def test_the_former_self_is_fenced_everywhere() -> None:
    world, (_leader, follower), (_, instance) = static_group(2)
    world.join(instance_id=instance)
    assert world.heartbeat(follower, 1, instance_id=instance) == ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(follower, 1, instance_id=instance).code == ErrorCode.FENCED_INSTANCE_ID
    assert world.join(follower, instance_id=instance).code == ErrorCode.FENCED_INSTANCE_ID
    assert world.leave((follower, instance)).answer.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_leader_gets_the_members_and_skips_the_assignment() -> None:
    world, (leader, follower), (instance, _) = static_group(2)
    back = world.join(instance_id=instance).answer
    assert back.leader == back.member_id != leader
    assert back.skip_assignment
    assert {member.member_id for member in back.members} == {back.member_id, follower}
    assert world.group.leader_id == back.member_id


def test_before_version_9_the_response_to_a_restarted_leader_names_its_former_id_as_leader() -> None:
    world, (leader, _follower), (instance, _) = static_group(2)
    back = world.join(instance_id=instance, version=8).answer
    assert back.leader == leader != back.member_id
    assert back.members == []
    assert not back.skip_assignment
    assert world.group.leader_id == back.member_id


def test_a_restart_that_changes_the_chosen_protocol_makes_the_group_rebalance() -> None:
    both = [("range", b""), ("roundrobin", b"")]
    world, (_leader, _follower), (_, instance) = static_group(2, protocols=both)
    assert world.group.protocol_name == "range"
    back = world.join(instance_id=instance, protocols=[("roundrobin", b"")])
    assert back.is_held
    assert world.group.state_name == "PreparingRebalance"


def test_a_restart_with_new_topics_keeps_the_generation() -> None:
    world, _, (_, instance) = static_group(2)
    back = world.join(instance_id=instance, protocols=[("range", subscription("u"))])
    assert back.answer.generation_id == 1
    assert world.group.subscribed_topics == frozenset("tu")


def test_a_restart_while_the_assignment_is_made_begins_the_rebalance_anew() -> None:
    world = World()
    calls = [world.join(instance_id=instance) for instance in ("a", "b")]
    world.advance_until_answered(calls)
    leader = calls[0].answer.leader
    follower = next(call.answer.member_id for call in calls if call.answer.member_id != leader)
    instance = world.group.members[follower].instance_id
    waiting = world.sync(follower, 1, instance_id=instance)
    back = world.join(instance_id=instance)
    assert waiting.code == ErrorCode.FENCED_INSTANCE_ID
    assert back.is_held
    world.join(leader, instance_id=world.group.members[leader].instance_id)
    assert back.answer.generation_id == 2


def test_a_restart_while_members_join_fences_the_one_that_waits() -> None:
    world = World()
    first = world.join(instance_id="i")
    second = world.join(instance_id="i")
    assert first.code == ErrorCode.FENCED_INSTANCE_ID
    assert first.answer.protocol_name is None
    world.advance(3000)
    assert second.answer.generation_id == 1
    assert list(world.group.members) == [second.answer.member_id]


def test_a_restart_before_the_assignment_was_fetched_does_not_rebalance_later() -> None:
    world = World()
    calls = [world.join(instance_id=instance, rebalance_ms=8000) for instance in ("a", "b")]
    world.advance_until_answered(calls)
    leader = calls[0].answer.leader
    follower = next(call.answer.member_id for call in calls if call.answer.member_id != leader)
    world.sync(leader, 1, {leader: b"L", follower: b"F"})
    back = world.join(instance_id=world.group.members[follower].instance_id, rebalance_ms=8000).answer
    assert world.sync(back.member_id, 1).answer.assignment == b"F"
    world.advance(9000)
    assert world.group.state_name == "Stable"


def test_if_the_log_refuses_the_new_id_the_old_one_stays() -> None:
    world, (leader, follower), (instance, _) = static_group(2)
    world.refusal = NotEnoughReplicas()
    assert (
        world.join(instance_id=instance, protocols=[("range", b"new")]).code == ErrorCode.NOT_ENOUGH_REPLICAS
    )
    assert set(world.group.members) == {leader, follower}
    assert world.group.leader_id == leader
    assert world.group.static_ids[instance] == leader
    assert world.group.protocol_counts == {"range": 2}
    assert world.heartbeat(leader, 1, instance_id=instance) == ErrorCode.NONE
    world.advance(9999)
    assert world.heartbeat(follower, 1) == ErrorCode.NONE
    world.advance(10)  # the session of the old id ran on, and ended if nothing came
    assert world.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_is_removed_when_its_session_times_out() -> None:
    world, (leader, follower), _ = static_group(2)
    world.advance(9000)
    world.heartbeat(leader, 1)
    world.advance(1000)
    assert follower not in world.group.members
    assert world.group.state_name == "PreparingRebalance"


def test_a_static_member_that_is_away_during_a_rebalance_keeps_its_place() -> None:
    world, (leader, follower), (instance, _) = static_group(2, session_ms=100_000)
    rejoin = world.join(leader, instance_id=instance, session_ms=100_000)
    world.advance(60_000)
    assert {member.member_id for member in rejoin.answer.members} == {leader, follower}
    world.sync(leader, 2, {follower: b"kept"})
    assert world.sync(follower, 2).answer.assignment == b"kept"


@pytest.mark.parametrize("rebalance_ms", [0, -1, -(2**31), 1])
def test_static_members_without_time_to_join_are_not_looked_after_all_the_time(rebalance_ms: int) -> None:
    """The node was busy with nothing else until their sessions ended."""
    world, (leader, _), (_, instance) = static_group(2)
    for member in world.group.members.values():
        member.rebalance_timeout_ms = rebalance_ms
    world.leave(("", instance))
    assert world.group.state_name == "PreparingRebalance"
    world.advance(9_000)
    assert world.group.state_name == "PreparingRebalance"
    assert [*world.group.members] == [leader]
    world.advance(2_000)
    assert world.group.state_name == "Empty"


@pytest.mark.parametrize("after_restart", [False, True])
def test_static_members_are_known_after_a_restart_of_the_node(after_restart: bool) -> None:
    world, (leader, _follower), (_, instance) = static_group(2)
    if after_restart:
        world.restart()
    back = world.join(instance_id=instance).answer
    assert (back.generation_id, back.leader) == (1, leader)
    world.restart()
    assert world.group.static_ids[instance] == back.member_id
