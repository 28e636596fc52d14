"""What a classic group says of itself to offsets, DescribeGroups and the consumer protocol."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.groups.classic.classic_world import World, subscription

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.groups.classic.member import ClassicMember, winner
from ottla.coordinator.result import Result
from ottla.wire.errors import (
    ErrorCode,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    KafkaError,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)


def commit(
    group: ClassicGroup,
    member_id: str,
    epoch: int,
    *,
    instance: str | None = None,
    transactional: bool = False,
) -> None:
    group.check_offset_commit(member_id, instance, epoch, is_transactional=transactional, version=9)


def member(member_id: str, *protocols: tuple[str, bytes], instance_id: str | None = None) -> ClassicMember:
    return ClassicMember(
        member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocols=protocols,
        assignment=member_id.encode(),
    )


def test_anybody_commits_while_the_group_is_empty_and_only_members_afterwards() -> None:
    group = ClassicGroup.new("g", 5)
    assert group.is_simple
    commit(group, "", -1)
    world = World()
    (member_id,) = world.stable()
    commit(world.group, member_id, 1)
    for transactional in (False, True):
        with pytest.raises(IllegalGeneration):
            commit(world.group, member_id, 0, transactional=transactional)
        with pytest.raises(UnknownMemberId):
            commit(world.group, "made-up", 1, transactional=transactional)
        with pytest.raises(UnknownMemberId):
            commit(world.group, member_id, 1, instance="made-up", transactional=transactional)
    with pytest.raises(UnknownMemberId):
        commit(world.group, "", -1)
    commit(world.group, "", -1, transactional=True)  # old producers say neither member nor generation


def test_a_member_of_an_empty_group_does_not_commit() -> None:
    with pytest.raises(UnknownMemberId):
        commit(ClassicGroup.new("g", 5), "m", 1)


def test_a_static_member_commits_under_its_last_id_only() -> None:
    world = World()
    (member_id,) = world.stable(1, static=True)
    world.join(instance_id="i0")
    with pytest.raises(FencedInstanceId):
        commit(world.group, member_id, 1, instance="i0")


def test_commits_wait_while_the_assignment_is_made_but_not_while_members_join() -> None:
    world = World()
    (member_id,) = world.stable()
    world.member_id()
    world.join(member_id)
    assert world.group.state_name == "PreparingRebalance"
    commit(world.group, member_id, 1)
    world.advance(10_000)
    assert world.group.state_name == "CompletingRebalance"
    with pytest.raises(RebalanceInProgress):
        commit(world.group, member_id, 2)
    commit(world.group, member_id, 2, transactional=True)


def test_only_an_empty_group_is_deleted_and_a_dead_one_is_not_found() -> None:
    world = World()
    (member_id,) = world.stable()
    group = world.group
    with pytest.raises(NonEmptyGroup):
        group.check_delete()
    group.check_offset_delete()  # of consumers, whose subscriptions are known
    group.check_offset_fetch("", -1)
    world.leave((member_id, None))
    group.check_delete()
    world.take(Result(records=list(group.tombstones())))
    assert world.groups == {}
    assert world.last_value is None
    assert group.state_name == "Dead"
    checks = (group.check_delete, group.check_offset_delete, lambda: group.check_offset_fetch("", -1))
    for check in checks:
        with pytest.raises(GroupIdNotFound):
            check()


def test_offsets_of_members_that_are_no_consumers_are_not_deleted() -> None:
    world = World()
    world.advance_until_answered([world.join(version=3, protocol_type="connect", protocols=[("p", b"")])])
    with pytest.raises(NonEmptyGroup):
        world.group.check_offset_delete()
    assert world.group.offsets_expire_after() is None


def test_offsets_expire_after_their_commit_or_after_the_group_was_empty() -> None:
    simple = ClassicGroup.new("g", 5).offsets_expire_after()
    assert simple is not None
    assert simple(7) == 7
    world = World()
    (member_id,) = world.stable()
    stable = world.group.offsets_expire_after()
    assert stable is not None
    assert stable(7) == 7
    world.join(member_id, protocols=[("range", b"unreadable")])
    assert world.group.offsets_expire_after() is None
    world.advance(20_000)
    empty = world.group.offsets_expire_after()
    assert empty is not None
    assert empty(7) == world.group.state_since_ms


def test_a_stable_group_is_described_with_its_protocol_and_metadata() -> None:
    world = World()
    (member_id,) = world.stable()
    described = world.group.describe()
    assert (described.group_id, described.group_state) == ("group", "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (shown,) = described.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member_id, "client", "/127.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (subscription("t"), member_id.encode())
    world.join(member_id)
    described = world.group.describe()
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert described.members[0].member_metadata == b""


def test_a_consumer_group_is_downgraded_to_a_classic_one() -> None:
    world = World()
    members = [
        member("a", ("range", subscription("t")), ("sticky", subscription("t"))),
        member("b", ("range", subscription("u")), instance_id="i"),
    ]
    group = ClassicGroup.of_consumers("group", generation=12, members=members, now_ms=world.clock.ms)
    assert (group.protocol_name, group.leader_id, group.subscribed_topics) == ("range", "a", frozenset("tu"))
    result: Result[None] = Result()
    world.protocol.adopt(group, result, rebalance=False)
    world.take(result)
    assert world.group is group
    assert world.heartbeat("a", 12) == ErrorCode.NONE
    assert world.sync("b", 12, instance_id="i").answer.assignment == b"b"
    world.advance(9999)
    world.heartbeat("a", 12)
    world.advance(1)
    assert set(group.members) == {"a"}


def test_a_group_that_is_taken_over_may_have_to_rebalance_at_once() -> None:
    world = World()
    members = [member("a", ("range", subscription("t"))), member("b", ("range", subscription("t")))]
    group = ClassicGroup.of_consumers("group", generation=12, members=members, now_ms=world.clock.ms)
    result: Result[None] = Result()
    world.protocol.adopt(group, result, rebalance=True)
    world.take(result)
    assert world.heartbeat("a", 12) == ErrorCode.REBALANCE_IN_PROGRESS
    calls = [world.join("a"), world.join("b")]
    assert {call.answer.generation_id for call in calls} == {13}
    world.restart()
    assert (world.group.state_name, world.group.generation) == ("Stable", 12)


def test_a_group_that_becomes_one_of_the_consumer_protocol_lets_go_of_all_who_wait() -> None:
    world = World()
    leader, _follower = world.stable(2)
    joining = world.join(leader)
    result: Result[None] = Result(records=list(world.group.tombstones()))
    world.protocol.release(world.group, result)
    world.take(result)
    assert joining.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.timer_keys == set()
    assert world.protocol.pending_responses() == []


def test_a_group_that_is_deleted_leaves_no_timer() -> None:
    world = World()
    world.member_id()
    result: Result[None] = Result(records=list(world.group.tombstones()))
    world.protocol.stop_timers(world.group, result)
    world.take(result)
    assert world.timer_keys == set()


def test_the_most_votes_win_and_equals_are_ordered_as_in_kafkas_hash_table() -> None:
    assert winner({"range": 1, "sticky": 2}) == "sticky"
    assert winner({"roundrobin": 1, "range": 1}) == winner({"range": 1, "roundrobin": 1})


@pytest.mark.parametrize("state", [ClassicState.STABLE, ClassicState.COMPLETING])
def test_a_state_is_not_reached_from_just_any_other(state: ClassicState) -> None:
    with pytest.raises(ValueError, match="cannot change from Empty"):
        ClassicGroup.new("g", 5).move_to(state, 6)


def test_every_check_raises_an_error_that_has_a_code() -> None:
    world = World()
    world.stable()
    with pytest.raises(KafkaError) as caught:
        world.group.check_member("made-up", None)
    assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
