"""DescribeTopicPartitions: pages of partitions in the order of names."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from tests.unit.server.handlers.support import add_topic, ask, broker_of, image_of

from ottla.server.broker import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest

Named = DescribeTopicPartitionsRequest.TopicRequest
Cursor = DescribeTopicPartitionsRequest.Cursor


def request_of(
    *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsRequest:
    topics = [Named(name=name) for name in names]
    return DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)


def pages(broker: Broker, limit: int) -> list[list[tuple[str, int]]]:
    """All partitions, as a client that follows the cursor gets them."""
    found: list[list[tuple[str, int]]] = []
    cursor: Cursor | None = None
    while True:
        response: Any = ask(broker, request_of(limit=limit, cursor=cursor))
        found.append(
            [(topic.name, one.partition_index) for topic in response.topics for one in topic.partitions]
        )
        if response.next_cursor is None:
            return found
        following = response.next_cursor
        cursor = Cursor(topic_name=following.topic_name, partition_index=following.partition_index)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 100])
def test_following_the_cursor_gives_every_partition_once_and_in_order(limit: int) -> None:
    found = pages(broker_of(image_of(1, b=3, a=1, c=2)), limit)
    assert list(chain(*found)) == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]
    assert all(len(page) == limit for page in found[:-1])


def test_the_node_has_a_limit_of_its_own() -> None:
    broker = broker_of(image_of(1, a=5), {"max.request.partition.size.limit": "2"})
    assert [len(page) for page in pages(broker, 2000)] == [2, 2, 1]


def test_a_limit_below_one_is_taken_for_one() -> None:
    assert len(ask(broker_of(image_of(1, a=5)), request_of(limit=0)).topics[0].partitions) == 1


def test_topics_that_are_named_come_with_errors_for_those_that_are_not_there() -> None:
    response = ask(broker_of(image_of(1, a=1)), request_of("missing", "a", "not a name"))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", 0),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("not a name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert {topic.topic_authorized_operations for topic in response.topics} == {3576}


def test_eligible_leaders_are_told() -> None:
    image = image_of(1, 2, 3)
    add_topic(image, "a", replicas=[1, 2, 3], isr=[1], elr=[2], last_known_elr=[3], leader_epoch=6)
    (partition,) = ask(broker_of(image), request_of("a")).topics[0].partitions
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([2], [3])
    assert (partition.leader_id, partition.leader_epoch, partition.isr_nodes) == (1, 6, [1])


def test_a_leader_that_cannot_be_reached_is_none() -> None:
    image = image_of(1)
    add_topic(image, "a", replicas=[9])
    (partition,) = ask(broker_of(image), request_of("a")).topics[0].partitions
    assert (partition.leader_id, partition.offline_replicas, partition.error_code) == (-1, [9], 0)


@pytest.mark.parametrize(
    "cursor", [Cursor(topic_name="b", partition_index=0), Cursor(topic_name="a", partition_index=-1)]
)
def test_a_cursor_that_points_nowhere_is_refused(cursor: Cursor) -> None:
    (topic,) = ask(broker_of(image_of(1, a=1, b=1)), request_of("a", cursor=cursor)).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


def test_a_cursor_may_name_a_topic_that_is_gone_where_all_are_asked_for() -> None:
    response = ask(
        broker_of(image_of(1, a=1, c=1)), request_of(cursor=Cursor(topic_name="b", partition_index=2))
    )
    assert [topic.name for topic in response.topics] == ["c"]
