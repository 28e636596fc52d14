"""CreatePartitions on a running node."""

from __future__ import annotations

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import CreatePartitionsRequest

Topic = CreatePartitionsRequest.CreatePartitionsTopic


def request_of(
    *topics: Topic, timeout_ms: int = 10_000, validate_only: bool = False
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_and_hosted(node: RunningNode, version: int) -> None:
    node.create("a")
    (result,) = node.ask(request_of(Topic(name="a", count=3, assignments=None)), version).results
    assert (result.name, result.error_code, result.error_message) == ("a", 0, None)
    assert sorted(node.broker.partitions.by_name["a"]) == [0, 1, 2]


def test_each_topic_fails_by_itself(node: RunningNode) -> None:
    node.create("a", partitions=2)
    node.create("b")
    topics = [Topic(name=name, count=2, assignments=None) for name in ("a", "b", "missing")]
    results = {one.name: one.error_code for one in node.ask(request_of(*topics)).results}
    assert results == {
        "a": ErrorCode.INVALID_PARTITIONS,
        "b": 0,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_check_adds_nothing(node: RunningNode) -> None:
    node.create("a")
    request = request_of(Topic(name="a", count=3, assignments=None), validate_only=True)
    assert node.ask(request).results[0].error_code == 0
    assert len(node.broker.image.topics_by_name["a"].partitions) == 1


def test_no_time_means_timed_out(node: RunningNode) -> None:
    node.create("a")
    (result,) = node.ask(request_of(Topic(name="a", count=3, assignments=None), timeout_ms=0)).results
    assert (result.name, result.error_code) == ("a", ErrorCode.REQUEST_TIMED_OUT)
