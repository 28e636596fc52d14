"""Requests about more partitions, members or resources than one decision takes: they are decided in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.coordinator.groups.shards import outcome_of
from tests.unit.server.handlers.support import RunningNode, ask, broker_of, image_of

from ottla.config.alterations import SETTINGS_PER_RESOURCE_MAX
from ottla.server.handlers.common import RESOURCES_PER_DECISION
from ottla.server.handlers.offset_common import PARTITIONS_PER_DECISION, in_parts, rejoined
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

MANY = 2 * PARTITIONS_PER_DECISION + 200

_CommitTopic = OffsetCommitRequest.OffsetCommitRequestTopic
_CommitPartition = OffsetCommitRequest.OffsetCommitRequestPartition


@pytest.fixture
def node(start_node: Callable[..., RunningNode]) -> RunningNode:
    """A node with a topic, and a coordinator that is there."""
    node = start_node({"offsets.topic.num.partitions": "1"})
    node.create("a")

    async def find() -> None:
        while "__consumer_offsets" not in node.broker.image.topics_by_name:
            await asyncio.sleep(0)

    node.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    node.run(find())
    return node


@pytest.mark.parametrize("sizes", [(), (0,), (3,), (0, 5, 0), (499, 2, 1), (1700, 0, 300), (500, 500)])
def test_parts_are_small_and_give_the_same_topics_again(sizes: tuple[int, ...]) -> None:
    topics = [
        _CommitTopic(
            name=f"t{place}", partitions=[_CommitPartition(partition_index=one) for one in range(size)]
        )
        for place, size in enumerate(sizes)
    ]
    before = [(topic.name, list(topic.partitions)) for topic in topics]
    parts = outcome_of(in_parts(topics))
    assert all(sum(len(topic.partitions) for topic in part) <= PARTITIONS_PER_DECISION for part in parts)
    assert [(topic.name, topic.partitions) for topic in topics] == before, "the request stays as it is"
    again = rejoined(parts, lambda topic: topic.name)
    assert [(topic.name, topic.partitions) for topic in again] == before


def _commit(node: RunningNode, metadata: str = "") -> Any:
    partitions = [
        _CommitPartition(partition_index=index, committed_offset=index, committed_metadata=metadata)
        for index in range(MANY)
    ]
    request = OffsetCommitRequest(group_id="g", topics=[_CommitTopic(name="wide", partitions=partitions)])
    (topic,) = node.ask(request, 9).topics
    assert [one.partition_index for one in topic.partitions] == list(range(MANY))
    return {one.error_code for one in topic.partitions}


def _fetch(node: RunningNode) -> dict[int, int]:
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
    return {
        partition.partition_index: partition.committed_offset
        for topic in node.ask(OffsetFetchRequest(groups=[group]), 9).groups[0].topics
        for partition in topic.partitions
    }


def test_offsets_of_many_partitions_are_committed_and_deleted_unless_they_fit_into_no_batch(
    node: RunningNode,
) -> None:
    node.create("wide", MANY)
    assert _commit(node, metadata="x" * 1_000) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert _fetch(node) == {}
    assert _commit(node) == {0}
    assert _fetch(node) == {index: index for index in range(MANY)}
    partitions = [
        OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=one) for one in range(MANY)
    ]
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(name="wide", partitions=partitions)
    answer = node.ask(OffsetDeleteRequest(group_id="g", topics=[topic]))
    assert [one.error_code for one in answer.topics[0].partitions] == [0] * MANY
    assert _fetch(node) == {}


def test_many_leaders_are_elected_and_many_partitions_reassigned(node: RunningNode) -> None:
    indexes = list(range(MANY))
    asked = ElectLeadersRequest.TopicPartitions(topic="a", partitions=indexes)
    answer = node.ask(ElectLeadersRequest(topic_partitions=[asked], timeout_ms=30_000))
    (topic,) = answer.replica_election_results
    assert [one.partition_id for one in topic.partition_result] == indexes
    codes = [one.error_code for one in topic.partition_result]
    assert codes == [ErrorCode.ELECTION_NOT_NEEDED] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (MANY - 1)
    moved = AlterPartitionReassignmentsRequest.ReassignableTopic(
        name="a",
        partitions=[
            AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=index, replicas=[9])
            for index in indexes
        ],
    )
    moving = node.ask(AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=30_000))
    (response,) = moving.responses
    assert [one.partition_index for one in response.partitions] == indexes
    codes = [one.error_code for one in response.partitions]
    assert codes == [ErrorCode.INVALID_REPLICA_ASSIGNMENT] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (
        MANY - 1
    )


def test_many_members_leave_and_each_is_answered(node: RunningNode) -> None:
    members = [LeaveGroupRequest.MemberIdentity(member_id=f"m{index}") for index in range(MANY)]
    answer = node.ask(LeaveGroupRequest(group_id="g", members=members))
    assert [one.member_id for one in answer.members] == [one.member_id for one in members]
    assert {one.error_code for one in answer.members} == {ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize("cls", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
def test_many_resources_are_answered_in_their_order_and_one_with_too_many_settings_is_refused(
    node: RunningNode, cls: Any
) -> None:
    config = cls.AlterableConfig(name="retention.ms", value="7")
    names = [f"t{index}" for index in range(2 * RESOURCES_PER_DECISION)] + ["a"]
    resources = [
        cls.AlterConfigsResource(resource_type=2, resource_name=name, configs=[config]) for name in names
    ]
    settings = [
        cls.AlterableConfig(name=f"name.{index}", value="7") for index in range(SETTINGS_PER_RESOURCE_MAX + 1)
    ]
    resources.append(cls.AlterConfigsResource(resource_type=2, resource_name="b", configs=settings))
    responses = node.ask(cls(resources=resources)).responses
    assert [one.resource_name for one in responses] == [*names, "b"]
    assert {one.error_code for one in responses[:-2]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert responses[-2].error_code == 0
    assert responses[-1].error_code == ErrorCode.INVALID_REQUEST
    assert node.broker.image.config(2, "a") == {"retention.ms": "7"}


def test_a_registration_with_more_listeners_than_any_node_has_is_refused(node: RunningNode) -> None:
    listener = ControllerRegistrationRequest.Listener(name="CONTROLLER", host="h", port=1)
    answer = node.ask(
        ControllerRegistrationRequest(controller_id=1, listeners=[listener] * 1_001), listener="CONTROLLER"
    )
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_partitions_that_have_no_quorum_are_unknown(node: RunningNode) -> None:
    topic = DescribeQuorumRequest.TopicData(
        topic_name="a",
        partitions=[DescribeQuorumRequest.PartitionData(partition_index=index) for index in range(MANY)],
    )
    (found,) = node.ask(DescribeQuorumRequest(topics=[topic])).topics
    assert [one.partition_index for one in found.partitions] == list(range(MANY))
    assert {one.error_code for one in found.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_repeated_partition_of_list_offsets_is_refused_and_the_others_are_answered() -> None:
    partitions = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 0)
    ]
    asked = ListOffsetsRequest.ListOffsetsTopic(name="a", partitions=partitions)
    (topic,) = ask(broker_of(image_of(1, a=2)), ListOffsetsRequest(replica_id=-1, topics=[asked])).topics
    codes = {one.partition_index: one.error_code for one in topic.partitions}
    assert codes == {0: ErrorCode.INVALID_REQUEST, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
