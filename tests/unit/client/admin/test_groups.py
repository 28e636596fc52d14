"""Groups: found at their coordinators, described by the API of their kind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.admin.support import ANY, engine_of, metadata_of, run

from ottla.client.admin.group_offsets import (
    alter_consumer_group_offsets,
    delete_consumer_group_offsets,
    list_consumer_group_offsets,
)
from ottla.client.admin.groups import (
    GroupState,
    GroupType,
    delete_groups,
    describe_consumer_groups,
    list_groups,
    read_assignment,
    remove_members,
)
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.wire import codec
from ottla.wire.errors import (
    ErrorCode,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidGroupId,
    NonEmptyGroup,
    UnknownMemberId,
    UnsupportedVersion,
)
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.messages.delete_groups import DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorResponse
from ottla.wire.messages.leave_group import LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchResponse
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment


def coordinators_of(request: Any, nodes: dict[str, int]) -> FindCoordinatorResponse:
    """The coordinators of the groups asked for; a group without one has none yet."""
    one = FindCoordinatorResponse.Coordinator
    later = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return FindCoordinatorResponse(
        coordinators=[
            one(key=key, node_id=nodes[key]) if key in nodes else one(key=key, error_code=later)
            for key in request.coordinator_keys
        ]
    )


def test_groups_of_one_coordinator_are_asked_for_together() -> None:
    one = DeleteGroupsResponse.DeletableGroupResult

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinators_of(request, {"a": 1, "b": 2, "c": 1})
        return DeleteGroupsResponse(
            results=[
                one(group_id=group, error_code=ErrorCode.NON_EMPTY_GROUP if group == "c" else 0)
                for group in request.groups_names
            ]
        )

    engine, cluster = engine_of(answer)

    results = run(delete_groups(engine, ["a", "b", "c"]))

    assert sorted(cluster.names()) == [(ANY, "FindCoordinator"), (1, "DeleteGroups"), (2, "DeleteGroups")]
    assert list(results.failed) == ["c"]
    assert isinstance(results["c"], NonEmptyGroup)


def test_a_coordinator_that_loads_is_asked_again_and_one_that_moved_is_looked_for() -> None:
    one = DeleteGroupsResponse.DeletableGroupResult
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    nodes = [{}, {"a": 1}, {"a": 2}]

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinators_of(request, nodes.pop(0))
        return DeleteGroupsResponse(results=[one(group_id="a", error_code=codes.pop(0))])

    engine, cluster = engine_of(answer)

    assert run(delete_groups(engine, ["a"])).all() == {"a": None}
    assert [node for node, name in cluster.names() if name == "DeleteGroups"] == [1, 1, 2]


def test_brokers_that_know_one_key_a_request_are_asked_so() -> None:
    one = DeleteGroupsResponse.DeletableGroupResult

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            if request.coordinator_keys:
                raise UnsupportedVersion("one key only")
            return FindCoordinatorResponse(node_id={"a": 1, "b": 2}[request.key])
        return DeleteGroupsResponse(results=[one(group_id=group) for group in request.groups_names])

    engine, _ = engine_of(answer)

    assert run(delete_groups(engine, ["a", "b"])).all() == {"a": None, "b": None}


def test_a_group_is_described_by_the_newer_api_and_by_the_classic_one_where_that_does_not_know_it() -> None:
    newer, classic = ConsumerGroupDescribeResponse.DescribedGroup, DescribeGroupsResponse.DescribedGroup
    missing = ErrorCode.GROUP_ID_NOT_FOUND

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinators_of(request, {"new": 0, "old": 1, "none": 1, "connect": 2})
        if request.NAME == "ConsumerGroupDescribeRequest":
            return ConsumerGroupDescribeResponse(
                groups=[
                    newer(group_id=group, group_state="Stable", assignor_name="uniform", group_epoch=4)
                    if group == "new"
                    else newer(group_id=group, error_code=missing, error_message=f"Group {group} not found.")
                    for group in request.group_ids
                ]
            )
        known = {
            "old": classic(group_id="old", group_state="Empty"),
            "connect": classic(group_id="connect", group_state="Stable", protocol_type="connect"),
            "none": classic(group_id="none", error_code=missing),
        }
        return DescribeGroupsResponse(groups=[known[group] for group in request.groups])

    engine, _ = engine_of(answer)

    results = run(describe_consumer_groups(engine, ["new", "old", "none", "connect"]))

    new, old = results.result("new"), results.result("old")
    assert (new.type, new.assignor, new.group_epoch) == (GroupType.CONSUMER, "uniform", 4)
    assert (old.type, old.is_simple, old.state) == (GroupType.CLASSIC, True, GroupState.EMPTY)
    assert isinstance(results["none"], GroupIdNotFound)
    assert str(results["none"]) == "Group none not found."
    assert isinstance(results["connect"], InvalidGroupId)


def test_groups_of_brokers_without_the_newer_api_are_described_all_the_same() -> None:
    group, member = DescribeGroupsResponse.DescribedGroup, DescribeGroupsResponse.DescribedGroupMember
    body = codec.encode(
        ConsumerProtocolAssignment(
            assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 2])]
        ),
        3,
    )

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinators_of(request, {"g": 0})
        if request.NAME == "ConsumerGroupDescribeRequest":
            raise UnsupportedVersion("too old")
        told = member(member_id="m", client_id="c", client_host="/h", member_assignment=b"\0\3" + body)
        return DescribeGroupsResponse(
            groups=[group(group_id="g", group_state="Stable", protocol_type="consumer", members=[told])]
        )

    engine, _ = engine_of(answer)

    (found,) = run(describe_consumer_groups(engine, ["g"])).result("g").members

    assert found.assignment == {TopicPartition("t", 0), TopicPartition("t", 2)}


@pytest.mark.parametrize("noise", [b"", b"\0", b"\0\0\xff\xff\xff\xff", b"\x7f\xff\0"])
def test_an_assignment_that_is_none_is_read_as_empty(noise: bytes) -> None:
    assert read_assignment(noise) == frozenset()


def test_all_brokers_list_their_groups_and_one_that_fails_is_named() -> None:
    one = ListGroupsResponse.ListedGroup
    loading = [True]

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {})
        if node == 0 and loading:
            loading.clear()
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if node == 1:
            return ListGroupsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return ListGroupsResponse(
            groups=[
                one(
                    group_id=f"g{node}", protocol_type="consumer", group_state="stable", group_type="classic"
                ),
                one(group_id=f"c{node}", protocol_type="connect"),
            ]
        )

    engine, _ = engine_of(answer)

    listed = run(list_groups(engine, protocol_types=["consumer"]))

    assert sorted(one.group_id for one in listed.found) == ["g0", "g2"]
    assert listed.found[0].state is GroupState.STABLE
    assert listed.found[0].type is GroupType.CLASSIC
    assert list(listed.errors) == [1]


def test_offsets_of_several_groups_come_in_one_request_a_coordinator() -> None:
    answer_class = OffsetFetchResponse
    part, topic = answer_class.OffsetFetchResponsePartitions, answer_class.OffsetFetchResponseTopics
    group = answer_class.OffsetFetchResponseGroup

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinators_of(request, {"a": 1, "b": 1, "c": 1})
        parts = [
            part(partition_index=0, committed_offset=7, committed_leader_epoch=3, metadata="m"),
            part(partition_index=1, committed_offset=-1, metadata=""),
            part(partition_index=2, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, committed_offset=-1),
        ]
        return answer_class(
            groups=[
                group(group_id=one.group_id, topics=[topic(name="t", partitions=parts)])
                if one.group_id != "c"
                else group(group_id="c", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                for one in request.groups
            ]
        )

    engine, cluster = engine_of(answer)

    results = run(list_consumer_group_offsets(engine, {"a": None, "b": [TopicPartition("t", 0)], "c": None}))

    assert results.result("a") == {
        TopicPartition("t", 0): OffsetAndMetadata(7, 3, "m"),
        TopicPartition("t", 1): None,
    }
    assert list(results.failed) == ["c"]
    assert [name for _, name in cluster.names()] == ["FindCoordinator", "OffsetFetch"]
    asked = {one.group_id: one.topics for one in cluster.asked[1][1].groups}
    assert asked["a"] is None
    assert asked["b"][0].partition_indexes == [0]


def test_a_commit_is_tried_again_as_a_whole_and_ends_with_an_error_for_each_partition() -> None:
    topic, part = (
        OffsetCommitResponse.OffsetCommitResponseTopic,
        OffsetCommitResponse.OffsetCommitResponsePartition,
    )
    codes: list[list[int]] = [
        [0, ErrorCode.REBALANCE_IN_PROGRESS],
        [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR],
        [0, ErrorCode.UNKNOWN_MEMBER_ID],
    ]

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinators_of(request, {"g": 1})
        parts = [part(partition_index=index, error_code=code) for index, code in enumerate(codes.pop(0))]
        return OffsetCommitResponse(topics=[topic(name="t", partitions=parts)])

    engine, _ = engine_of(answer)
    offsets: dict[TopicPartition, OffsetAndMetadata | int] = {
        TopicPartition("t", 0): 5,
        TopicPartition("t", 1): OffsetAndMetadata(6, 2, "x"),
    }

    results = run(alter_consumer_group_offsets(engine, "g", offsets))

    assert codes == []
    assert results[TopicPartition("t", 0)] is None
    assert isinstance(results[TopicPartition("t", 1)], UnknownMemberId)


def test_an_error_of_the_group_is_that_of_each_of_its_partitions() -> None:
    topic, part = (
        OffsetDeleteResponse.OffsetDeleteResponseTopic,
        OffsetDeleteResponse.OffsetDeleteResponsePartition,
    )
    subscribed = part(partition_index=0, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    answers = {
        "g": OffsetDeleteResponse(topics=[topic(name="t", partitions=[subscribed, part(partition_index=1)])]),
        "none": OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    }

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinators_of(request, {"g": 1, "none": 1})
        return answers[request.group_id]

    engine, _ = engine_of(answer)
    keys = [TopicPartition("t", 0), TopicPartition("t", 1)]

    results = run(delete_consumer_group_offsets(engine, "g", keys))
    assert isinstance(results[keys[0]], GroupSubscribedToTopic)
    assert results[keys[1]] is None
    unknown = run(delete_consumer_group_offsets(engine, "none", keys))
    assert all(isinstance(unknown[key], GroupIdNotFound) for key in keys)


def test_members_are_removed_by_instance_and_all_by_asking_who_they_are() -> None:
    group, member = ConsumerGroupDescribeResponse.DescribedGroup, ConsumerGroupDescribeResponse.Member
    gone = LeaveGroupResponse.MemberResponse

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinators_of(request, {"g": 1})
        if request.NAME == "ConsumerGroupDescribeRequest":
            members = [member(member_id="m1"), member(member_id="m2", instance_id="i2")]
            return ConsumerGroupDescribeResponse(groups=[group(group_id="g", members=members)])
        return LeaveGroupResponse(
            members=[
                gone(
                    member_id=one.member_id,
                    group_instance_id=one.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID if one.group_instance_id == "i9" else 0,
                )
                for one in request.members
            ]
        )

    engine, cluster = engine_of(answer)

    assert run(remove_members(engine, "g")).all() == {"m1": None, "i2": None}
    assert [one.member_id for one in cluster.asked[-1][1].members] == ["m1", ""]
    assert list(run(remove_members(engine, "g", ["i2", "i9"])).failed) == ["i9"]
