"""JoinGroup and what it sets going: ids, protocols, leaders, the first rebalance, limits."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.groups.classic.classic_world import RANGE, World, subscription

from ottla.coordinator.groups.classic.rebalance import NEW_MEMBER_TIMEOUT_MS
from ottla.wire import codec
from ottla.wire.errors import ErrorCode

BOTH = [("range", b"r"), ("roundrobin", b"o")]


def test_a_new_member_is_given_an_id_and_asked_to_join_with_it() -> None:
    world = World()
    call = world.join(client_id="app")
    assert call.code == ErrorCode.MEMBER_ID_REQUIRED
    assert call.answer.member_id.startswith("app-")
    assert len(call.answer.member_id) == len("app-") + 36
    assert world.group.pending_join == {call.answer.member_id}
    assert world.group.state_name == "Empty"


def test_before_version_4_a_new_member_joins_at_once() -> None:
    world = World()
    call = world.join(version=3)
    assert call.is_held
    world.advance(3000)
    assert call.code == ErrorCode.NONE
    assert call.answer.leader == call.answer.member_id
    assert [member.member_id for member in call.answer.members] == [call.answer.member_id]


def test_a_static_member_joins_at_once_and_its_id_begins_with_its_instance_id() -> None:
    world = World()
    call = world.join(instance_id="rack-7")
    world.advance(3000)
    assert call.answer.member_id.startswith("rack-7-")


@pytest.mark.parametrize("letter", ["x", "\N{DROMEDARY CAMEL}"])
def test_the_id_of_a_member_with_a_long_name_fits_into_a_text(letter: str) -> None:
    world = World()
    call = world.join(instance_id=letter * (32_767 // len(letter.encode())))
    world.advance(3000)
    assert call.code == ErrorCode.NONE
    assert len(call.answer.member_id.encode()) <= 32_767


def test_the_first_join_writes_an_empty_group() -> None:
    world = World()
    world.join()
    assert len(world.log) == 1
    value = world.last_value
    assert value is not None
    assert (value.protocol_type, value.protocol, value.leader, value.generation) == ("", None, None, 0)
    assert value.members == []
    assert value.current_state_timestamp == world.clock.ms
    world.join()
    assert len(world.log) == 1


def test_if_the_first_record_is_refused_there_is_no_group() -> None:
    from ottla.wire.errors import NotEnoughReplicas

    world = World()
    world.refusal = NotEnoughReplicas()
    assert world.join(instance_id="i").code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.groups == {}
    assert world.timer_keys == set()
    assert world.join().code == ErrorCode.MEMBER_ID_REQUIRED
    assert len(world.log) == 1


def test_a_member_id_that_was_never_assigned_is_unknown() -> None:
    world = World()
    assert world.join("made-up").code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.groups == {}
    world.stable()
    call = world.join("made-up")
    assert call.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert call.answer.member_id == "made-up"


def test_an_id_that_is_not_used_within_the_session_timeout_is_taken_back() -> None:
    world = World()
    member_id = world.member_id(session_ms=6000)
    world.advance(5999)
    assert member_id in world.group.pending_join
    world.advance(1)
    assert not world.group.pending_join
    assert world.join(member_id).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_waits_for_an_id_that_was_given_out() -> None:
    world = World()
    (member_id,) = world.stable()
    pending_id = world.member_id(session_ms=6000)
    rejoin = world.join(member_id)  # the leader's: a rebalance
    assert rejoin.is_held
    world.advance(6000)
    assert rejoin.code == ErrorCode.NONE
    assert [member.member_id for member in rejoin.answer.members] == [member_id]
    assert pending_id not in world.group.pending_join


def test_a_pending_id_with_an_instance_id_is_refused() -> None:
    world = World()
    member_id = world.member_id()
    assert world.join(member_id, instance_id="i").code == ErrorCode.UNKNOWN_MEMBER_ID


# The first rebalance


def test_the_first_rebalance_is_delayed_so_that_others_can_come() -> None:
    world = World(delay_ms=3000)
    first = world.join(world.member_id())
    world.advance(2999)
    assert first.is_held
    assert world.group.state_name == "PreparingRebalance"
    world.advance(1)
    assert first.answer.generation_id == 1
    assert world.group.state_name == "CompletingRebalance"


def test_a_newcomer_extends_the_first_delay_up_to_the_rebalance_timeout() -> None:
    world = World(delay_ms=3000)
    calls = [world.join(world.member_id(rebalance_ms=8000), rebalance_ms=8000)]
    for _ in range(7):
        world.advance(1000)
        calls.append(world.join(world.member_id(rebalance_ms=8000), rebalance_ms=8000))
    assert all(call.is_held for call in calls)
    world.advance(1000)  # 3000, then 3000, then the 2000 that remain
    assert {call.answer.generation_id for call in calls} == {1}


def test_without_newcomers_the_delay_is_not_extended() -> None:
    world = World(delay_ms=3000)
    first = world.join(world.member_id())
    world.advance(1000)
    second = world.join(world.member_id())
    world.advance(2000)
    assert first.is_held  # the second came meanwhile
    world.advance(3000)
    assert first.answer.generation_id == second.answer.generation_id == 1


def test_later_rebalances_are_not_delayed() -> None:
    world = World()
    (leader,) = world.stable()
    new = world.join(world.member_id())
    assert new.is_held
    assert world.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = world.join(leader)
    assert rejoin.answer.generation_id == new.answer.generation_id == 2


# Leaders and followers


def test_only_the_leader_gets_the_list_of_members() -> None:
    world = World()
    calls = [
        world.join(world.member_id(protocols=[("range", b"m")]), protocols=[("range", b"m")]) for _ in "abc"
    ]
    world.advance(9000)
    leader = calls[0].answer.leader
    for call in calls:
        ids = {member.member_id for member in call.answer.members}
        is_leader = call.answer.member_id == leader
        assert ids == ({other.answer.member_id for other in calls} if is_leader else set())
        assert all(member.metadata == b"m" for member in call.answer.members)
        assert call.answer.protocol_type == "consumer"
        assert call.answer.protocol_name == "range"
        assert not call.answer.skip_assignment


def test_a_leader_that_stays_away_is_replaced_by_one_that_joined() -> None:
    world = World()
    leader, follower = world.stable(2)
    changed = world.join(follower, protocols=[("range", b"changed")])
    assert changed.is_held
    world.advance(5000)
    assert world.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS  # lives, but does not rejoin
    for _ in range(11):
        world.advance(5000)
        world.heartbeat(leader, 1)
    assert changed.answer.leader == follower
    assert set(world.group.members) == {follower}


def test_a_static_leader_that_stays_away_keeps_its_place_but_not_its_office() -> None:
    world = World()
    leader, follower = world.stable(2, static=True, session_ms=100_000)
    instance = world.group.members[follower].instance_id
    rejoin = world.join(follower, instance_id=instance, protocols=[("range", b"new")], session_ms=100_000)
    world.advance(60_000)
    assert rejoin.answer.leader == follower
    assert {member.member_id for member in rejoin.answer.members} == {leader, follower}


def test_if_only_absent_static_members_are_left_the_rebalance_waits_until_their_sessions_end() -> None:
    world = World()
    static, dynamic_id = world.join(instance_id="i", session_ms=100_000), world.member_id()
    dynamic = world.join(dynamic_id)
    world.advance(6000)
    ids = [static.answer.member_id, dynamic.answer.member_id]
    world.sync_all(sorted(ids, key=lambda member_id: member_id != static.answer.leader))
    world.leave((dynamic_id, None))
    assert world.group.state_name == "PreparingRebalance"
    world.advance(60_000)
    assert world.group.state_name == "PreparingRebalance"
    world.advance(60_000)
    assert world.group.state_name == "Empty"


def test_a_follower_that_rejoins_a_stable_group_unchanged_gets_the_generation() -> None:
    world = World()
    leader, follower = world.stable(2)
    call = world.join(follower)
    assert call.answer.generation_id == 1
    assert call.answer.leader == leader
    assert call.answer.members == []
    assert world.group.state_name == "Stable"


def test_a_follower_with_new_metadata_or_the_leader_make_a_stable_group_rebalance() -> None:
    world = World()
    leader, follower = world.stable(2)
    assert world.join(follower, protocols=[("range", b"new")]).is_held
    assert world.group.state_name == "PreparingRebalance"

    world = World()
    leader, follower = world.stable(2)
    assert world.join(leader).is_held
    assert world.group.state_name == "PreparingRebalance"


def test_a_member_that_missed_its_answer_gets_it_again() -> None:
    world = World()
    calls = [world.join(world.member_id()) for _ in range(2)]
    world.advance(9000)
    for call in calls:
        again = world.join(call.answer.member_id).answer
        assert codec.encode(again, 9) == codec.encode(call.answer, 9)


def test_a_member_with_new_metadata_begins_anew_what_was_being_completed() -> None:
    world = World()
    calls = [world.join(world.member_id()) for _ in range(2)]
    world.advance(9000)
    leader, follower = sorted(
        (call.answer.member_id for call in calls), key=lambda i: i != calls[0].answer.leader
    )
    waiting = world.sync(follower, 1)
    assert waiting.is_held
    rejoin = world.join(leader, protocols=[("range", b"new")])
    assert waiting.code == ErrorCode.REBALANCE_IN_PROGRESS
    world.join(follower)
    assert rejoin.answer.generation_id == 2


def test_who_joins_again_while_it_waits_is_answered_once_and_its_earlier_request_too() -> None:
    world = World()
    (member_id,) = world.stable()
    world.member_id()
    earlier = world.join(member_id)
    later = world.join(member_id)
    assert earlier.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert later.is_held
    world.advance(10_000)
    assert later.code == ErrorCode.NONE


def test_a_new_member_that_waits_too_long_for_the_others_is_removed() -> None:
    world = World()
    leader, other = world.stable(2, rebalance_ms=600_000)
    new = world.join(world.member_id())
    for _ in range(NEW_MEMBER_TIMEOUT_MS // 5000):
        world.heartbeat(leader, 1)
        world.heartbeat(other, 1)
        world.advance(5000)
    assert new.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert new.answer.member_id == ""
    assert set(world.group.members) == {leader, other}


# Protocols


def test_the_protocol_is_the_one_that_most_members_like_best_of_those_that_all_support() -> None:
    world = World()
    preferences = [
        [("sticky", b""), ("roundrobin", b""), ("range", b"")],
        [("roundrobin", b""), ("range", b"")],
        [("range", b""), ("roundrobin", b"")],
    ]
    calls = [world.join(world.member_id(protocols=liked), protocols=liked) for liked in preferences]
    world.advance(30_000)
    assert {call.answer.protocol_name for call in calls} == {"roundrobin"}


def test_of_protocols_with_equal_votes_kafka_takes_the_one_whose_hash_is_first() -> None:
    world = World()
    preferences = [BOTH, list(reversed(BOTH))]
    calls = [world.join(world.member_id(protocols=liked), protocols=liked) for liked in preferences]
    world.advance(30_000)
    assert calls[0].answer.protocol_name == "range"  # in slot 9 of 16, roundrobin in 10


@pytest.mark.parametrize(
    "options",
    [
        {"protocol_type": "connect"},
        {"protocols": [("sticky", b"")]},
        {"protocols": []},
        {"protocol_type": ""},
    ],
)
def test_a_member_without_a_protocol_in_common_is_refused(
    options: dict[str, object],
) -> None:
    world = World()
    (member_id,) = world.stable()
    for asked_as in ("", member_id):
        call = world.join(asked_as, **options)  # type: ignore[arg-type]
        assert call.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert call.answer.member_id == asked_as
    assert world.group.state_name == "Stable"


def test_a_join_without_a_protocol_fails() -> None:
    world = World()
    assert world.join(protocols=[]).code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="").code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_takes_members_of_another_protocol_type() -> None:
    world = World()
    (member_id,) = world.stable()
    world.leave((member_id, None))
    call = world.join(version=3, protocol_type="connect", protocols=[("default", b"")])
    world.advance(3000)
    assert call.answer.protocol_type == "connect"
    assert world.group.subscribed_topics is None
    assert not world.group.is_subscribed_to("t")


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    world = World()
    call = world.join(version=3, protocols=[("range", b"first"), ("range", b"second")])
    world.advance(3000)
    assert [member.metadata for member in call.answer.members] == [b"first"]


def test_the_topics_of_all_members_are_known_and_unknown_if_one_cannot_be_read() -> None:
    world = World()
    world.stable()
    assert world.group.is_subscribed_to("t")
    assert not world.group.is_subscribed_to("u")
    world = World()
    unreadable = b"\0\0\x7f\xff\xff\xffx"
    world.advance_until_answered(
        [
            world.join(version=3, protocols=[("range", metadata)])
            for metadata in (subscription("t", "u", version=3), unreadable)
        ]
    )
    assert world.group.subscribed_topics is None
    assert world.group.is_subscribed_to("anything")


def test_old_versions_get_a_missing_protocol_as_an_empty_string() -> None:
    world = World()
    assert world.join(protocols=[], version=6).answer.protocol_name == ""
    assert world.join(protocols=[], version=7).answer.protocol_name is None


# The limit of members


def test_a_full_group_rejects_new_members() -> None:
    world = World(size_max=2)
    _leader, follower = world.stable(2)
    call = world.join(version=3)
    assert call.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert call.answer.member_id == ""
    assert world.join().code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.group.state_name == "Stable"
    assert world.join(follower).code == ErrorCode.NONE


def test_of_more_ids_than_there_is_room_for_the_last_to_join_are_refused() -> None:
    world = World(size_max=2)
    ids = [world.member_id() for _ in range(3)]
    calls = [world.join(member_id) for member_id in ids]
    assert calls[2].code == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.advance(30_000)
    assert [call.code for call in calls[:2]] == [ErrorCode.NONE] * 2
    assert world.join(ids[2]).code in (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_group_over_a_lowered_limit_rebalances_when_it_is_loaded_and_keeps_who_joins_first() -> None:
    world = World()
    leader, first, second = world.stable(3)
    world.settings.classic = World(size_max=2).settings.classic
    world.restart()
    assert world.group.state_name == "PreparingRebalance"
    kept = [world.join(second), world.join(first)]
    assert world.join(leader).code == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.advance(60_000)
    assert {call.code for call in kept} == {ErrorCode.NONE}
    assert set(world.group.members) == {first, second}


# The other protocol


class _OtherGroup:
    def __init__(self, *, is_empty: bool) -> None:
        from ottla.coordinator.groups.group import GroupType

        self.id = "group"
        self.type = GroupType.CONSUMER
        self.is_empty = is_empty

    def tombstones(self) -> list[object]:
        return []


def test_members_of_a_group_of_the_consumer_protocol_are_left_to_it() -> None:
    world = World()
    world.groups["group"] = _OtherGroup(is_empty=False)  # type: ignore[assignment]
    assert world.join().answer.member_id == "from the consumer protocol"
    assert world.sync("m", 1).answer.assignment == b"from the consumer protocol"
    assert len(world.consumer.asked) == 2


def test_an_empty_group_of_the_consumer_protocol_makes_room_for_a_classic_one() -> None:
    world = World()
    world.groups["group"] = _OtherGroup(is_empty=True)  # type: ignore[assignment]
    assert world.join("known").code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join().code == ErrorCode.MEMBER_ID_REQUIRED
    assert world.group.is_empty


def test_a_thousand_members_join_and_each_costs_the_same() -> None:
    """Counted in answers and timers, not in seconds: nobody who joins touches the others."""
    world = World(size_max=2000)
    calls = [world.join(version=3, protocols=RANGE) for _ in range(1000)]
    assert len(world.timer_keys) == 1001  # a session each, and the delay
    assert len(world.log) == 1
    world.advance(60_000)
    assert {call.answer.generation_id for call in calls} == {1}
    assert sum(len(call.answer.members) for call in calls) == 1000
