"""A truncation reaches stable storage, whatever interrupts it, and nothing is appended before."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest
from tests.unit.log.node_support import COMPACT, TOPIC_ID, Node, is_there, run
from tests.unit.log.support import START_MS, Bench, FaultyDisk, append, batch, produced, read_all

from ottla.log import checkpoints
from ottla.log.config import LogConfig
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.properties import CLEAN_SHUTDOWN
from ottla.log.log import Log
from ottla.wire.errors import KafkaStorageError

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=0)


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


def hold_syncs(node: Node, log: Log, gate: asyncio.Event) -> None:
    """Let later truncations of a log wait before they sync its files."""
    offload = node.disk.offload

    async def held(work: Callable[[*_Ts], _T], *arguments: *_Ts) -> _T:
        if log in arguments:
            await gate.wait()
        return await offload(work, *arguments)

    node.disk.offload = held  # type: ignore[method-assign]


def facts(log: Log) -> tuple[object, ...]:
    """The state that a truncation must leave."""
    names = sorted(path.name for path in Path(log.directory).iterdir() if path.suffix != ".deleted")
    return (
        (log.log_start_offset, log.high_watermark, log.log_end_offset, log.data_end_offset),
        (log.size_bytes, log.recovery_point, log.truncations_pending, log.epochs.entries),
        [(segment.base_offset, segment.size_bytes) for segment in log.segments],
        [(one.producer_id, one.last_sequence) for one in log.producers.entries.values()],
        [record.offset for record in read_all(log)],
        [name for name in names if not name.endswith(".snapshot")],
    )


def truncate(path: Path, offset: int, failing: int, *, is_start_over: bool) -> tuple[Log, bool]:
    """Truncate a log while one operation of the disk fails; whether there were that many operations."""
    disk = FaultyDisk()
    bench = Bench(path, SMALL, disk)
    log = bench.open()
    for sequence in range(20):
        append(log, produced(7, sequence), leader_epoch=sequence // 4)
    log.flush()
    log.set_high_watermark(15)
    for segment in log.segments:
        segment.park()
    left = failing

    def fault(operation: str, path: str) -> int:
        nonlocal left
        left -= 1
        return errno.ENOSPC if left == 0 else 0

    def truncate() -> None:
        if is_start_over:
            log.truncate_fully_and_start_at(offset)
        else:
            log.truncate_to(offset)

    disk.fault = fault
    try:
        truncate()
    except OSError:
        disk.heal()
        if log.is_truncation_unfinished:
            assert (log.log_end_offset, log.high_watermark) == (offset, min(offset, log.high_watermark))
            with pytest.raises(KafkaStorageError, match="truncation"):
                log.append(produced(7, 19), leader_epoch=9, now_ms=START_MS)
            with pytest.raises(KafkaStorageError, match="truncation"):
                log.append_as_follower(produced(7, 19))
        else:
            assert log.log_end_offset == 20
            assert len(read_all(log)) == 20
        truncate()
    disk.heal()
    return log, left <= 0


@pytest.mark.parametrize(("offset", "is_start_over"), [(4, False), (0, True), (30, True)])
def test_a_truncation_that_fails_at_any_step_is_completed_by_a_retry(
    tmp_path: Path, offset: int, is_start_over: bool
) -> None:
    expected = facts(truncate(tmp_path / "sound", offset, 0, is_start_over=is_start_over)[0])
    for failing in range(1, 200):
        log, has_failed = truncate(tmp_path / str(failing), offset, failing, is_start_over=is_start_over)
        assert facts(log) == expected
        if not has_failed:
            break
    assert 5 < failing < 199


def test_a_truncation_that_cannot_open_a_parked_segment_changes_nothing(node: Node) -> None:
    async def test() -> None:
        node.config = SMALL
        node.options["open_files_max"] = 2
        directories, log = await filled(node)
        for offset in range(20):
            log.read(offset, 10, limit_offset=20)
        last = log.segments.floor(5)
        assert last is not None
        node.disk.fail_on("open", last.path, errno.EMFILE)
        with pytest.raises(KafkaStorageError):
            await directories.truncate_to(log, 5)
        node.disk.heal()
        assert (log.log_end_offset, len(read_all(log)), log.truncations_pending) == (20, 20, 0)
        assert await directories.truncate_to(log, 5)
        assert (log.log_end_offset, len(read_all(log)), log.truncations_pending) == (5, 5, 0)
        await node.stop(directories)

    run(test)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_truncation_succeeds_without_a_snapshot_that_cannot_be_written(node: Node, code: int) -> None:
    async def test() -> None:
        directories, log = await filled(node)
        log.set_high_watermark(20)
        node.disk.operations.clear()
        node.disk.fail_on("replace", ".snapshot", code)
        assert await directories.truncate_to(log, 10)
        node.disk.heal()
        assert (log.log_end_offset, log.high_watermark, log.truncations_pending) == (10, 10, 0)
        assert ("sync_directory", "orders-0") in node.disk.operations
        await node.stop(directories)

    run(test)


def recovery_points(node: Node) -> dict[checkpoints.Partition, int]:
    return node.checkpoint(0, checkpoints.RECOVERY_POINTS)


@pytest.mark.parametrize("is_start_over", [False, True])
@pytest.mark.parametrize("steps", range(6))
def test_a_truncation_continues_when_its_caller_is_cancelled(
    node: Node, steps: int, is_start_over: bool
) -> None:
    async def test() -> None:
        node.config = COMPACT
        directories, log = await filled(node)
        directories.cleaner.cleaned[node.paths[0]] = {("orders", 0): 12}
        node.disk.operations.clear()
        truncating = directories.start_over(log, 10) if is_start_over else directories.truncate_to(log, 10)
        waiting = asyncio.ensure_future(truncating)
        for _ in range(steps):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        if log.log_end_offset == 20:
            assert not steps
            await node.stop(directories)
            return
        while log.truncations_pending:
            with pytest.raises(KafkaStorageError, match="truncation"):
                append(log, batch(), leader_epoch=2)
            await asyncio.sleep(0)
        assert ("sync_directory", "orders-0") in node.disk.operations
        assert recovery_points(node) == {("orders", 0): 10}
        assert node.truncated == [log]
        append(log, batch(), leader_epoch=2)
        await node.stop(directories)

    run(test)


def test_a_stop_waits_for_a_truncation_whose_caller_was_cancelled(node: Node) -> None:
    async def test() -> None:
        directories, log = await filled(node)
        waiting = asyncio.ensure_future(directories.truncate_to(log, 10))
        await asyncio.sleep(0)
        waiting.cancel()
        assert log.truncations_pending
        await node.stop(directories)
        assert not log.truncations_pending
        assert is_there(node.paths[0], CLEAN_SHUTDOWN)

    run(test)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("is_tried_again", [False, True])
def test_a_truncation_is_pending_until_its_recovery_point_is_written(
    node: Node, is_tried_again: bool, code: int
) -> None:
    async def test() -> None:
        directories, log = await filled(node)
        node.disk.fail_on("replace", checkpoints.RECOVERY_POINTS, code)
        with pytest.raises(KafkaStorageError, match="could not write"):
            await directories.truncate_to(log, 10)
        await directories.flush_due()
        assert log.truncations_pending
        assert not node.truncated
        with pytest.raises(KafkaStorageError, match="truncation"):
            append(log, batch(), leader_epoch=2)
        node.disk.heal()
        if is_tried_again:
            await directories.truncate_to(log, 10)
        else:
            await directories.flush_due()
        assert (log.log_end_offset, log.truncations_pending, node.truncated) == (10, 0, [log])
        assert recovery_points(node) == {("orders", 0): 10}
        for _ in range(5):
            append(log, batch(), leader_epoch=2)
        path, size = log.active_segment.path, log.active_segment.size_bytes
        await node.kill(directories)
        os.truncate(path, size - 5)
        directories = await node.start()
        assert not directories.hosted.offline_partitions
        assert directories.logs["orders", 0].log_end_offset == 14
        await node.stop(directories)

    run(test)


def test_a_directory_with_a_truncation_that_is_not_checkpointed_is_not_left_clean(node: Node) -> None:
    async def test() -> None:
        directories, log = await filled(node)
        node.disk.fail_on("replace", checkpoints.RECOVERY_POINTS, errno.EMFILE)
        with pytest.raises(KafkaStorageError):
            await directories.truncate_to(log, 10)
        await node.stop(directories)
        assert not is_there(node.paths[0], CLEAN_SHUTDOWN)
        node.disk.heal()
        directories = await node.start()
        assert directories.logs["orders", 0].log_end_offset == 10
        await node.stop(directories)

    run(test)


def test_a_truncation_that_failed_halfway_is_completed_when_flushes_are_due(node: Node) -> None:
    async def test() -> None:
        node.config = SMALL
        directories, log = await filled(node)
        node.disk.fail_on("truncate", ".log", errno.ENOSPC)
        with pytest.raises(KafkaStorageError):
            await directories.truncate_to(log, 10)
        assert (log.is_truncation_unfinished, log.log_end_offset) == (True, 10)
        await directories.flush_due()
        assert log.truncations_pending
        node.disk.heal()
        await directories.flush_due()
        assert (log.is_truncation_unfinished, log.truncations_pending, node.truncated) == (False, 0, [log])
        append(log, batch(), leader_epoch=2)
        assert [record.offset for record in read_all(log)] == list(range(11))
        await node.stop(directories)

    run(test)


def test_a_second_truncation_stays_pending_when_the_first_is_done(node: Node) -> None:
    async def test() -> None:
        directories, log = await filled(node)
        first = asyncio.ensure_future(directories.truncate_to(log, 10))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate = asyncio.Event()
        hold_syncs(node, log, gate)
        second = asyncio.ensure_future(directories.truncate_to(log, 5))
        await first
        assert log.log_end_offset == 5
        assert log.truncations_pending
        gate.set()
        await second
        assert not log.truncations_pending
        assert recovery_points(node) == {("orders", 0): 5}
        await node.stop(directories)

    run(test)


def test_a_move_does_not_complete_before_a_truncation_of_the_copy_is_synced(tmp_path: Path) -> None:
    async def test() -> None:
        node = Node(tmp_path, 2)
        directories, log = await filled(node)
        directories.move("orders", 0, node.paths[1])
        await directories.copy_futures()
        copy = directories.futures["orders", 0]
        assert copy.log_end_offset == 20
        await directories.flush(copy)
        gate = asyncio.Event()
        hold_syncs(node, copy, gate)
        truncating = asyncio.ensure_future(directories.truncate_to(log, 10))
        while not copy.truncations_pending or log.truncations_pending:
            await asyncio.sleep(0)
        assert not await directories.copy_futures()
        assert directories.logs["orders", 0] is log
        assert copy.log_end_offset == 10
        gate.set()
        await truncating
        await directories.copy_futures()
        assert directories.logs["orders", 0] is copy
        assert (copy.log_end_offset, copy.truncations_pending) == (10, 0)
        await node.stop(directories)

    run(test)
