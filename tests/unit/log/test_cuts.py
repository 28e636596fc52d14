"""A truncation ends on stable storage, whatever interrupts it, and nothing is appended before."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.log.node_support import TOPIC_ID, Node, run
from tests.unit.log.support import append, batch

from ottla.log.directories import LogDirectories
from ottla.log.log import Log


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, 1)


async def filled(node: Node, count: int = 20) -> tuple[LogDirectories, Log]:
    """Directories with a log of so many records, all of them flushed and checkpointed."""
    directories = await node.start()
    log = directories.create("orders", 0, TOPIC_ID, directory_id=directories.directories[0].id)
    for _ in range(count):
        append(log, batch(), leader_epoch=1)
    await directories.flush(log)
    await directories.checkpoint_recovery_points()
    return directories, log


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_truncation_does_without_a_snapshot_that_cannot_be_written(node: Node, code: int) -> None:
    async def test() -> None:
        directories, log = await filled(node)
        log.set_high_watermark(20)
        node.disk.operations.clear()
        node.disk.fail_on("replace", ".snapshot", code)
        assert await directories.truncate_to(log, 10)
        node.disk.heal()
        assert (log.log_end_offset, log.high_watermark, log.cuts_pending) == (10, 10, 0)
        assert ("sync_directory", "orders-0") in node.disk.operations
        await node.stop(directories)

    run(test)
