"""Scripts of the classic protocol: members that join, sync, beat, leave, and are refused."""

from __future__ import annotations

from typing import Any

from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_raw.members import (
    LONG_MS,
    Member,
    assignment,
    leaving,
    protocols,
    rejoin,
    stable_pair,
    subscription,
)
from tests.interop.groups_raw.scripts import script

SHORT_MS = 1_000  # no less than group.min.session.timeout.ms of the brokers under test
SYNC_MS = 2_000


def described(talk: Talk) -> None:
    talk.says("DescribeGroups", groups=[talk.group])


@script("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DescribeGroups", "ListGroups")
def a_member_comes_and_goes(talk: Talk) -> None:
    member = Member(talk, "A")
    member.join()
    described(talk)
    member.heartbeat()
    member.sync({member.id: assignment(("alpha", [0, 1, 2]))})
    described(talk)
    talk.says("ListGroups")
    member.heartbeat()
    member.sync()
    member.leave()
    described(talk)
    talk.says("ListGroups")
    member.heartbeat()
    member.leave()
    member.sync()


@script("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DescribeGroups")
def two_members_share(talk: Talk) -> None:
    leader, follower = Member(talk, "A"), Member(talk, "B")
    leader.join()
    leader.sync({leader.id: b"all"})
    follower.begin_join()
    talk.wait_members(2)
    described(talk)
    leader.heartbeat()
    leader.sync({leader.id: b"all"})
    leader.commit()
    leader.join()
    follower.end_join()
    described(talk)
    leader.heartbeat()
    follower.heartbeat()
    leader.commit()
    follower.begin_sync()
    leader.sync({leader.id: b"of A", follower.id: b"of B"})
    follower.talk.finish()
    described(talk)
    follower.heartbeat()
    follower.leave()
    described(talk)
    leader.heartbeat()
    leader.join()
    leader.sync({leader.id: b"all again"})
    leader.commit()


@script("SyncGroup", "JoinGroup")
def the_leader_goes_and_another_leads(talk: Talk) -> None:
    leader, follower = stable_pair(talk)
    leader.leave()
    follower.heartbeat()
    follower.join()
    described(talk)
    follower.sync({follower.id: b"all"})
    leader.heartbeat()
    leader.sync()


@script("SyncGroup")
def a_sync_that_gives_nothing_to_a_member(talk: Talk) -> None:
    leader, follower = Member(talk, "A"), Member(talk, "B")
    leader.join()
    leader.sync({leader.id: b"all", "nobody": b"something"})
    rejoin(talk, leader, [follower])
    follower.begin_sync()
    leader.sync({leader.id: b"of A", "nobody": b"something"})
    follower.talk.finish()
    described(talk)


@script("SyncGroup")
def syncs_that_are_refused(talk: Talk) -> None:
    member = Member(talk, "A")
    member.id, member.generation = "unknown", 1
    member.sync()
    member.id = ""
    member.sync()
    talk.says("SyncGroup", group_id="", generation_id=1, member_id="x")
    member.join()
    generation = member.generation
    for wrong in (generation - 1, generation + 1, -1):
        member.sync({member.id: b"x"}, generation_id=wrong)
    member.sync({member.id: b"x"}, member_id="unknown")
    member.sync({member.id: b"x"}, group_instance_id="nobody")
    member.sync({member.id: b"x"}, protocol_type="connect", protocol_name="range")
    member.sync({member.id: b"x"}, protocol_type="consumer", protocol_name="sticky")
    member.sync({member.id: b"x"}, protocol_type="consumer", protocol_name="range")
    member.sync({member.id: b"y"}, protocol_type="consumer", protocol_name="sticky")
    member.sync({member.id: b"y"}, protocol_type=None, protocol_name=None)
    described(talk)


@script("SyncGroup", "JoinGroup")
def syncs_while_the_group_prepares(talk: Talk) -> None:
    leader, follower = stable_pair(talk)
    third = Member(talk, "C")
    third.begin_join()
    talk.wait_members(3)
    leader.sync({leader.id: b"x"})
    follower.sync()
    follower.heartbeat()
    follower.commit()
    follower.begin_join()
    talk.wait_state("PreparingRebalance")
    leader.join()
    follower.end_join()
    third.end_join()
    follower.begin_sync()
    third.begin_sync()
    leader.sync({leader.id: b"1", follower.id: b"2", third.id: b"3"})
    follower.talk.finish()
    third.talk.finish()


@script("SyncGroup", "JoinGroup")
def a_sync_is_held_and_the_group_rebalances(talk: Talk) -> None:
    leader, follower, third = Member(talk, "A"), Member(talk, "B"), Member(talk, "C")
    leader.join()
    leader.sync()
    rejoin(talk, leader, [follower])
    follower.begin_sync()
    third.begin_join()
    talk.wait_members(3)
    follower.talk.finish()
    leader.sync({leader.id: b"late"})
    described(talk)


@script("Heartbeat")
def heartbeats_that_are_refused(talk: Talk) -> None:
    talk.says("Heartbeat", group_id="", generation_id=0, member_id="x")
    talk.says("Heartbeat", group_id=talk.group, generation_id=0, member_id="x")
    talk.says("Heartbeat", group_id=talk.group, generation_id=-1, member_id="")
    leader, follower = stable_pair(talk)
    for wrong in (leader.generation + 1, leader.generation - 1, -1):
        leader.heartbeat(generation_id=wrong)
    leader.heartbeat(member_id="unknown")
    leader.heartbeat(member_id="")
    leader.heartbeat(group_instance_id="nobody")
    follower.heartbeat(member_id=leader.id)


@script("JoinGroup")
def joins_that_are_refused(talk: Talk) -> None:
    asked = {
        "group_id": talk.group,
        "session_timeout_ms": LONG_MS,
        "rebalance_timeout_ms": LONG_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": protocols(range=b"x"),
    }
    talk.says("JoinGroup", **{**asked, "group_id": ""})
    talk.says("JoinGroup", **{**asked, "session_timeout_ms": 1})
    talk.says("JoinGroup", **{**asked, "session_timeout_ms": 10_000_000})
    talk.says("JoinGroup", **{**asked, "session_timeout_ms": -1})
    talk.says("JoinGroup", **{**asked, "member_id": "unknown"})
    talk.says("JoinGroup", **{**asked, "protocols": []})
    talk.says("JoinGroup", **{**asked, "protocol_type": ""})
    described(talk)
    member = Member(talk, "A")
    member.join()
    talk.says("JoinGroup", **{**asked, "member_id": "unknown"})
    talk.says("JoinGroup", **{**asked, "protocol_type": "connect"})
    talk.says("JoinGroup", **{**asked, "protocols": protocols(nobody=b"x")})
    talk.says("JoinGroup", **{**asked, "protocols": []})
    talk.says("JoinGroup", **{**asked, "protocol_type": ""})
    member.join(protocols=protocols(other=b"x"))
    member.join(protocol_type="connect")
    described(talk)
    member.heartbeat()


@script("JoinGroup")
def no_more_members_than_allowed(talk: Talk) -> None:
    members = [Member(talk, name) for name in "ABCDE"]
    members[0].join()
    members[0].sync()
    rejoin(talk, members[0], members[1:4])
    members[4].join()
    described(talk)
    members[0].heartbeat()


@script("JoinGroup", newest_only=True)
def more_members_than_allowed_during_a_rebalance(talk: Talk) -> None:
    _, follower = stable_pair(talk, rebalance_timeout_ms=SYNC_MS)
    others = [Member(talk, name, rebalance_timeout_ms=SYNC_MS) for name in "CDEF"]
    for count, member in enumerate(others, 3):
        member.begin_join()
        talk.wait_members(count)
    follower.join()  # those who wait already count, and are as many as may be
    follower.leave()
    for member in others:  # once the leader's time to join is over; who leads then is chance
        response = member.end_join()
        talk.transcript.pop()
        talk.note("JoinGroup", (response.error_code, response.generation_id))
    described(talk)


@script("JoinGroup", newest_only=True)
def ids_given_out_count_as_members(talk: Talk) -> None:
    asked = Member(talk, "-").fields
    for name in "ABCDE":
        response = talk.says("JoinGroup", group_id=talk.group, member_id="", **asked)
        talk.call(response.member_id, name)
    talk.says("LeaveGroup", group_id=talk.group, **leaving(response.member_id))
    talk.says("JoinGroup", group_id=talk.group, member_id=response.member_id, **asked)


@script("JoinGroup")
def votes_choose_the_protocol(talk: Talk) -> None:
    sticky, first = subscription("alpha", owned=[]), subscription("alpha")
    members = [
        Member(talk, "A", protocols=protocols(sticky=sticky, range=first, roundrobin=first)),
        Member(talk, "B", protocols=protocols(range=first, roundrobin=first, only=first)),
        Member(talk, "C", protocols=protocols(roundrobin=first, range=first)),
    ]
    members[0].join()
    members[0].sync()
    rejoin(talk, members[0], members[1:])
    described(talk)
    for member in members[1:]:
        member.begin_sync()
    members[0].sync({members[0].id: b"a", members[1].id: b"b", members[2].id: b"c"})
    for member in members[1:]:
        member.talk.finish()
    described(talk)
    members[1].leave()
    members[2].begin_join(protocols=protocols(roundrobin=first))
    talk.wait_state("PreparingRebalance")
    members[0].join()
    members[2].end_join()
    described(talk)


@script("JoinGroup", newest_only=True)
def a_protocol_nobody_shares(talk: Talk) -> None:
    member, other = Member(talk, "A"), Member(talk, "B", protocols=protocols(own=b"x"))
    member.join()
    member.sync()
    other.join()
    member.heartbeat()
    described(talk)


@script("JoinGroup")
def joining_again_without_a_change(talk: Talk) -> None:
    leader, follower = stable_pair(talk)
    follower.join()
    described(talk)
    follower.heartbeat()
    leader.heartbeat()
    leader.begin_join()
    talk.wait_state("PreparingRebalance")
    follower.join()
    leader.end_join()
    follower.join()  # the leader has not synced yet
    leader.join()
    described(talk)


@script("JoinGroup")
def joining_again_with_a_change(talk: Talk) -> None:
    leader, follower = stable_pair(talk)
    follower.begin_join(protocols=protocols(range=subscription("alpha", "beta")))
    talk.wait_state("PreparingRebalance")
    leader.heartbeat()
    leader.join()
    follower.end_join()
    follower.begin_join(protocols=protocols(range=subscription("beta")))
    talk.wait_state("PreparingRebalance")
    leader.join()
    follower.end_join()
    described(talk)


@script("JoinGroup", first=8)
def a_long_reason(talk: Talk) -> None:
    member = Member(talk, "A", reason="r" * 1000)
    member.join()
    described(talk)


@script("JoinGroup", "LeaveGroup", newest_only=True)
def other_kinds_of_protocols(talk: Talk) -> None:
    member = Member(talk, "A", protocol_type="connect", protocols=protocols(compatible=b"\x00\x01"))
    member.join()
    member.sync({member.id: b"work"})
    described(talk)
    talk.says("ListGroups")
    talk.says("ListGroups", types_filter=["classic"])
    member.leave()
    described(talk)
    other = Member(talk, "B")
    other.join()  # an empty group takes the protocol of whoever comes
    described(talk)


# --- leaving ------------------------------------------------------------------------------------------


@script("LeaveGroup")
def leaving_what_one_is_not_in(talk: Talk) -> None:
    talk.says("LeaveGroup", group_id="", **leaving("x"))
    talk.says("LeaveGroup", group_id=talk.group, **leaving("x"))
    talk.says("LeaveGroup", group_id=talk.group, **leaving(""))
    leader, follower = stable_pair(talk)
    talk.says("LeaveGroup", group_id=talk.group, **leaving("x"))
    talk.says("LeaveGroup", group_id=talk.group, **leaving(""))
    follower.leave()
    follower.leave()
    leader.leave()
    leader.leave()
    described(talk)


@script("LeaveGroup", first=3)
def several_leave_at_once(talk: Talk) -> None:
    leader, follower = stable_pair(talk)
    rows = [
        {"member_id": follower.id},
        {"member_id": follower.id},
        {"member_id": "unknown"},
        {"member_id": "", "group_instance_id": "nobody"},
        {"member_id": leader.id, "group_instance_id": "nobody"},
    ]
    talk.says("LeaveGroup", group_id=talk.group, members=rows)
    described(talk)
    talk.says("LeaveGroup", group_id=talk.group, members=[])
    talk.says("LeaveGroup", group_id=talk.group, members=[{"member_id": leader.id, "reason": "r" * 1000}])
    described(talk)


# --- static members -----------------------------------------------------------------------------------


@script("JoinGroup", first=5)
@script("SyncGroup", "Heartbeat", "LeaveGroup", first=3)
@script("OffsetCommit", first=7)
@script("DescribeGroups")
def a_static_member_comes_back(talk: Talk) -> None:
    leader, follower = stable_pair_of_static(talk)
    old = Member(talk, "old A", instance="one")
    old.id, old.generation = leader.id, leader.generation
    described(talk)
    leader.id = ""
    leader.name = "new A"
    leader.join()
    described(talk)
    old.heartbeat()
    old.sync({old.id: b"x"})
    old.commit()
    old.join()
    old.leave()
    old.heartbeat(group_instance_id=None)
    leader.heartbeat()
    leader.sync({leader.id: b"ignored"})
    leader.commit()
    follower.heartbeat()
    follower.id = ""
    follower.name = "new B"
    follower.join()
    follower.sync()
    leader.heartbeat()
    described(talk)


def stable_pair_of_static(talk: Talk, **fields: Any) -> tuple[Member, Member]:
    leader = Member(talk, "A", instance="one", **fields)
    follower = Member(talk, "B", instance="two", **fields)
    leader.join()
    leader.sync({leader.id: b"all"})
    rejoin(talk, leader, [follower])
    follower.begin_sync()
    leader.sync({leader.id: b"of A", follower.id: b"of B"})
    follower.talk.finish()
    return leader, follower


@script("JoinGroup", first=5)
def a_static_member_comes_back_changed(talk: Talk) -> None:
    leader, follower = stable_pair_of_static(talk)
    follower.id = ""
    follower.name = "new B"
    follower.join(protocols=protocols(range=subscription("beta"), sticky=subscription("beta")))
    described(talk)
    leader.heartbeat()


@script("JoinGroup", first=5)
def a_static_member_comes_back_and_the_protocol_changes(talk: Talk) -> None:
    text = subscription("alpha")
    both = protocols(sticky=text, range=text)
    leader, follower = stable_pair_of_static(talk, protocols=both)
    follower.id = ""
    follower.name = "new B"
    follower.begin_join(protocols=protocols(range=text))
    talk.wait_state("PreparingRebalance")
    leader.heartbeat()
    leader.join()
    follower.end_join()
    described(talk)


@script("JoinGroup", first=5)
def a_static_member_comes_back_during_a_rebalance(talk: Talk) -> None:
    leader, follower = stable_pair_of_static(talk)
    third = Member(talk, "C", instance="three")
    third.begin_join()
    talk.wait_members(3)
    twin = Member(talk, "new C", instance="three")
    twin.begin_join()
    third.end_join()  # its place is taken
    follower.id = ""
    follower.name = "new B"
    follower.begin_join()
    talk.wait_state("PreparingRebalance")
    leader.join()
    twin.end_join()
    follower.end_join()
    described(talk)
    follower.begin_sync()
    follower_twin = Member(talk, "newest B", instance="two")
    follower_twin.begin_join()
    follower.talk.finish()


@script("JoinGroup", first=5, newest_only=True)
def instance_ids_that_are_wrong(talk: Talk) -> None:
    for number, instance in enumerate(("", ".", "..", "a b", "x" * 250, "x" * 249)):
        member = Member(talk, "A", instance=instance)
        member.talk.group = talk.name(f"group-{number}")
        member.join()
    unknown = Member(talk, "B", instance="other")
    unknown.id = "made-up"
    unknown.join()
    described(talk)


@script("LeaveGroup", first=3)
def static_members_are_removed_by_instance(talk: Talk) -> None:
    leader, follower = stable_pair_of_static(talk)
    talk.says("LeaveGroup", group_id=talk.group, **leaving("unknown", "two"))
    talk.says("LeaveGroup", group_id=talk.group, **leaving(leader.id, "two"))
    talk.says("LeaveGroup", group_id=talk.group, **leaving("", "two"))
    talk.says("LeaveGroup", group_id=talk.group, **leaving("", "two"))
    follower.heartbeat()
    talk.says("LeaveGroup", group_id=talk.group, **leaving(leader.id))
    described(talk)


# --- time ---------------------------------------------------------------------------------------------


@script("Heartbeat", newest_only=True)
def a_member_that_falls_silent_is_gone(talk: Talk) -> None:
    member = Member(talk, "A", session_timeout_ms=SHORT_MS)
    member.join()
    member.sync({member.id: b"all"})
    talk.wait_state("Empty")
    member.heartbeat()
    described(talk)


@script("JoinGroup", newest_only=True)
def a_member_that_does_not_join_again_in_time_is_gone(talk: Talk) -> None:
    leader = Member(talk, "A", rebalance_timeout_ms=SHORT_MS)
    follower = Member(talk, "B", rebalance_timeout_ms=SHORT_MS)
    leader.join()
    leader.sync({leader.id: b"all"})
    follower.begin_join()
    follower.end_join()
    described(talk)
    leader.heartbeat()
    follower.sync({follower.id: b"all"})
    described(talk)


@script("SyncGroup", newest_only=True)
def members_that_do_not_sync_in_time_are_gone(talk: Talk) -> None:
    leader = Member(talk, "A", rebalance_timeout_ms=SYNC_MS)
    follower = Member(talk, "B", rebalance_timeout_ms=SYNC_MS)
    leader.join()
    leader.sync()
    rejoin(talk, leader, [follower])
    follower.begin_sync()
    follower.talk.finish()
    leader.heartbeat()
    described(talk)
