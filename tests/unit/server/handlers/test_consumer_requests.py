"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on a running node, in all versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

SETTINGS = {"offsets.topic.num.partitions": "2", "group.consumer.assignment.interval.ms": "0"}


def ready(node: RunningNode) -> RunningNode:
    async def find() -> None:
        while "__consumer_offsets" not in node.broker.image.topics_by_name:
            await asyncio.sleep(0)

    node.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    node.run(find())
    return node


@pytest.fixture
def node(start_node: Callable[..., RunningNode]) -> RunningNode:
    return ready(start_node(SETTINGS))


def beat(node: RunningNode, version: int = 1, **fields: Any) -> Any:
    return node.ask(ConsumerGroupHeartbeatRequest(**{"group_id": "g", **fields}), version)


def join(node: RunningNode, version: int = 1, **fields: Any) -> Any:
    first = {
        "member_id": "" if version == 0 else "m1",
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["a"],
        "topic_partitions": [],
    }
    return beat(node, version, **{**first, **fields})


def describe(node: RunningNode, *group_ids: str, version: int = 1, **fields: Any) -> Any:
    return node.ask(ConsumerGroupDescribeRequest(group_ids=list(group_ids), **fields), version).groups


@pytest.mark.parametrize("version", ConsumerGroupHeartbeatRequest.VERSIONS)
def test_a_member_joins_lives_and_leaves_in_every_version(node: RunningNode, version: int) -> None:
    node.create("a", 3)
    joined = join(node, version)
    assert joined.error_code == 0
    assert [topic.partitions for topic in joined.assignment.topic_partitions] == [[0, 1, 2]]
    lives = beat(node, version, member_id=joined.member_id, member_epoch=joined.member_epoch)
    assert (lives.error_code, lives.assignment) == (0, None)
    left = beat(node, version, member_id=joined.member_id, member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    gone = beat(node, version, member_id=joined.member_id, member_epoch=joined.member_epoch)
    assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", ConsumerGroupDescribeRequest.VERSIONS)
def test_a_group_is_described_in_every_version(node: RunningNode, version: int) -> None:
    node.create("a", 2)
    join(node)
    (group,) = describe(node, "g", version=version)
    assert (group.group_state, group.assignor_name, group.group_epoch) == ("Stable", "uniform", 2)
    (member,) = group.members
    assert (member.member_id, member.client_id) == ("m1", "tests")
    assert member.subscribed_topic_names == ["a"]
    assert [(row.topic_name, row.partitions) for row in member.assignment.topic_partitions] == [("a", [0, 1])]
    assert member.target_assignment == member.assignment
    assert member.member_type == (1 if version >= 1 else -1)


def test_groups_are_described_one_by_one(node: RunningNode) -> None:
    join(node)
    groups = describe(node, "", "g", "other", include_authorized_operations=True)
    assert {(group.group_id, group.error_code) for group in groups} == {
        ("", ErrorCode.INVALID_GROUP_ID),
        ("g", 0),
        ("other", ErrorCode.GROUP_ID_NOT_FOUND),
    }
    operations = {group.group_id: group.authorized_operations for group in groups}
    assert operations["g"] > 0
    assert operations["other"] == -(2**31)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        (
            {"topic_partitions": [ConsumerGroupHeartbeatRequest.TopicPartitions(partitions=[0])]},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"server_assignor": ""}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_what_makes_no_sense_is_refused_and_no_group_is_made(
    node: RunningNode, fields: dict[str, Any], code: ErrorCode
) -> None:
    response = join(node, **fields)
    assert response.error_code == code
    assert response.error_message
    assert describe(node, "g")[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_from_version_1_on_a_member_must_bring_its_id(node: RunningNode) -> None:
    assert join(node, 0, member_id="").error_code == 0
    assert join(node, 1, member_id="").error_code == ErrorCode.INVALID_REQUEST


def test_the_protocol_can_be_switched_off(start_node: Callable[..., RunningNode]) -> None:
    node = ready(start_node({**SETTINGS, "group.coordinator.rebalance.protocols": "classic"}))
    assert join(node).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert describe(node, "g")[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_large_assignment_is_waited_for(node: RunningNode) -> None:
    node.create("a", 1000)
    joined = join(node)
    assert joined.error_code == 0
    assert [len(topic.partitions) for topic in joined.assignment.topic_partitions] == [1000]
    (group,) = describe(node, "g")
    assert group.group_state == "Stable"


def test_topics_of_an_expression_are_found_in_the_background(node: RunningNode) -> None:
    node.create("abc", 2)

    async def resolved() -> None:
        while not node.broker.groups.coordinator.loaded():
            await asyncio.sleep(0)
        groups = [active.shard.groups.get("g") for active in node.broker.groups.coordinator.loaded()]
        (group,) = [group for group in groups if group is not None]
        while not group.is_subscribed_to("abc"):
            await asyncio.sleep(0)

    joined = join(node, subscribed_topic_names=None, subscribed_topic_regex="a.*")
    node.run(resolved())
    lives = beat(node, member_id="m1", member_epoch=joined.member_epoch)
    assert [topic.partitions for topic in lives.assignment.topic_partitions] == [[0, 1]]
