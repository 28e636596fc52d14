"""The four requests of the classic group protocol on a running node, in all versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.handlers.support import LISTENER, RunningNode, start

from ottla.server.handlers.join_group import PROTOCOLS_MAX
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

Protocol = JoinGroupRequest.JoinGroupRequestProtocol
Identity = LeaveGroupRequest.MemberIdentity
Assignment = SyncGroupRequest.SyncGroupRequestAssignment


@pytest.fixture
def node(start_node: Callable[..., RunningNode]) -> RunningNode:
    """A node with a coordinator that lets the first generation begin at once."""
    node = start_node({"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"})

    async def find() -> None:
        while "__consumer_offsets" not in node.broker.image.topics_by_name:
            await asyncio.sleep(0)

    node.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    node.run(find())
    return node


def join_request(member_id: str = "", group_id: str = "g", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        **{
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": [Protocol(name="range", metadata=b"m")],
            **fields,
        },
    )


def join(node: RunningNode, version: int = 9, **fields: Any) -> Any:
    """Join as clients do, with the id that the first answer gives."""
    response = node.ask(join_request(**fields), version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = node.ask(join_request(response.member_id, **fields), version)
    return response


def protocol_of(version: int) -> dict[str, str]:
    return {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}


def sync(node: RunningNode, joined: Any, version: int = 5) -> Any:
    request = SyncGroupRequest(
        group_id="g",
        member_id=joined.member_id,
        generation_id=joined.generation_id,
        assignments=[Assignment(member_id=joined.member_id, assignment=b"mine")],
        **protocol_of(version),  # type: ignore[arg-type]
    )
    return node.ask(request, version)


@pytest.mark.parametrize("version", JoinGroupRequest.VERSIONS)
def test_a_member_joins_in_every_version(node: RunningNode, version: int) -> None:
    joined = join(node, version)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("tests-")
    assert joined.protocol_name == "range"
    assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, b"m")]


@pytest.mark.parametrize("version", SyncGroupRequest.VERSIONS)
def test_a_member_gets_its_assignment_in_every_version(node: RunningNode, version: int) -> None:
    synced = sync(node, join(node), version)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"mine")


@pytest.mark.parametrize("version", HeartbeatRequest.VERSIONS)
def test_a_heartbeat_is_answered_in_every_version(node: RunningNode, version: int) -> None:
    joined = join(node)
    sync(node, joined)
    known = HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=1)
    assert node.ask(known, version).error_code == ErrorCode.NONE
    unknown = HeartbeatRequest(group_id="h", member_id=joined.member_id, generation_id=1)
    assert node.ask(unknown, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", LeaveGroupRequest.VERSIONS)
@pytest.mark.parametrize("group_id", ["g", "not-there"])
def test_before_version_3_the_error_of_the_only_member_is_that_of_the_whole(
    node: RunningNode, version: int, group_id: str
) -> None:
    join(node)
    if version < 3:
        request = LeaveGroupRequest(group_id=group_id, member_id="made-up")
        assert node.ask(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        request = LeaveGroupRequest(group_id=group_id, members=[Identity(member_id="made-up")])
        response = node.ask(request, version)
        assert response.error_code == ErrorCode.NONE
        assert [left.error_code for left in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", LeaveGroupRequest.VERSIONS)
def test_a_member_leaves_in_every_version(node: RunningNode, version: int) -> None:
    joined = join(node)
    if version < 3:
        request = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
    else:
        request = LeaveGroupRequest(group_id="g", members=[Identity(member_id=joined.member_id)])
    response = node.ask(request, version)
    assert response.error_code == ErrorCode.NONE
    assert [left.error_code for left in response.members] == ([] if version < 3 else [ErrorCode.NONE])
    again = HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=1)
    assert node.ask(again).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 5999, 1_800_001])
def test_a_session_timeout_has_bounds(node: RunningNode, session_timeout_ms: int) -> None:
    request = join_request("mine", session_timeout_ms=session_timeout_ms)
    for version in JoinGroupRequest.VERSIONS:
        response = node.ask(request, version)
        assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert response.member_id == "mine"


def test_a_member_names_no_more_protocols_than_a_turn_of_the_loop_can_compare(node: RunningNode) -> None:
    protocols = [Protocol(name=f"p{index}", metadata=b"m") for index in range(PROTOCOLS_MAX + 1)]
    for version in JoinGroupRequest.VERSIONS:
        response = node.ask(join_request("mine", protocols=protocols), version)
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert response.member_id == "mine"
    assert join(node, protocols=protocols[:PROTOCOLS_MAX]).error_code == ErrorCode.NONE


def test_a_group_has_a_name(node: RunningNode) -> None:
    requests = [
        join_request(group_id=""),
        SyncGroupRequest(**protocol_of(5)),  # type: ignore[arg-type]
        HeartbeatRequest(),
        LeaveGroupRequest(),
    ]
    for request in requests:
        assert node.ask(request).error_code == ErrorCode.INVALID_GROUP_ID


def test_from_version_5_on_a_sync_says_its_protocol(node: RunningNode) -> None:
    joined = join(node)
    request = SyncGroupRequest(group_id="g", member_id=joined.member_id, generation_id=1)
    assert node.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert node.ask(request, 4).error_code == ErrorCode.NONE


def test_the_session_timeout_of_version_0_is_its_rebalance_timeout(node: RunningNode) -> None:
    joined = join(node, 0)
    index = node.broker.groups.coordinator.partition_for("g")
    group: Any = node.broker.groups.coordinator.active(index).shard.groups["g"]
    assert group.members[joined.member_id].rebalance_timeout_ms == 10_000
    assert group.members[joined.member_id].client_host.startswith("/")


def test_a_member_that_waits_is_answered_when_the_others_have_joined(node: RunningNode) -> None:
    first = join(node)
    sync(node, first)
    pending = node.ask(join_request())

    async def join_both() -> tuple[Any, Any]:
        waiting = start(node.broker, join_request(pending.member_id), 9, LISTENER)
        assert isinstance(waiting, PendingResponse)
        beat = HeartbeatRequest(group_id="g", member_id=first.member_id, generation_id=1)
        assert start(node.broker, beat, 4, LISTENER).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert not waiting.is_completed
        rejoin = start(node.broker, join_request(first.member_id), 9, LISTENER)
        return waiting, rejoin

    waiting, rejoin = node.run(join_both())
    assert waiting.is_completed
    assert waiting.response.generation_id == rejoin.generation_id == 2
    assert waiting.response.leader == first.member_id


def test_a_group_is_as_it_was_when_it_is_loaded_again(node: RunningNode) -> None:
    joined = join(node)
    assert sync(node, joined).assignment == b"mine"
    coordinator = node.broker.groups.coordinator

    async def reload() -> None:
        coordinator.close()
        coordinator.update_leadership()
        while coordinator.is_any_loading:
            await asyncio.sleep(0)

    beat = HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=1)
    node.run(reload())
    assert node.ask(beat).error_code == ErrorCode.NONE
    assert sync(node, joined).assignment == b"mine"


def test_a_heartbeat_to_a_group_that_is_being_loaded_is_welcome(node: RunningNode) -> None:
    joined = join(node)
    sync(node, joined)
    coordinator = node.broker.groups.coordinator
    beat = HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=1)

    async def ask_while_loading() -> tuple[Any, Any]:
        coordinator.close()
        coordinator.update_leadership()
        assert coordinator.is_any_loading
        return start(node.broker, beat, 4, LISTENER), start(node.broker, join_request(), 9, LISTENER)

    beaten, refused = node.run(ask_while_loading())
    assert beaten.error_code == ErrorCode.NONE
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
