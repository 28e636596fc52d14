"""Topics that are made because a client asked for their metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.server.handlers.support import RunningNode, ask_later, config_of

from ottla.server.handlers.auto_create import creatable_topic
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataRequest


def request_of(name: str, *, may_create: bool = True) -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(name=name)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)


async def until_there(node: RunningNode, name: str) -> None:
    async with asyncio.timeout(10):
        while name not in node.broker.image.topics_by_name:
            await asyncio.sleep(0.001)


def test_the_first_answer_says_unknown_and_a_later_one_has_the_topic(
    start_node: Callable[..., RunningNode],
) -> None:
    node = start_node({"num.partitions": "3"})

    async def ask_twice() -> tuple[int, int]:
        first = await ask_later(node.broker, request_of("a"))
        await until_there(node, "a")
        second = await ask_later(node.broker, request_of("a"))
        return first.topics[0].error_code, len(second.topics[0].partitions)

    assert node.run(ask_twice()) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3)


def test_many_who_ask_at_once_get_one_topic(node: RunningNode) -> None:
    async def ask_often() -> None:
        await asyncio.gather(*(ask_later(node.broker, request_of("a")) for _ in range(20)))
        await until_there(node, "a")

    node.run(ask_often())
    assert list(node.broker.image.topics_by_name) == ["a"]


@pytest.mark.parametrize(("is_enabled", "may_create"), [("false", True), ("true", False)])
def test_nothing_is_made_where_the_node_or_the_client_does_not_want_it(
    start_node: Callable[..., RunningNode], is_enabled: str, may_create: bool
) -> None:
    node = start_node({"auto.create.topics.enable": is_enabled})
    assert node.ask(request_of("a", may_create=may_create)).topics[0].error_code != 0
    node.create("b")  # had a creation been under way, it would have come first
    assert list(node.broker.image.topics_by_name) == ["b"]


def test_a_name_that_cannot_be_is_not_tried(node: RunningNode) -> None:
    assert node.ask(request_of("not a name")).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_controller_chooses_where_the_node_says_nothing() -> None:
    plain = creatable_topic(config_of(), "a")
    assert (plain.num_partitions, plain.replication_factor) == (-1, -1)
    told = creatable_topic(config_of({"num.partitions": "6", "default.replication.factor": "2"}), "a")
    assert (told.num_partitions, told.replication_factor) == (6, 2)


@pytest.mark.parametrize(
    ("name", "partitions", "policy"),
    [
        ("__consumer_offsets", 50, "compact"),
        ("__transaction_state", 50, "compact"),
        ("__share_group_state", 50, "delete"),
    ],
)
def test_internal_topics_have_settings_of_their_own(name: str, partitions: int, policy: str) -> None:
    topic = creatable_topic(config_of(), name)
    assert topic.num_partitions == partitions
    assert topic.replication_factor == config_of().int_of("offsets.topic.replication.factor")
    texts = {one.name: one.value for one in topic.configs}
    assert texts["cleanup.policy"] == policy
    assert texts["segment.bytes"] == "104857600"
