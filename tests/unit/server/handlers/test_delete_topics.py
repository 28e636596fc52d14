"""DeleteTopics on a running node."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

State = DeleteTopicsRequest.DeleteTopicState


def by_name(*names: str, version: int, timeout_ms: int = 10_000) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    return DeleteTopicsRequest(topics=[State(name=name) for name in names], timeout_ms=timeout_ms)


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_gone_once_the_answer_has_come(node: RunningNode, version: int) -> None:
    node.create("a")
    results = node.ask(by_name("a", "missing", version=version), version).responses
    assert {one.name: one.error_code for one in results} == {
        "a": 0,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert "a" not in node.broker.image.topics_by_name
    assert "a" not in node.broker.partitions.by_name


def test_a_topic_is_deleted_by_id(node: RunningNode) -> None:
    node.create("a")
    topic_id = node.broker.image.topics_by_name["a"].id
    request = DeleteTopicsRequest(
        topics=[State(name=None, topic_id=topic_id), State(name=None, topic_id=b"x" * 16)], timeout_ms=10_000
    )
    results = {one.topic_id: (one.name, one.error_code) for one in node.ask(request).responses}
    assert results == {topic_id: ("a", 0), b"x" * 16: (None, ErrorCode.UNKNOWN_TOPIC_ID)}


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (6, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_can_be_switched_off(
    start_node: Callable[..., RunningNode], version: int, code: ErrorCode
) -> None:
    node = start_node({"delete.topic.enable": "false"})
    node.create("a")
    (result,) = node.ask(by_name("a", version=version), version).responses
    assert (result.name, result.error_code) == ("a", code)
    assert "a" in node.broker.image.topics_by_name


def test_no_time_means_timed_out(node: RunningNode) -> None:
    node.create("a")
    (result,) = node.ask(by_name("a", version=6, timeout_ms=0)).responses
    assert (result.name, result.error_code) == ("a", ErrorCode.REQUEST_TIMED_OUT)
    assert "a" in node.broker.image.topics_by_name
