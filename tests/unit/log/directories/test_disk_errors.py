"""Disk errors: a failed disk takes its directory offline, a full one refuses writes, damage affects one
log."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.node_support import (
    COMPACT,
    TOPIC_ID,
    Node,
    is_there,
    run,
)
from tests.unit.log.support import START_MS, append, batch, read_all
from tests.unit.reports import reported

from ottla.log import checkpoints
from ottla.log.directories.properties import (
    CLEAN_SHUTDOWN,
)
from ottla.log.segment import Segment
from ottla.records.record import Record, build_batch
from ottla.wire.errors import (
    ErrorCode,
    KafkaStorageError,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_disk_error_takes_one_directory_offline_and_the_others_are_served(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        lost, kept = (directories.create("orders", index, TOPIC_ID) for index in range(2))
        append(lost, batch(1))
        append(kept, batch(1))
        node.disk.fault = lambda operation, path: (
            errno.EIO if operation == "write" and path.startswith(node.paths[0]) else 0
        )
        with pytest.raises(OSError, match="Input/output error") as caught:
            append(lost, batch(1))
        error = directories.storage_error(lost, caught.value)
        assert isinstance(error, KafkaStorageError)
        assert node.offline == [(node.paths[0], [("orders", 0)])]
        with pytest.raises(KafkaStorageError, match="is offline"):
            directories.get("orders", 0)
        with pytest.raises(KafkaStorageError):
            append(lost, batch(1))
        append(kept, batch(1))
        assert directories.get("orders", 1) is kept
        reports = directories.describe()
        assert [report.error_code for report in reports] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        assert directories.create("new", 0, TOPIC_ID).directory.startswith(node.paths[1])
        with pytest.raises(KafkaStorageError, match="offline"):
            directories.move("orders", 1, node.paths[0])
        assert isinstance(directories.storage_error(lost, caught.value), KafkaStorageError)
        assert len(node.offline) == 1
        node.disk.heal()
        await node.stop(directories, epoch=5)
        assert not is_there(node.paths[0], CLEAN_SHUTDOWN)
        assert is_there(node.paths[1], CLEAN_SHUTDOWN)

        again = await node.start()
        assert again.logs["orders", 0].log_end_offset == 1
        assert again.previous_broker_epoch == -1
        await node.stop(again)

    run(test)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_refuses_writes_until_there_is_room(
    node: Node, code: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(1))
        node.disk.fault = lambda operation, path: code if operation in ("write", "replace", "create") else 0
        for _ in range(3):
            with pytest.raises(OSError) as caught:
                append(log, batch(100))
            error = directories.storage_error(log, caught.value)
            assert isinstance(error, KafkaStorageError)
            assert "is full" in str(error)
        assert log.log_end_offset == 1
        assert directories.directories[0].online
        assert len(read_all(log)) == 1, "reads go on"
        with pytest.raises(KafkaStorageError, match="No log directory can host"):
            directories.create("new", 0, TOPIC_ID)
        await directories.checkpoint_high_watermarks()
        assert node.offline == []

        monkeypatch.setattr(node.disk, "space", lambda path: (10**9, 0))
        await directories.flush_due()
        assert [directory.full for directory in directories.directories] == [True, True]
        monkeypatch.undo()
        node.disk.heal()
        await directories.flush_due()
        assert [directory.full for directory in directories.directories] == [False, False]
        append(log, batch(100))
        assert log.log_end_offset == 101
        assert directories.create("new", 0, TOPIC_ID) is not None
        await node.stop(directories)
        again = await node.start()
        assert again.logs["orders", 0].log_end_offset == 101
        await node.stop(again)

    run(test)
    assert caplog.text.count("is full: rejecting appends") == 2, "once for each directory"


def test_a_lack_of_descriptors_takes_no_directory_offline(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        error = directories.storage_error(log, OSError(errno.EMFILE, "Too many open files"))
        assert isinstance(error, KafkaStorageError)
        assert node.offline == []
        await node.stop(directories)

    run(test)


def test_an_error_of_a_deleted_log_takes_no_directory_offline(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        await directories.delete([("orders", 0)])
        directories.storage_error(log, OSError(errno.EBADF, "Bad file descriptor"))
        assert node.offline == []
        await node.stop(directories)

    run(test)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_fsync_takes_the_directory_offline_for_any_reason(node: Node, code: int) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(1))
        node.disk.fail_on("fsync", ".log", code)
        with pytest.raises(KafkaStorageError):
            await directories.flush(log)
        node.disk.heal()
        assert node.offline == [(node.paths[0], [("orders", 0)])]
        assert not directories.directories[0].online
        await node.stop(directories)

    run(test)


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        append(directories.create("orders", 0, TOPIC_ID), batch(1))
        node.disk.fail_on("replace", checkpoints.HIGH_WATERMARKS, errno.EIO)
        await directories.checkpoint_high_watermarks()
        assert [path for path, _ in node.offline] == node.paths
        await node.stop(directories)

    run(test)


def test_a_checkpoint_that_fails_when_its_writer_was_stopped_is_not_reported(node: Node) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def fail_when_told(operation: str, path: str) -> int:
        if operation != "replace" or checkpoints.HIGH_WATERMARKS not in path:
            return 0
        begun.set()
        assert go_on.wait(60)
        return errno.EIO

    async def story() -> None:
        directories = await node.start()
        append(directories.create("orders", 0, TOPIC_ID), batch(1))
        node.disk.fault = fail_when_told
        writing = asyncio.ensure_future(directories.checkpoint_high_watermarks())
        while not begun.is_set():
            await asyncio.sleep(0.001)
        writing.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        node.disk.heal()
        await node.stop(directories)

    assert reported(story()) == []


def test_a_directory_that_fails_while_it_is_loaded_is_offline(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        for index in range(4):
            append(first.create("orders", index, TOPIC_ID), batch(1))
        await node.kill(first)
        broken = f"{node.paths[0]}/orders"
        node.disk.fault = lambda operation, path: errno.EIO if path.startswith(broken) else 0
        second = await node.start()
        node.disk.heal()
        assert sorted(second.logs) == [("orders", 1), ("orders", 3)]
        assert sorted(second.hosted.offline_partitions) == [("orders", 0), ("orders", 2)]
        with pytest.raises(KafkaStorageError, match="offline"):
            second.get("orders", 2)
        await node.stop(second)
        third = await node.start()
        assert len(third.logs) == 4
        await node.stop(third)

    run(test)


def test_a_cleaning_that_meets_a_disk_error_reports_it_for_its_directory(node: Node) -> None:
    async def test() -> None:
        node.config = COMPACT
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(3))
        log.roll()
        node.disk.fail_on("write", ".cleaned", errno.ENOSPC)
        assert not await directories.cleaner.clean_next()
        assert directories.directories[0].full
        node.disk.fail_on("write", ".cleaned", errno.EIO)
        assert not await directories.cleaner.clean_next()
        assert not directories.directories[0].online
        await node.stop(directories)

    run(test)


def test_a_failure_while_stopping_leaves_no_clean_marker_but_closes_the_rest(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        logs = [directories.create("orders", index, TOPIC_ID) for index in range(4)]
        for log in logs:
            append(log, batch(2))
        broken = logs[0].directory
        node.disk.fault = lambda operation, path: (
            errno.EIO if operation == "fsync" and path.startswith(broken) else 0
        )
        await node.stop(directories, epoch=5)
        node.disk.heal()
        assert not is_there(node.paths[0], CLEAN_SHUTDOWN)
        assert is_there(node.paths[1], CLEAN_SHUTDOWN)
        again = await node.start()
        assert [again.logs["orders", index].log_end_offset for index in range(4)] == [2, 2, 2, 2]
        await node.stop(again)

    run(test)


def test_a_replacement_of_segments_that_fails_halfway_takes_its_log_offline_and_no_other(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        node.paths = node.paths[:1]
        node.config = COMPACT
        directories = await node.start()
        log, other = (directories.create("orders", index, TOPIC_ID) for index in range(2))
        for number in range(8):
            append(log, memoryview(build_batch([Record(0, START_MS, b"k%d" % number, b"x")])))
            log.roll()
        log.advance_high_watermark(8)
        really_rename = Segment.rename

        def rename(segment: Segment, **options: Any) -> None:
            if options.get("suffix") == "":
                raise MemoryError
            really_rename(segment, **options)

        monkeypatch.setattr(Segment, "rename", rename)
        await directories.cleaner.clean_next()
        monkeypatch.undo()
        with pytest.raises(KafkaStorageError, match="MemoryError"):
            directories.get("orders", 0)
        with pytest.raises(KafkaStorageError):
            directories.create("orders", 0, TOPIC_ID)
        with pytest.raises(KafkaStorageError):
            append(log, batch(1))
        assert node.offline == [(node.paths[0], [("orders", 0)])]
        assert directories.directories[0].online
        append(other, batch(1))
        await node.stop(directories)
        assert not is_there(node.paths[0], CLEAN_SHUTDOWN)

        again = await node.start()
        loaded = again.logs["orders", 0]
        loaded.set_high_watermark(loaded.log_end_offset)
        assert [record.offset for record in read_all(loaded)] == list(range(8))
        assert again.logs["orders", 1].log_end_offset == 1
        await node.stop(again)

    run(test)
