"""A process that has too many files open for a moment loses nothing: opening is retried later, and only a
failed fsync is final."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.log.node_support import COMPACT, OTHER_ID, TOPIC_ID, Node, run
from tests.unit.log.support import append, batch, read_all

from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.properties import CLEAN_SHUTDOWN, DirectoryError
from ottla.log.log import Log
from ottla.wire.errors import KafkaStorageError

OPENING = ("open", "create", "replace", "sync_directory")
PARTITION = ("orders", 0)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    node.config = replace(COMPACT, flush_ms=1)
    return node


async def busy(node: Node) -> tuple[LogDirectories, Log]:
    """Directories with work for every periodic task."""
    directories = await node.start()
    log = directories.create(*PARTITION, TOPIC_ID)
    for _ in range(3):
        append(log, batch(5))
        log.roll()
    append(log, batch(2))
    log.assign_epoch_start_offset(7, log.log_end_offset)
    log.advance_high_watermark(log.log_end_offset)
    moving = directories.create("moving", 0, OTHER_ID)
    append(moving, batch(3))
    moving.advance_high_watermark(3)
    source = moving.directory.rpartition("/")[0]
    directories.move("moving", 0, next(path for path in node.paths if path != source))
    directories.create("leaving", 0, bytes(range(2, 18)))
    await directories.delete([("leaving", 0)])
    node.clock.time_ms += 120_000
    return directories, log


async def flush(directories: LogDirectories) -> None:
    with pytest.raises(KafkaStorageError):
        await directories.flush(directories.logs[PARTITION])


TASKS: dict[str, Callable[[LogDirectories], Awaitable[object]]] = {
    "flush": flush,
    "flush_due": lambda directories: directories.flush_due(),
    "recovery points": lambda directories: directories.checkpoint_recovery_points(),
    "log starts": lambda directories: directories.checkpoint_log_starts(),
    "high watermarks": lambda directories: directories.checkpoint_high_watermarks(),
    "retention": lambda directories: directories.retain(),
    "deletion": lambda directories: directories.delete_due(),
    "cleaning": lambda directories: directories.cleaner.clean_next(),
    "moves": lambda directories: directories.copy_futures(),
    "removal": lambda directories: directories.forget_removed(
        [directory.path for directory in directories.directories]
    ),
}


@pytest.mark.parametrize(
    ("task", "code", "operations"),
    [
        *((task, errno.EMFILE, OPENING) for task in TASKS),
        *((task, errno.ENFILE, ("open",)) for task in ("flush", "flush_due", "recovery points", "cleaning")),
        ("flush", errno.ENOMEM, ("open",)),
        ("flush", errno.EMFILE, ("sync_directory",)),
    ],
)
def test_a_periodic_task_without_descriptors_loses_nothing_and_succeeds_later(
    node: Node, task: str, code: int, operations: tuple[str, ...]
) -> None:
    async def test() -> None:
        directories, log = await busy(node)
        before = [record.offset for record in read_all(log)]
        node.disk.fault = lambda operation, path: code if operation in operations else 0
        for _ in range(2):
            await TASKS[task](directories)
        assert node.offline == []
        assert log.failure is None
        assert directories.logs[PARTITION] is log
        assert log.recovery_point == 0
        assert [record.offset for record in read_all(log)] == before

        node.disk.heal()
        node.disk.operations.clear()
        await directories.flush(log)
        assert log.scan_offset == log.log_end_offset
        synced = {name for operation, name in node.disk.operations if operation == "fsync"}
        assert len([name for name in synced if name.endswith(".timeindex")]) >= 3
        assert len([name for name in synced if name.endswith(".snapshot")]) >= 3
        assert "leader-epoch-checkpoint" in synced
        await directories.checkpoint_recovery_points()
        assert directories.hosted.unsynced == set()
        for repeated in TASKS:
            if repeated != "flush":
                await TASKS[repeated](directories)
        assert directories.cleaner.uncleanable == {}
        assert not [name for number in (0, 1) for name in node.names(number) if "leaving" in name]
        await node.stop(directories)
        again = await node.start()
        assert again.logs[PARTITION].log_end_offset == log.log_end_offset
        await node.stop(again)

    run(test)


def test_a_truncation_waits_until_it_can_be_synced(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        directories, log = await busy(node)
        naps = 0

        async def nap(seconds: float) -> None:
            nonlocal naps
            naps += 1
            if naps == 3:
                node.disk.heal()

        def fault(operation: str, path: str) -> int:
            return errno.EMFILE if operation == "sync_directory" and path == log.directory else 0

        node.disk.fault = fault
        monkeypatch.setattr(asyncio, "sleep", nap)
        assert await directories.truncate_to(log, 3)
        monkeypatch.undo()
        assert naps == 3
        assert (log.log_end_offset, log.failure, node.offline) == (3, None, [])
        await node.stop(directories)

    run(test)


def test_a_log_that_cannot_be_opened_at_the_start_affects_no_other(node: Node) -> None:
    async def test() -> None:
        directories, log = await busy(node)
        await directories.flush(log)
        await directories.checkpoint_recovery_points()
        await node.kill(directories)
        node.disk.fault = lambda operation, path: (
            errno.EMFILE if operation == "open" and "orders-0" in path else 0
        )
        again = await node.start()
        assert node.offline == []
        assert all(directory.online for directory in again.directories)
        assert "limit of open files" in again.hosted.offline_partitions[PARTITION]
        assert ("moving", 0) in again.logs
        with pytest.raises(KafkaStorageError, match="limit of open files"):
            again.get(*PARTITION)
        await again.checkpoint_recovery_points()
        await node.stop(again)

        node.disk.heal()
        last = await node.start()
        assert last.logs[PARTITION].log_end_offset == 17
        assert last.logs[PARTITION].recovery_point == 17
        await node.stop(last)

    run(test)


@pytest.mark.parametrize("operation", ["read", "list", "sync_directory"])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_start_without_descriptors_for_a_moment_takes_no_directory_offline_and_stays_clean(
    node: Node, monkeypatch: pytest.MonkeyPatch, operation: str, code: int
) -> None:
    async def test() -> None:
        directories, _log = await busy(node)
        await node.stop(directories, epoch=7)
        left = fail_in_first_directory(node, monkeypatch, operation, code, times=3)
        monkeypatch.setattr(asyncio, "sleep", no_pause)
        again = await node.start()
        assert left == []
        assert node.offline == []
        assert [directory.online for directory in again.directories] == [True, True]
        assert again.logs[PARTITION].recovery_point == again.logs[PARTITION].log_end_offset == 17
        assert ("moving", 0) in again.logs
        assert again.previous_broker_epoch == 7
        await node.stop(again)

    run(test)


@pytest.mark.parametrize("operation", ["read", "list", "lock"])
def test_a_start_without_descriptors_ends_and_says_what_to_do(
    node: Node, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    async def test() -> None:
        directories, _log = await busy(node)
        await node.kill(directories)
        fail_in_first_directory(node, monkeypatch, operation, errno.EMFILE, times=100)
        monkeypatch.setattr(asyncio, "sleep", no_pause)
        with pytest.raises(DirectoryError, match="Raise the limit of open files"):
            await node.start()
        assert node.offline == []

    node.options["metadata_path"] = node.paths[1]
    run(test)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_clean_stop_is_not_forgotten_when_its_marker_cannot_be_opened(
    node: Node, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    read = node.disk.read

    def fail(path: str) -> bytes:
        if path.endswith(CLEAN_SHUTDOWN):
            raise OSError(code, "Too many open files", path)
        return read(path)

    async def test() -> None:
        await node.stop(await node.start(), epoch=7)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", no_pause)
            patch.setattr(node.disk, "read", fail)
            with pytest.raises(DirectoryError, match="Raise the limit of open files"):
                await node.start()
        assert node.running is not None
        await node.kill(node.running)
        directories = await node.start()
        assert directories.previous_broker_epoch == 7
        await node.stop(directories)

    run(test)


def fail_in_first_directory(
    node: Node, monkeypatch: pytest.MonkeyPatch, operation: str, code: int, *, times: int
) -> list[int]:
    """Let one operation of the disk fail in the first directory; the failures that have not happened yet."""
    original = getattr(node.disk, operation)
    left = [code] * times

    def fail(path: str) -> object:
        is_meant = path.startswith(node.paths[0]) and not path.endswith("meta.properties")
        if is_meant and left:
            raise OSError(left.pop(), "Too many open files", path)
        return original(path)

    monkeypatch.setattr(node.disk, operation, fail)
    return left


async def no_pause(seconds: float) -> None:
    """In place of asyncio.sleep."""


def test_a_failed_fsync_is_final(node: Node) -> None:
    async def test() -> None:
        directories, log = await busy(node)
        node.disk.fault = lambda operation, path: (
            errno.ENOMEM if operation == "fsync" and path.endswith(".log") else 0
        )
        await flush(directories)
        assert log.failure is not None
        assert len(node.offline) == 1
        node.disk.heal()
        await node.stop(directories)

    run(test)
