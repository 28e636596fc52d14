"""Requests about offsets and groups on a running node, in all versions, and what a client may get wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.server.handlers.common import GROUP_OPERATIONS, OPERATIONS_NOT_ASKED_FOR
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

UNKNOWN_ID = b"\x77" * 16
NOT_THERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

CommitTopic = OffsetCommitRequest.OffsetCommitRequestTopic
CommitPartition = OffsetCommitRequest.OffsetCommitRequestPartition


@pytest.fixture
def node(start_node: Callable[..., RunningNode]) -> RunningNode:
    """A node with the topics a and b, and a coordinator that is there."""
    node = start_node(
        {"offsets.topic.num.partitions": "3", "transaction.partition.verification.enable": "false"}
    )
    node.create("a", 2)
    node.create("b")

    async def find() -> None:
        while "__consumer_offsets" not in node.broker.image.topics_by_name:
            await asyncio.sleep(0)

    node.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    node.run(find())
    return node


def id_of(node: RunningNode, name: str) -> bytes:
    known = node.broker.image.topics_by_name.get(name)
    return UNKNOWN_ID if known is None else known.id


def commit_request(
    node: RunningNode, group_id: str, offsets: list[tuple[str, int, int]], version: int, **fields: Any
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            CommitTopic(
                name=name if version < 10 else "",
                topic_id=id_of(node, name) if version >= 10 else uuid.ZERO,
                partitions=[CommitPartition(partition_index=index, committed_offset=offset, **fields)],
            )
            for name, index, offset in offsets
        ],
    )


def commit(
    node: RunningNode, group_id: str, *offsets: tuple[str, int, int], version: int = 9, **fields: Any
) -> list[tuple[str, list[tuple[int, int]]]]:
    """Topics, each with its partitions and their error codes, as they stand in the answer."""
    response = node.ask(commit_request(node, group_id, list(offsets), version, **fields), version)
    names = {topic.id: topic.name for topic in node.broker.image.topics.values()}
    return [
        (
            topic.name if version < 10 else names.get(topic.topic_id, ""),
            [(partition.partition_index, partition.error_code) for partition in topic.partitions],
        )
        for topic in response.topics
    ]


def fetch(
    node: RunningNode,
    group_id: str,
    *places: tuple[str, int],
    version: int = 9,
    stable: bool = False,
) -> Any:
    """(error of the group, topic and partition -> offset, or -error)."""
    (group,) = fetch_groups(node, {group_id: list(places) or None}, version=version, stable=stable).values()
    return group


def fetch_groups(
    node: RunningNode,
    asked: dict[str, list[tuple[str, int]] | None],
    *,
    version: int = 9,
    stable: bool = False,
) -> dict[str, tuple[int, dict[tuple[str, int], int]]]:
    if version >= 8:
        request = OffsetFetchRequest(
            require_stable=stable,
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=None
                    if places is None
                    else [
                        OffsetFetchRequest.OffsetFetchRequestTopics(
                            name=name if version < 10 else "",
                            topic_id=id_of(node, name) if version >= 10 else uuid.ZERO,
                            partition_indexes=[index],
                        )
                        for name, index in places
                    ],
                )
                for group_id, places in asked.items()
            ],
        )
        groups = node.ask(request, version).groups
        ids = [group.group_id for group in groups]
    else:
        ((group_id, places),) = asked.items()
        request = OffsetFetchRequest(
            group_id=group_id,
            require_stable=stable,
            topics=None
            if places is None
            else [
                OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[index])
                for name, index in places
            ],
        )
        groups, ids = [node.ask(request, version)], [group_id]
    names = {topic.id: topic.name for topic in node.broker.image.topics.values()}
    return {
        group_id: (
            group.error_code,
            {
                (
                    topic.name if version < 10 else names.get(topic.topic_id, ""),
                    partition.partition_index,
                ): -partition.error_code if partition.error_code else partition.committed_offset
                for topic in group.topics
                for partition in topic.partitions
            },
        )
        for group_id, group in zip(ids, groups, strict=True)
    }


# Commit and fetch


@pytest.mark.parametrize("version", range(2, 11))
def test_what_is_committed_is_fetched_in_every_version(node: RunningNode, version: int) -> None:
    assert commit(node, "g", ("a", 0, 5), ("b", 0, 6), version=version) == [("a", [(0, 0)]), ("b", [(0, 0)])]
    for fetch_version in range(1, 11):
        expected = {("a", 0): 5, ("a", 1): -1, ("b", 0): 6}
        assert fetch(node, "g", *expected, version=fetch_version) == (0, expected)


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_of_a_group_are_fetched(node: RunningNode, version: int) -> None:
    commit(node, "g", ("a", 0, 5), ("b", 0, 6))
    assert fetch(node, "g", version=version) == (0, {("a", 0): 5, ("b", 0): 6})
    assert fetch(node, "other", version=version) == (0, {})


def test_several_groups_are_fetched_at_once(node: RunningNode) -> None:
    for number in range(6):
        commit(node, f"g{number}", ("a", 0, number))
    fetched = fetch_groups(node, {f"g{number}": None for number in range(7)})
    assert fetched == {f"g{number}": (0, {("a", 0): number}) for number in range(6)} | {"g6": (0, {})}


def test_metadata_and_leader_epoch_come_back(node: RunningNode) -> None:
    commit(node, "g", ("a", 0, 5), committed_metadata="here", committed_leader_epoch=0)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)]
    )
    ((partition,),) = [topic.partitions for topic in node.ask(request).groups[0].topics]
    assert (partition.metadata, partition.committed_leader_epoch) == ("here", 0)


@pytest.mark.parametrize("version", [9, 10])
def test_partitions_that_do_not_exist_are_refused_and_the_others_committed(
    node: RunningNode, version: int
) -> None:
    answer = commit(
        node, "g", ("a", 2, 1), ("missing", 0, 1), ("a", -1, 1), ("a", 1, 7), ("b", 0, 8), version=version
    )
    unknown_topic = NOT_THERE if version < 10 else ErrorCode.UNKNOWN_TOPIC_ID
    assert answer == [
        ("a", [(2, NOT_THERE), (-1, NOT_THERE), (1, 0)]),
        ("missing" if version < 10 else "", [(0, unknown_topic)]),
        ("b", [(0, 0)]),
    ]
    assert fetch(node, "g") == (0, {("a", 1): 7, ("b", 0): 8})


def test_a_commit_of_nothing_that_exists_makes_no_group(node: RunningNode) -> None:
    assert commit(node, "g", ("missing", 0, 1)) == [("missing", [(0, NOT_THERE)])]
    assert node.ask(ListGroupsRequest()).groups == []


def test_a_topic_that_is_named_twice_is_answered_twice_and_the_last_offset_counts(node: RunningNode) -> None:
    assert commit(node, "g", ("a", 0, 1), ("a", 0, 2)) == [("a", [(0, 0)]), ("a", [(0, 0)])]
    assert fetch(node, "g") == (0, {("a", 0): 2})


def test_a_negative_offset_is_kept_as_kafka_keeps_it(node: RunningNode) -> None:
    commit(node, "g", ("a", 0, -5))
    assert fetch(node, "g") == (0, {("a", 0): -5})


def test_the_empty_group_id_is_a_group_for_offsets(node: RunningNode) -> None:
    assert commit(node, "", ("a", 0, 1)) == [("a", [(0, 0)])]
    assert fetch(node, "") == (0, {("a", 0): 1})


def test_metadata_that_is_too_long_is_refused(node: RunningNode) -> None:
    assert commit(node, "g", ("a", 0, 1), committed_metadata="x" * 4097) == [
        ("a", [(0, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
    ]
    assert fetch(node, "g") == (0, {})


@pytest.mark.parametrize(
    ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_no_group_is_refused_for_every_partition(
    node: RunningNode, version: int, code: int
) -> None:
    request = commit_request(node, "g", [("a", 0, 1), ("missing", 0, 1), ("b", 0, 1)], version)
    request.generation_id_or_member_epoch = 1
    request.member_id = "m"
    answer = node.ask(request, version)
    assert [(topic.name, topic.partitions[0].error_code) for topic in answer.topics] == [
        ("missing", NOT_THERE),
        ("a", code),
        ("b", code),
    ]


def test_offsets_of_a_topic_that_is_not_known_by_its_id_have_an_error(node: RunningNode) -> None:
    commit(node, "g", ("a", 0, 5))
    assert fetch(node, "g", ("missing", 0), ("a", 0), version=10) == (
        0,
        {("a", 0): 5, ("", 0): -ErrorCode.UNKNOWN_TOPIC_ID},
    )
    assert fetch(node, "g", ("missing", 0), version=9) == (0, {("missing", 0): -1})


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_a_node_that_is_not_the_coordinator_says_so(
    start_node: Callable[..., RunningNode], version: int
) -> None:
    node = start_node()
    node.create("a")
    code = ErrorCode.NOT_COORDINATOR
    expected = (0, {("a", 0): -code}) if version == 1 else (code, {})
    (found,) = fetch_groups(node, {"g": [("a", 0)]}, version=version).values()
    assert (found[0] if version > 1 else 0, found[1]) == expected
    assert commit(node, "g", ("a", 0, 1)) == [("a", [(0, code)])]
    assert node.ask(OffsetDeleteRequest(group_id="g")).error_code == code
    (described,) = node.ask(DescribeGroupsRequest(groups=["g"])).groups
    (deleted,) = node.ask(DeleteGroupsRequest(groups_names=["g"])).results
    assert (described.error_code, deleted.error_code) == (code, code)
    assert node.ask(ListGroupsRequest()).error_code == 0


def test_offsets_go_with_their_topic(node: RunningNode) -> None:
    commit(node, "g", ("a", 0, 5), ("b", 0, 6))
    topic = DeleteTopicsRequest.DeleteTopicState(name="a")
    node.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=5000))

    async def until_gone() -> None:
        while "a" in node.broker.image.topics_by_name:
            await asyncio.sleep(0)

    node.run(until_gone())
    assert fetch(node, "g") == (0, {("b", 0): 6})


# In transactions


def commit_in_transaction(
    node: RunningNode, group_id: str, *offsets: tuple[str, int, int], version: int = 4, **fields: Any
) -> dict[tuple[str, int], int]:
    """By the older protocol. Version 5 needs a transaction: see test_transactions.py."""
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group_id,
        producer_id=7,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, **fields
                    )
                ],
            )
            for name, index, offset in offsets
        ],
    )
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in node.ask(request, version).topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_an_open_transaction_are_not_there_yet_and_make_the_partition_unstable(
    node: RunningNode, version: int
) -> None:
    commit(node, "g", ("a", 0, 1), ("b", 0, 2))
    assert commit_in_transaction(node, "g", ("a", 0, 5), version=version) == {("a", 0): 0}
    assert fetch(node, "g") == (0, {("a", 0): 1, ("b", 0): 2})
    unstable = -ErrorCode.UNSTABLE_OFFSET_COMMIT
    for fetch_version in (7, 8, 9, 10):
        assert fetch(node, "g", version=fetch_version, stable=True) == (0, {("a", 0): unstable, ("b", 0): 2})


def test_a_transactional_commit_of_what_does_not_exist_is_refused(node: RunningNode) -> None:
    assert commit_in_transaction(node, "g", ("a", 2, 1), ("missing", 0, 1), ("a", 1, 1)) == {
        ("a", 2): NOT_THERE,
        ("a", 1): 0,
        ("missing", 0): NOT_THERE,
    }
    assert commit_in_transaction(node, "g", ("missing", 0, 1)) == {("missing", 0): NOT_THERE}


def test_a_transactional_commit_needs_a_group_id(node: RunningNode) -> None:
    assert commit_in_transaction(node, "", ("a", 0, 1)) == {("a", 0): ErrorCode.INVALID_GROUP_ID}


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_old_producers_are_not_told_of_loading(node: RunningNode, version: int, code: int) -> None:
    coordinator = node.broker.groups.coordinator
    for led in coordinator._led.values():
        led.active = None
    assert commit_in_transaction(node, "g", ("a", 0, 1), version=version) == {("a", 0): code}
    listed = node.ask(ListGroupsRequest())
    assert (listed.error_code, listed.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


# Deleting offsets


def delete_offsets(node: RunningNode, group_id: str, *places: tuple[str, int]) -> Any:
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index)],
            )
            for name, index in places
        ],
    )
    response = node.ask(request)
    return response.error_code, {
        (topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def test_offsets_are_deleted_where_the_partition_exists(node: RunningNode) -> None:
    commit(node, "g", ("a", 0, 5), ("b", 0, 6))
    assert delete_offsets(node, "g", ("a", 0), ("a", 9), ("missing", 0), ("b", -1)) == (
        0,
        {("a", 0): 0, ("a", 9): NOT_THERE, ("missing", 0): NOT_THERE, ("b", -1): NOT_THERE},
    )
    assert fetch(node, "g") == (0, {("b", 0): 6})


def test_an_error_of_the_group_is_the_whole_answer(node: RunningNode) -> None:
    assert delete_offsets(node, "", ("a", 0)) == (ErrorCode.INVALID_GROUP_ID, {})
    assert delete_offsets(node, "g", ("a", 0), ("missing", 0)) == (ErrorCode.GROUP_ID_NOT_FOUND, {})


# Groups


@pytest.mark.parametrize("version", range(6))
def test_groups_of_all_partitions_are_listed(node: RunningNode, version: int) -> None:
    for number in range(6):
        commit(node, f"g{number}", ("a", 0, 1))
    response = node.ask(ListGroupsRequest(), version)
    assert sorted(group.group_id for group in response.groups) == [f"g{number}" for number in range(6)]
    if version >= 5:
        assert {(group.group_state, group.group_type) for group in response.groups} == {("Empty", "classic")}


def test_groups_are_listed_by_state_and_type(node: RunningNode) -> None:
    commit(node, "g", ("a", 0, 1))

    def listed(states: list[str], types: list[str]) -> list[str]:
        groups = node.ask(ListGroupsRequest(states_filter=states, types_filter=types)).groups
        return [group.group_id for group in groups]

    assert listed(["empty"], ["Classic"]) == ["g"]
    assert listed(["Stable"], []) == []
    assert listed([], ["consumer"]) == []


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_the_order_of_the_request(node: RunningNode, version: int) -> None:
    commit(node, "g", ("a", 0, 1))
    request = DescribeGroupsRequest(groups=["missing", "g", "g"])
    missing, first, second = node.ask(request, version).groups
    assert (first.group_id, first.group_state, first.error_code) == ("g", "Empty", 0)
    assert first == second
    assert (missing.group_state, missing.error_code) == (
        "Dead",
        ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0,
    )
    assert first.authorized_operations == OPERATIONS_NOT_ASKED_FOR


def test_what_is_allowed_on_a_group_is_said_when_asked_for(node: RunningNode) -> None:
    commit(node, "g", ("a", 0, 1))
    (group,) = node.ask(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)).groups
    assert group.authorized_operations == GROUP_OPERATIONS


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_each_for_itself(node: RunningNode, version: int) -> None:
    commit(node, "g", ("a", 0, 1))
    commit(node, "h", ("a", 0, 2))
    response = node.ask(DeleteGroupsRequest(groups_names=["g", "missing", "g"]), version)
    assert {result.group_id: result.error_code for result in response.results} == {
        "g": 0,
        "missing": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert len(response.results) == 2
    assert [group.group_id for group in node.ask(ListGroupsRequest()).groups] == ["h"]
    assert fetch(node, "g") == (0, {})
