"""CreateTopics on a running node: the answer, and that the topic is there when it has left."""

from __future__ import annotations

import pytest
from tests.unit.server.handlers.support import CONTROLLER_LISTENER, RunningNode

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreateTopicsRequest

Topic = CreateTopicsRequest.CreatableTopic


def request_of(*topics: Topic, **fields: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=fields.get("timeout_ms", 10_000))


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_there_once_the_answer_has_come(node: RunningNode, version: int) -> None:
    (result,) = node.ask(request_of(Topic(name="a", num_partitions=3, replication_factor=1)), version).topics
    assert (result.error_code, result.error_message) == (0, None)
    topic = node.broker.image.topics_by_name["a"]
    assert len(topic.partitions) == 3
    assert len(node.broker.partitions.by_name["a"]) == 3
    if version >= 5:
        assert (result.num_partitions, result.replication_factor, len(result.configs)) == (3, 1, 33)
    if version >= 7:
        assert result.topic_id == topic.id


def test_each_topic_fails_by_itself(node: RunningNode) -> None:
    topics = [Topic(name=name, num_partitions=1, replication_factor=1) for name in ("good", "not a name")]
    topics.append(Topic(name="many", num_partitions=1, replication_factor=5))
    results = {one.name: one for one in node.ask(request_of(*topics)).topics}
    assert {name: one.error_code for name, one in results.items()} == {
        "good": 0,
        "not a name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "many": ErrorCode.INVALID_REPLICATION_FACTOR,
    }
    assert "not a name" in results["not a name"].error_message
    assert set(node.broker.image.topics_by_name) == {"good"}


def test_a_check_creates_nothing(node: RunningNode) -> None:
    request = request_of(Topic(name="a", num_partitions=1, replication_factor=1))
    request.validate_only = True
    assert node.ask(request).topics[0].error_code == 0
    assert "a" not in node.broker.image.topics_by_name


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_means_timed_out_and_nothing_is_created(node: RunningNode, timeout_ms: int) -> None:
    request = request_of(Topic(name="a", num_partitions=1, replication_factor=1), timeout_ms=timeout_ms)
    (result,) = node.ask(request).topics
    assert (result.name, result.error_code) == ("a", ErrorCode.REQUEST_TIMED_OUT)
    assert "a" not in node.broker.image.topics_by_name


def test_controllers_take_the_request_too(node: RunningNode) -> None:
    request = request_of(Topic(name="a", num_partitions=1, replication_factor=1))
    assert node.ask(request, listener=CONTROLLER_LISTENER).topics[0].error_code == 0


def test_a_request_for_too_much_is_refused_as_a_whole(node: RunningNode) -> None:
    topics = [Topic(name=name, num_partitions=9_000, replication_factor=1) for name in ("a", "b")]
    codes = {one.error_code for one in node.ask(request_of(*topics)).topics}
    assert codes == {ErrorCode.POLICY_VIOLATION}
