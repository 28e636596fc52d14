"""DescribeLogDirs and AlterReplicaLogDirs on a node with two directories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.config import Operation, ResourceType
from ottla.server.handlers.alter_replica_log_dirs import REFUSALS_TOLD_MAX
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

Described = dict[str, dict[tuple[str, int], DescribeLogDirsResponse.DescribeLogDirsPartition]]


@pytest.fixture
def node(start_node: Callable[..., RunningNode], tmp_path: Path) -> RunningNode:
    return start_node({"log.dirs": f"{tmp_path}/one,{tmp_path}/two"})


def describe(
    node: RunningNode, topics: list[tuple[str, list[int]]] | None = None, version: int | None = None
) -> Described:
    """By directory, its partitions."""
    asked = None
    if topics is not None:
        asked = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in topics
        ]
    response = node.ask(DescribeLogDirsRequest(topics=asked), version)
    assert response.error_code == 0
    return {
        result.log_dir: {
            (topic.name, one.partition_index): one for topic in result.topics for one in topic.partitions
        }
        for result in response.results
    }


def move(node: RunningNode, path: str, topic: str, index: int = 0) -> int:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[index])],
            )
        ]
    )
    (result,) = node.ask(request).results
    assert result.topic_name == topic
    code: int = result.partitions[0].error_code
    return code


@pytest.mark.parametrize("version", range(1, 6))
def test_every_directory_is_described_with_what_is_in_it(
    node: RunningNode, tmp_path: Path, version: int
) -> None:
    node.create("a", partitions=2)
    node.append("a", 1, 2, 3)
    found = describe(node, version=version)
    assert set(found) == {f"{tmp_path}/one", f"{tmp_path}/two"}
    partitions = {key: one for directory in found.values() for key, one in directory.items()}
    assert set(partitions) == {("a", 0), ("a", 1)}
    assert partitions["a", 0].partition_size > 0
    assert partitions["a", 1].partition_size == 0
    assert (partitions["a", 0].offset_lag, partitions["a", 0].is_future_key) == (0, False)


def test_only_the_partitions_that_are_asked_for_come(node: RunningNode) -> None:
    node.create("a", partitions=2)
    node.create("b")
    found = describe(node, [("a", [1, 7])])
    assert {key for directory in found.values() for key in directory} == {("a", 1)}
    assert not any(describe(node, []).values())


def test_the_room_on_the_disk_is_told(node: RunningNode) -> None:
    for result in node.ask(DescribeLogDirsRequest(topics=None)).results:
        assert result.total_bytes >= result.usable_bytes > 0
        assert not result.is_cordoned


def cordon(node: RunningNode, paths: str) -> int:
    """Set cordoned.log.dirs while the node runs."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=ResourceType.BROKER,
        resource_name="1",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name="cordoned.log.dirs", config_operation=Operation.SET, value=paths
            )
        ],
    )
    (result,) = node.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    code: int = result.error_code
    return code


def test_a_directory_is_cordoned_while_the_node_runs(node: RunningNode, tmp_path: Path) -> None:
    def cordoned() -> list[str]:
        results = node.ask(DescribeLogDirsRequest(topics=None)).results
        return [result.log_dir for result in results if result.is_cordoned]

    assert cordon(node, f"{tmp_path}/three") == ErrorCode.INVALID_REQUEST
    assert cordon(node, f"{tmp_path}/one") == 0
    assert cordoned() == [f"{tmp_path}/one"]
    node.create("a", partitions=3)
    assert [len(one) for one in describe(node).values()] == [0, 3]
    assert move(node, f"{tmp_path}/one", "a") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cordon(node, "") == 0
    assert cordoned() == []
    node.create("b")
    assert [len(one) for one in describe(node).values()] == [1, 3]


def test_a_replica_is_moved_to_another_directory(node: RunningNode, tmp_path: Path) -> None:
    node.create("a")
    node.append("a", 1, 2, 3)
    before = next(path for path, partitions in describe(node).items() if partitions)
    after = next(path for path in describe(node) if path != before)
    assert move(node, after, "a") == 0

    async def settle() -> None:
        while await node.broker.directories.copy_futures() or node.broker.directories.futures:
            pass

    node.run(settle())
    found = describe(node)
    assert set(found[after]) == {("a", 0)}
    assert found[before] == {}


def test_what_cannot_be_moved_is_refused(node: RunningNode, tmp_path: Path) -> None:
    node.create("a")
    assert move(node, f"{tmp_path}/three", "a") == ErrorCode.LOG_DIR_NOT_FOUND
    assert move(node, f"{tmp_path}/one", "missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(node, f"{tmp_path}/one", "x" * 220) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_few_of_the_partitions_that_cannot_be_moved_are_logged(
    node: RunningNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line for each of tens of thousands takes longer than all other work on a request."""
    topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name="missing", partitions=list(range(500)))
    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=f"{tmp_path}/two", topics=[topic])
    with caplog.at_level("WARNING", "ottla.server.log_directories"):
        (result,) = node.ask(AlterReplicaLogDirsRequest(dirs=[directory])).results
    assert len(result.partitions) == 500
    assert len(caplog.records) == REFUSALS_TOLD_MAX + 1
    assert "490 other partitions" in caplog.messages[-1]
