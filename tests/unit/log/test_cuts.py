"""A truncation ends on stable storage, whatever interrupts it, and nothing is appended before."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.log.node_support import TOPIC_ID, Node, run
from tests.unit.log.support import START_MS, Bench, FaultyDisk, append, batch, produced, read_all

from ottla.log.config import LogConfig
from ottla.log.directories import LogDirectories
from ottla.log.log import Log
from ottla.wire.errors import KafkaStorageError

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


def facts(log: Log) -> tuple[object, ...]:
    """What a truncation is to leave behind."""
    names = sorted(name for name in log._disk.list(log.directory) if not name.endswith(".deleted"))
    return (
        (log.log_start_offset, log.high_watermark, log.log_end_offset, log.data_end_offset),
        (log.size_bytes, log.recovery_point, log.cuts_pending, log.epochs.entries),
        [(segment.base_offset, segment.size_bytes) for segment in log.segments],
        [(one.producer_id, one.last_sequence) for one in log.producers.entries.values()],
        [record.offset for record in read_all(log)],
        [name for name in names if not name.endswith(".snapshot")],
    )


def cut(path: Path, offset: int, failing: int, *, is_whole: bool) -> tuple[Log, bool]:
    """A log that is cut, with one operation of the disk that fails; whether there were as many."""
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
        if is_whole:
            log.truncate_fully_and_start_at(offset)
        else:
            log.truncate_to(offset)

    disk.fault = fault
    try:
        truncate()
    except OSError:
        disk.heal()
        if log.is_cut_unmade:
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


@pytest.mark.parametrize(("offset", "is_whole"), [(4, False), (0, True), (30, True)])
def test_a_truncation_that_fails_anywhere_is_completed_by_another_try(
    tmp_path: Path, offset: int, is_whole: bool
) -> None:
    expected = facts(cut(tmp_path / "sound", offset, 0, is_whole=is_whole)[0])
    for failing in range(1, 200):
        log, has_failed = cut(tmp_path / str(failing), offset, failing, is_whole=is_whole)
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
        assert (log.log_end_offset, len(read_all(log)), log.cuts_pending) == (20, 20, 0)
        assert await directories.truncate_to(log, 5)
        assert (log.log_end_offset, len(read_all(log)), log.cuts_pending) == (5, 5, 0)
        await node.stop(directories)

    run(test)


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
