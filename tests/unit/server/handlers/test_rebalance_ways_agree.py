"""Two coordinators get the same requests of a classic group, one of them without the fast path.

The answers, the log, the group, its members and its timers are the same: whoever joins, syncs, leaves,
changes its subscription or sends nonsense in between, also where replicas are behind or the disk fails.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.server.handlers.two_ways import Side, classic_member

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.groups.classic.responses import FollowerResponses, joined
from ottla.server.handlers.classic_fast_path import JoinFastPath, SyncFastPath
from ottla.wire import codec
from ottla.wire.frame import request_frame
from ottla.wire.message import Message
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

MEMBERS = ("m1", "m2", "m3", "m4")
LONG = b"s" * 200  # its length needs two bytes


def _group() -> ClassicGroup:
    members = [classic_member(name, None) for name in MEMBERS]
    for member in members:
        member.protocols = (("range", LONG if member.id == "m2" else b"sub"),)
    return ClassicGroup(
        "g",
        state=ClassicState.STABLE,
        generation=3,
        protocol_type="consumer",
        protocol_name="range",
        members=members,
    )


class _Rebalancing(Side):
    def __init__(self, directory: Path, *, is_quick: bool) -> None:
        super().__init__(directory, is_quick=is_quick)
        self.broker.groups.coordinator.active(0).shard.groups["g"] = _group()
        for _ in range(2):
            self.connect()

    @property
    def generation(self) -> int:
        active = self.broker.groups.coordinator.loaded_one(0)
        group = None if active is None else active.shard.groups.get("g")
        return group.generation if isinstance(group, ClassicGroup) else 0

    def ask(self, step: tuple[Any, ...]) -> None:
        kind, member, version, bend = step
        number = MEMBERS.index(member)
        self.send(number, _frame(kind, member, version, bend, self.generation))


def _frame(kind: str, member: str, version: int, bend: tuple[str, Any], generation: int) -> bytes:
    what, how = bend
    fields: dict[str, Any] = {"group_id": "g", "member_id": member}
    if what in ("group_id", "member_id", "group_instance_id"):
        fields[what] = how
    if what == "generation":
        generation += how
    request: Message
    if kind == "join":
        metadata = LONG if member == "m2" else b"sub"
        protocols = {"protocols": [("range", b"changed")], "two": [("range", metadata), ("other", b"")]}.get(
            what, [("range", metadata)]
        )
        request = JoinGroupRequest(
            session_timeout_ms=how if what == "session" else 45_000,
            rebalance_timeout_ms=how if what == "session" else 60_000,
            protocol_type="other" if what == "protocol_type" else "consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=data)
                for name, data in protocols
            ],
            reason=how if what == "reason" else None,
            **fields,
        )
    elif kind in ("sync", "assign"):
        request = SyncGroupRequest(
            generation_id=generation,
            protocol_type="other" if what == "protocol_type" else "consumer",
            protocol_name="other" if what == "protocols" else None if what == "two" else "range",
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=name, assignment=name.encode() * 80)
                for name in MEMBERS[:3]
            ]
            if kind == "assign"
            else [],
            **fields,
        )
    elif kind == "leave":
        version = 4
        request = LeaveGroupRequest(
            group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=fields["member_id"])]
        )
    else:
        version = 4
        request = HeartbeatRequest(generation_id=generation, **fields)
    frame = request_frame(request, version, 7, "test")[4:]
    if what == "byte":
        bent = bytearray(frame)
        bent[8 + how[0] % (len(bent) - 8)] = how[1]
        return bytes(bent)
    if what == "cut":
        return frame[: max(8, len(frame) - how)]
    return frame + b"\0" if what == "more" else frame


_bends = st.one_of(
    *[st.just(("", None))] * 8,
    st.tuples(st.just("group_id"), st.sampled_from(["", "other", "simple"])),
    st.tuples(st.just("member_id"), st.sampled_from(["", "other", "m1"])),
    st.tuples(st.just("group_instance_id"), st.sampled_from(["", "i2"])),
    st.tuples(st.just("generation"), st.sampled_from([-1, 1])),
    st.tuples(st.just("session"), st.sampled_from([1, 10_000, 2_000_000])),
    st.tuples(st.just("reason"), st.sampled_from(["", "rebalance", "r" * 200])),
    st.tuples(st.sampled_from(["protocol_type", "protocols", "two", "more"]), st.none()),
    st.tuples(st.just("byte"), st.tuples(st.integers(0, 400), st.sampled_from([0, 1, 2, 0x7F, 0x80, 255]))),
    st.tuples(st.just("cut"), st.integers(1, 30)),
)


def _asks(kind: str, versions: list[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(kind), st.sampled_from(MEMBERS), st.sampled_from(versions), _bends)


_asked = [_asks("join", [5, 6, 7, 8, 9, 9, 9]), _asks("sync", [3, 4, 5, 5, 5])]
_steps = st.one_of(
    *_asked * 3,
    _asks("assign", [5]),
    _asks("leave", [4]),
    _asks("beat", [4]),
    st.just(("turn",)),
    st.tuples(st.just("isr"), st.sampled_from([(1,), (1, 2)])),
    st.tuples(st.just("advance")),
    st.tuples(st.just("fault"), st.sampled_from([0, 28])),
    st.tuples(st.just("lose"), st.integers(0, 1)),
)
_plain = ("", None)
_all_join = [("join", name, 9, _plain) for name in MEMBERS]
_all_sync = [("assign", "m1", 5, _plain)] + [("sync", name, 5, _plain) for name in MEMBERS[1:]]


def _rounds(*parts: list[Any]) -> list[Any]:
    return [step for part in parts for step in [*part, ("turn",)]]


@settings(max_examples=100, deadline=None)
@given(
    start=st.sampled_from([[], [_all_join[0]], _all_join, _all_join[:3]]),
    steps=st.lists(_steps, min_size=1, max_size=14),
)
@example(start=[], steps=_rounds(_all_join, _all_sync, _all_join, _all_sync[::-1]))
@example(start=_all_join, steps=[("isr", (1, 2)), *_all_sync, ("turn",), ("advance",), *_all_join])
@example(start=_all_join, steps=[*_all_sync[:3], ("fault", 28), ("turn",), *_all_join])
def test_two_coordinators_agree_whatever_members_do(
    tmp_path_factory: pytest.TempPathFactory, start: list[Any], steps: list[tuple[Any, ...]]
) -> None:
    directory = tmp_path_factory.mktemp("ways")

    async def run() -> None:
        sides = [_Rebalancing(directory / str(quick), is_quick=quick) for quick in (True, False)]
        try:
            for step in [*start, *steps, ("turn",)]:
                if step[0] == "turn":
                    for _ in range(5):
                        await asyncio.sleep(0)
                for side in sides:
                    if step[0] in ("join", "sync", "assign", "leave", "beat"):
                        side.ask(step)
                    else:
                        side.change(step)
                quick, general = (side.state() for side in sides)
                assert quick == general
        finally:
            for side in sides:
                side.close()

    asyncio.run(run())


@pytest.mark.parametrize(("join_version", "sync_version"), [(6, 4), (8, 5), (9, 5)])
def test_the_usual_rebalance_takes_the_fast_path(
    tmp_path: Path, join_version: int, sync_version: int
) -> None:
    async def run() -> None:
        side = _Rebalancing(tmp_path / "side", is_quick=True)
        try:
            join, sync = JoinFastPath(side.broker).take, SyncFastPath(side.broker).take
            connection = side.connections[0][0]

            def taken(take: Any, kind: str, member: str, version: int) -> bool:
                frame = _frame(kind, member, version, _plain, side.generation)
                return bool(take(connection, memoryview(bytearray(frame)), version, 7))

            side.ask(("join", "m1", join_version, _plain))  # the leader begins the rebalance
            assert taken(join, "join", "m2", join_version)
            assert taken(join, "join", "m3", join_version)
            assert not taken(join, "join", "m4", join_version)  # the last one ends it
            side.ask(("join", "m4", join_version, _plain))
            assert taken(sync, "sync", "m2", sync_version)  # it waits for the leader
            assert not taken(sync, "sync", "m1", sync_version)
            side.ask(("assign", "m1", 5, _plain))
            assert taken(sync, "sync", "m3", sync_version)
        finally:
            side.close()

    asyncio.run(run())


@pytest.mark.parametrize("member_id", ["m2", "ü" * 63, "m" * 126, "m" * 127, "m" * 300])
@pytest.mark.parametrize("version", JoinGroupRequest.VERSIONS)
def test_the_ready_made_response_to_a_follower_has_the_bytes_of_the_encoder(
    version: int, member_id: str
) -> None:
    group = _group()
    made = FollowerResponses(group, version).of(member_id)
    assert made.body == codec.encode(joined(group, member_id, version), version)
    assert codec.encode(made, version) == made.body
