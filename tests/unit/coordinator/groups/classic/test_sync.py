"""SyncGroup, Heartbeat, LeaveGroup, and what happens to members that go silent."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.coordinator.groups.classic.classic_world import Call, World

from ottla.wire.errors import ErrorCode, MessageTooLarge, NotEnoughReplicas


def completing(count: int, **options: Any) -> tuple[World, list[str]]:
    """A group whose members have joined and await the leader's assignment; the leader first."""
    world = World()
    calls: list[Call] = [world.join(world.member_id(**options), **options) for _ in range(count)]
    world.advance_until_answered(calls)
    leader = calls[0].answer.leader
    return world, sorted((call.answer.member_id for call in calls), key=lambda i: i != leader)


def test_everybody_gets_what_the_leader_assigned() -> None:
    world, (leader, first, second) = completing(3)
    early = world.sync(first, 1)
    assert early.is_held
    answer = world.sync(leader, 1, {leader: b"L", first: b"1", second: b"2"}).answer
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (b"L", "consumer", "range")
    assert early.answer.assignment == b"1"
    assert world.group.state_name == "Stable"
    assert world.sync(second, 1).answer.assignment == b"2"


def test_the_record_of_a_generation_has_its_members_with_their_assignments() -> None:
    world, (leader, follower) = completing(2)
    since_ms = world.clock.ms
    world.advance(10)
    world.sync(leader, 1, {leader: b"L", "made-up": b"x"})
    assert len(world.log) == 2  # the empty group, and this
    value = world.last_value
    assert value is not None
    assert (value.protocol_type, value.protocol, value.generation) == ("consumer", "range", 1)
    assert value.leader == leader
    assert value.current_state_timestamp == since_ms
    by_id = {member.member_id: member for member in value.members}
    assert {member_id: member.assignment for member_id, member in by_id.items()} == {
        leader: b"L",
        follower: b"",
    }
    member = by_id[leader]
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.session_timeout, member.rebalance_timeout) == (10_000, 60_000)


def test_who_asks_twice_for_its_assignment_gets_both_requests_answered() -> None:
    world, (leader, follower) = completing(2)
    earlier, later = world.sync(follower, 1), world.sync(follower, 1)
    assert earlier.code == ErrorCode.REBALANCE_IN_PROGRESS
    world.sync(leader, 1, {follower: b"1"})
    assert later.answer.assignment == b"1"


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "made-up"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "made-up"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None, "protocol_name": None}, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("is_stable", [False, True])
def test_a_sync_is_of_a_member_of_this_generation_with_its_protocol(
    request_of: dict[str, object], code: ErrorCode, is_stable: bool
) -> None:
    world, (leader,) = completing(1)
    if is_stable:
        world.sync(leader, 1, {leader: b"L"})
    options = {"member_id": leader, "generation": 1, **request_of}
    assert world.sync(**options).code == code  # type: ignore[arg-type]


def test_a_sync_to_no_group_or_an_empty_one_is_of_an_unknown_member() -> None:
    world = World()
    assert world.sync("m", 1).code == ErrorCode.UNKNOWN_MEMBER_ID
    world.member_id()
    assert world.sync("m", 1).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_while_members_join_says_so() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    assert world.sync(follower, 1).code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_newcomer_ends_the_wait_for_an_assignment() -> None:
    world, (_leader, follower) = completing(2)
    waiting = world.sync(follower, 1)
    world.join(version=3)
    assert waiting.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.answer.assignment == b""


@pytest.mark.parametrize("error", [NotEnoughReplicas(), MessageTooLarge()])
def test_if_the_log_rejects_an_assignment_no_member_gets_it_and_all_rejoin(
    error: NotEnoughReplicas | MessageTooLarge,
) -> None:
    world, (leader, follower) = completing(2)
    waiting = world.sync(follower, 1)
    world.refusal = error
    assert world.sync(leader, 1, {leader: b"L", follower: b"1"}).code == error.code
    assert waiting.code == error.code
    assert world.group.state_name == "PreparingRebalance"
    assert world.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    rejoins = [world.join(follower), world.join(leader)]
    assert {call.answer.generation_id for call in rejoins} == {2}
    assert world.sync(leader, 2, {leader: b"L2"}).answer.assignment == b"L2"
    assert world.sync(follower, 2).answer.assignment == b""


def test_members_that_do_not_sync_within_the_rebalance_timeout_are_removed() -> None:
    world, (leader, silent) = completing(2, rebalance_ms=8000)
    world.sync(leader, 1, {leader: b"L", silent: b"S"})
    assert world.group.state_name == "Stable"
    world.advance(7999)
    assert set(world.group.members) == {leader, silent}
    world.advance(1)
    assert set(world.group.members) == {leader}
    assert world.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(leader).answer.generation_id == 2


def test_a_leader_that_sends_no_assignment_in_time_is_removed() -> None:
    world, (leader, follower) = completing(2, rebalance_ms=8000)
    waiting = world.sync(follower, 1)
    for _ in range(4):
        world.advance(2000)
        world.heartbeat(leader, 1)
    assert waiting.code == ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = world.join(follower)
    assert rejoin.answer.leader == follower
    assert rejoin.answer.generation_id == 2


def test_once_all_have_synced_the_sync_timeout_removes_no_member() -> None:
    world = World()
    leader, follower = world.stable(2, rebalance_ms=6000)
    for _ in range(4):
        world.advance(5000)
        assert world.heartbeat(leader, 1) == world.heartbeat(follower, 1) == ErrorCode.NONE


# Heartbeats and sessions


def test_a_heartbeat_is_answered_as_the_state_of_the_group_demands() -> None:
    world, (leader, follower) = completing(2)
    assert world.heartbeat(follower, 1) == ErrorCode.NONE
    world.sync(leader, 1, {})
    assert world.heartbeat(leader, 1) == ErrorCode.NONE
    world.join(leader)
    assert world.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_heartbeat_is_of_a_member_of_this_generation() -> None:
    world = World()
    assert world.heartbeat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    pending_id = world.member_id()
    assert world.heartbeat(pending_id, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    (member_id,) = world.stable()
    assert world.heartbeat(member_id, 0) == ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("made-up", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(member_id, 1, instance_id="made-up") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_a_heartbeat_within_its_session_timeout_is_removed() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.advance(9999)
    assert world.heartbeat(leader, 1) == ErrorCode.NONE
    world.advance(1)
    assert set(world.group.members) == {leader}
    assert world.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_session_ends_while_the_others_wait_for_it_ends_their_wait() -> None:
    world = World()
    leader, _silent = world.stable(2, session_ms=10_000, rebalance_ms=60_000)
    rejoin = world.join(leader)
    world.advance(9999)
    assert rejoin.is_held
    world.advance(1)
    assert rejoin.answer.generation_id == 2
    assert len(world.group.members) == 1


def test_who_waits_needs_no_heartbeat() -> None:
    world, (leader, follower) = completing(2)
    waiting = world.sync(follower, 1)
    for _ in range(5):
        world.advance(9000)
        assert world.heartbeat(leader, 1) == ErrorCode.NONE
    assert waiting.is_held
    world.sync(leader, 1, {follower: b"1"})
    assert waiting.answer.assignment == b"1"
    world.advance(9999)  # its session began with the answer
    assert world.heartbeat(follower, 1) == ErrorCode.NONE


def test_members_that_do_not_rejoin_within_the_rebalance_timeout_are_removed() -> None:
    world = World()
    leader, slow = world.stable(2, rebalance_ms=20_000)
    rejoin = world.join(leader, rebalance_ms=20_000)
    for _ in range(4):
        world.advance(5000)
        world.heartbeat(slow, 1)
    assert rejoin.answer.generation_id == 2
    assert world.heartbeat(slow, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_leaves_an_empty_group_behind_that_is_written() -> None:
    world = World()
    (member_id,) = world.stable()
    world.advance(10_000)
    assert not world.group.members
    assert world.group.state_name == "Empty"
    value = world.last_value
    assert value is not None
    assert (value.protocol_type, value.protocol, value.leader) == ("consumer", None, None)
    assert (value.generation, value.members) == (2, [])
    assert value.current_state_timestamp == world.clock.ms
    assert world.join(member_id).code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.timer_keys == set()


# Leaving


def test_a_member_that_leaves_makes_the_others_rebalance() -> None:
    world = World()
    leader, follower = world.stable(2)
    answer = world.leave((leader, None)).answer
    assert answer.error_code == ErrorCode.NONE
    assert [(left.member_id, left.error_code) for left in answer.members] == [(leader, ErrorCode.NONE)]
    assert world.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(follower).answer.leader == follower


def test_a_batch_of_leaves_says_for_each_member_how_it_went() -> None:
    world = World()
    ids = world.stable(2, static=True)
    instance_ids = [world.group.members[member_id].instance_id for member_id in ids]
    pending_id = world.member_id()
    answer = world.leave(
        (ids[0], instance_ids[0]),
        ("", instance_ids[1]),
        (pending_id, None),
        ("made-up", None),
        ("", None),
        ("", "made-up"),
    ).answer
    assert [left.error_code for left in answer.members] == [ErrorCode.NONE] * 3 + [
        ErrorCode.UNKNOWN_MEMBER_ID
    ] * 3
    assert [left.group_instance_id for left in answer.members][:2] == instance_ids
    assert world.group.state_name == "Empty"
    assert world.timer_keys == set()


def test_a_member_with_another_ones_instance_id_does_not_leave() -> None:
    world = World()
    first, second = world.stable(2, static=True)
    instance_id = world.group.members[second].instance_id
    answer = world.leave((first, instance_id)).answer
    assert answer.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.group.state_name == "Stable"


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    world, (_leader, follower) = completing(2)
    waiting = world.sync(follower, 1)
    world.leave((follower, None))
    assert waiting.code == ErrorCode.UNKNOWN_MEMBER_ID

    world = World()
    joining = world.join(instance_id="i")
    world.leave(("", "i"))
    assert joining.code == ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(3000)
    assert world.group.state_name == "Empty"


def test_when_the_last_one_that_was_missing_leaves_the_generation_begins() -> None:
    world = World()
    leader, follower = world.stable(2)
    rejoin = world.join(leader)
    assert rejoin.is_held
    world.leave((follower, None))
    assert rejoin.answer.generation_id == 2


def test_leaving_an_unknown_group_fails() -> None:
    assert World().leave(("m", None)).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_if_the_log_refuses_an_empty_group_it_is_empty_until_a_restart() -> None:
    world = World()
    (member_id,) = world.stable()
    world.refusal = NotEnoughReplicas()
    assert world.leave((member_id, None)).code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.group.state_name == "Empty"
    assert world.timer_keys == set()
    world.restart()
    assert set(world.group.members) == {member_id}
    world.advance(10_000)
    assert world.group.state_name == "Empty"


# After a restart


def test_a_loaded_group_is_stable_and_its_members_have_a_whole_session() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.advance(9000)
    world.restart()
    assert world.group.state_name == "Stable"
    world.advance(9999)
    assert world.heartbeat(leader, 1) == world.heartbeat(follower, 1) == ErrorCode.NONE
    assert world.sync(follower, 1).answer.assignment == follower.encode()
    world.advance(10_000)
    assert world.group.state_name == "Empty"
    assert world.group.generation == 2


def test_a_follower_of_a_loaded_group_that_has_one_protocol_stays_without_a_rebalance() -> None:
    world = World()
    _leader, follower = world.stable(2)
    world.restart()
    assert world.join(follower).answer.generation_id == 1


def test_a_member_of_a_loaded_group_that_has_more_protocols_makes_it_rebalance() -> None:
    both = [("range", b"r"), ("roundrobin", b"o")]
    world = World()
    _leader, follower = world.stable(2, protocols=both)
    world.restart()
    assert world.join(follower, protocols=both).is_held


def test_a_restart_loses_unwritten_state() -> None:
    world = World()
    (leader,) = world.stable()
    newcomer = world.join(world.member_id())
    rejoin = world.join(leader)
    assert newcomer.code == ErrorCode.NONE
    world.restart()
    assert rejoin.code == ErrorCode.NONE
    assert set(world.group.members) == {leader}
    assert world.group.generation == 1
    assert world.heartbeat(leader, 2) == ErrorCode.ILLEGAL_GENERATION


def test_held_requests_fail_when_the_shard_is_closed() -> None:
    world = World()
    world.stable()
    joining = world.join(world.member_id())
    world.restart()
    assert joining.code == ErrorCode.NOT_COORDINATOR
