"""DeleteRecords on a running node: the log start moves, and what cannot be is refused."""

from __future__ import annotations

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.log import checkpoints
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import DeleteRecordsRequest

HIGH_WATERMARK = -1


def delete(
    node: RunningNode, topic: str, offset: int, version: int | None = None, index: int = 0
) -> tuple[int, int]:
    """(error code, low watermark)."""
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5000
    )
    ((result,),) = [one.partitions for one in node.ask(request, version).topics]
    assert result.partition_index == index
    return result.error_code, result.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_log_start_moves_up_and_never_back(node: RunningNode, version: int) -> None:
    node.create("a")
    node.append("a", 1, 2, 3, 4, 5)
    assert delete(node, "a", 2, version) == (0, 2)
    assert delete(node, "a", 1, version) == (0, 2)
    assert delete(node, "a", HIGH_WATERMARK, version) == (0, 5)


def test_the_new_start_is_on_disk_when_the_answer_leaves(node: RunningNode) -> None:
    node.create("a")
    node.append("a", 1, 2, 3)
    delete(node, "a", 2)
    (directory,) = node.broker.directories.directories
    written = checkpoints.read(node.broker.disk, f"{directory.path}/{checkpoints.LOG_STARTS}")
    assert written["a", 0] == 2


@pytest.mark.parametrize("offset", [-2, 4])
def test_an_offset_that_is_not_in_the_log_is_refused(node: RunningNode, offset: int) -> None:
    node.create("a")
    node.append("a", 1, 2, 3)
    assert delete(node, "a", offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_topics_that_are_only_compacted_keep_their_records(node: RunningNode) -> None:
    node.create("a", cleanup_policy="compact")
    node.create("b", cleanup_policy="compact,delete")
    assert delete(node, "a", 0) == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(node, "b", 0) == (0, 0)


def test_internal_and_missing_topics_are_refused(node: RunningNode) -> None:
    node.create("__consumer_offsets")
    node.create("a")
    assert delete(node, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert delete(node, "missing", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(node, "a", 0, index=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
