"""Small requests that name one thing many times: the answer has its row once, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.handlers.support import (
    RunningNode,
    append,
    ask,
    ask_later,
    broker_of,
    host_log,
    image_of,
)

from ottla.controller.result import RECORDS_PER_REQUEST_MAX
from ottla.host import HostDisk
from ottla.server.handlers.offset_common import merged
from ottla.server.net.long_requests import REPEATS_MAX
from ottla.wire.message import Message
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

FEW, MANY = REPEATS_MAX + 1, 2_000

_Resource = DescribeConfigsRequest.DescribeConfigsResource


@pytest.fixture
def node(start_node: Callable[..., RunningNode]) -> RunningNode:
    node = start_node({"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"})
    names = {"__consumer_offsets", "__transaction_state"}

    async def find() -> None:
        while not names <= set(node.broker.image.topics_by_name):
            await asyncio.sleep(0)

    node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    node.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]))
    node.run(find())
    return node


def _describe(count: int) -> list[tuple[Message, str]]:
    """Requests that name one thing `count` times, and the field of the answer that has its rows."""
    return [
        (DescribeGroupsRequest(groups=["g"] * count), "groups"),
        (ConsumerGroupDescribeRequest(group_ids=["g"] * count), "groups"),
        (DescribeTransactionsRequest(transactional_ids=["t"] * count), "transaction_states"),
        (
            DescribeConfigsRequest(resources=[_Resource(resource_type=4, resource_name="1")] * count),
            "results",
        ),
        (
            OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g")] * count),
            "groups",
        ),
    ]


def test_what_is_named_often_is_described_once_and_a_few_repeats_are_answered_as_kafka_does(
    node: RunningNode,
) -> None:
    for request, rows in _describe(MANY):
        assert len(getattr(node.ask(request), rows)) == 1, request.NAME
    for request, rows in _describe(FEW):
        assert len(getattr(node.ask(request), rows)) == FEW, request.NAME


def test_a_partition_whose_offset_is_asked_for_often_has_one_row(node: RunningNode) -> None:
    node.create("a", 2)
    for version in (7, 9):
        topics: list[Any] = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name="a", partition_indexes=[1, *[0] * MANY]),
            OffsetFetchRequest.OffsetFetchRequestTopic(name="a", partition_indexes=[0] * MANY),
        ]
        if version < 8:
            found = node.ask(OffsetFetchRequest(group_id="g", topics=topics), version).topics
        else:
            named = [
                OffsetFetchRequest.OffsetFetchRequestTopics(name="a", partition_indexes=one.partition_indexes)
                for one in topics
            ]
            group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=named)
            found = node.ask(OffsetFetchRequest(groups=[group]), version).groups[0].topics
        (topic,) = found
        assert [one.partition_index for one in topic.partitions] == [1, 0]


def test_producers_of_a_partition_are_described_once(tmp_path: Path, disk: HostDisk) -> None:
    broker = broker_of(image_of(1, a=1))
    host_log(broker, disk, str(tmp_path), "a")
    append(broker, "a", 1000, producer_id=5, producer_epoch=1, base_sequence=0)
    for indexes, rows in (([0] * MANY, 1), ([0] * FEW, FEW)):
        asked = DescribeProducersRequest.TopicRequest(name="a", partition_indexes=indexes)
        (topic,) = ask(broker, DescribeProducersRequest(topics=[asked])).topics
        assert len(topic.partitions) == rows


def test_a_resource_that_is_named_often_is_answered_with_all_settings_that_were_asked_for() -> None:
    broker = broker_of(image_of(1, a=1))
    names = ["retention.ms", "segment.bytes", "cleanup.policy"]
    resources = [
        _Resource(resource_type=2, resource_name="a", configuration_keys=[names[index % 3]])
        for index in range(MANY)
    ]
    (result,) = ask(broker, DescribeConfigsRequest(resources=resources)).results
    assert sorted(one.name for one in result.configs) == sorted(names)
    resources.append(_Resource(resource_type=2, resource_name="a", configuration_keys=None))
    (result,) = ask(broker, DescribeConfigsRequest(resources=resources)).results
    assert len(result.configs) > 30


def test_a_group_that_is_asked_for_as_many_members_is_answered_once(node: RunningNode) -> None:
    groups = [
        OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id="g", member_id=f"member-{index}", member_epoch=index
        )
        for index in range(MANY)
    ]
    assert len(node.ask(OffsetFetchRequest(groups=groups), 9).groups) == 1


def test_a_broker_whose_id_is_written_in_many_ways_is_described_once() -> None:
    broker = broker_of(image_of(1, a=1))
    for kind in (4, 8):
        resources = [
            _Resource(resource_type=kind, resource_name="0" * zeros + str(broker.node_id))
            for zeros in range(200)
        ]
        assert len(ask(broker, DescribeConfigsRequest(resources=resources)).results) == 1


def test_one_creation_of_an_internal_topic_is_under_way_however_many_keys_ask_for_it(
    start_node: Callable[..., RunningNode],
) -> None:
    node = start_node({"offsets.topic.num.partitions": "1"})
    asked = 0
    submit = node.broker.quorum.ask

    async def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal asked
        asked += 1
        return await submit(*arguments, **named)

    node.broker.quorum.ask = counted  # type: ignore[method-assign]

    async def find() -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{one}" for one in range(MANY)])
        await asyncio.gather(*(ask_later(node.broker, request) for _ in range(3)))
        while "__consumer_offsets" not in node.broker.image.topics_by_name or node.broker.topics_in_creation:
            await asyncio.sleep(0)

    node.run(find())
    assert asked == 1


def test_more_missing_topics_than_the_controller_makes_at_once_are_not_asked_for(node: RunningNode) -> None:
    names = [
        MetadataRequest.MetadataRequestTopic(name=f"n{one}") for one in range(RECORDS_PER_REQUEST_MAX + 1)
    ]
    answer = node.ask(MetadataRequest(topics=names, allow_auto_topic_creation=True))
    assert len(answer.topics) == len(names)
    assert not node.broker.topics_in_creation & {topic.name for topic in names}


def test_a_topic_that_is_refused_often_has_its_partitions_joined_without_copying_them_again() -> None:
    class Counted(list[Any]):
        copies = 0

        def __iter__(self) -> Any:
            Counted.copies += 1
            return super().__iter__()

    topics = [
        OffsetCommitResponse.OffsetCommitResponseTopic(
            name="a",
            partitions=Counted([OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=index)]),
        )
        for index in range(MANY)
    ]
    (topic,) = merged(topics, [], lambda one: one.name)
    assert [one.partition_index for one in topic.partitions] == list(range(MANY))
    assert len(topics[0].partitions) == 1, "what was refused stays as it is"
    assert Counted.copies <= 2 * MANY
