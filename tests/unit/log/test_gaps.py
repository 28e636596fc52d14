"""Offsets that a log does not have: compacted before it was copied, or lost in a power loss."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.log.node_support import COMPACT, TOPIC_ID, Node, content, put, run
from tests.unit.log.support import START_MS, Bench, append, batch, end_transaction, produced, read_all

from ottla.log import checkpoints
from ottla.log.checkpoints import Partition
from ottla.log.config import LogConfig
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.index import RELATIVE_OFFSET_MAX
from ottla.log.log import Log
from ottla.log.segment import COMPACTED_MARK
from ottla.records.record import Record, build_batch

COPY = LogConfig(cleanup_policy=frozenset(("compact",)), segment_bytes=1000)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def kept(offset: int, size: int = 600) -> memoryview:
    """A batch that compaction left, as its leader sends it."""
    record = Record(0, START_MS, b"k%d" % offset, b"v" * size)
    return memoryview(build_batch([record], base_offset=offset, leader_epoch=0))


def copied(bench: Bench, *offsets: int) -> Log:
    log = bench.open(config=COPY)
    for offset in offsets:
        log.append_as_follower(kept(offset))
    return log


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_copy_of_a_compacted_log_is_complete_after_a_kill(bench: Bench) -> None:
    log = copied(bench, 0, 10, 20, 30, 40)
    assert bases(log) == [0, 1, 11, 21, 31], "a segment begins where the one before it ends"
    log.close(clean=False)
    log = bench.open(config=COPY, clean=False)
    assert offsets(log) == [0, 10, 20, 30, 40]
    assert log.log_end_offset == 41


def test_a_copy_that_lost_the_end_of_a_segment_ends_there(bench: Bench) -> None:
    log = bench.open(config=replace(COPY, segment_bytes=1500))
    for offset in (0, 10, 20, 30, 40, 50):
        log.append_as_follower(kept(offset))
    assert bases(log) == [0, 11, 31]
    size = log.segments[1].size_bytes
    log.close(clean=False)
    path = bench.path(f"{11:020}.log")
    path.write_bytes(path.read_bytes()[: size // 2])
    log = bench.open(config=COPY, clean=False)
    assert offsets(log) == [0, 10, 20]


def test_a_batch_whose_offset_is_too_large_for_its_segment_begins_another_that_survives_a_kill(
    bench: Bench,
) -> None:
    far = RELATIVE_OFFSET_MAX + 100
    log = copied(bench, 0, far)
    assert bases(log) == [0, far]
    log.close(clean=False)
    log = bench.open(config=COPY, clean=False)
    assert offsets(log) == [0, far]


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_deleted_segment_that_a_power_loss_brings_back_costs_no_record(bench: Bench, is_torn: bool) -> None:
    log = copied(bench, 0, 1, 2, 3)
    assert bases(log) == [0, 1, 2, 3]
    first = bench.path(f"{0:020}.log").read_bytes()
    log.advance_high_watermark(4)
    log.increase_log_start_offset(2, "a test")
    assert log.delete_old_segments(START_MS) == 2
    log.flush()
    log.close(clean=False)
    bench.path(f"{0:020}.log").write_bytes(first[:-1] if is_torn else first)
    log = bench.open(config=COPY, clean=False, log_start_offset=2)
    assert log.log_start_offset == 2
    assert offsets(log) == [2, 3]


def test_a_log_that_starts_over_forgets_where_its_last_batch_was(bench: Bench) -> None:
    log = copied(bench, 0, 10, 20)
    log.truncate_to(15)
    log.truncate_fully_and_start_at(15)
    assert log.data_end_offset == 15


@pytest.mark.parametrize("first", [(), (0,)])
def test_batches_whose_last_offset_is_too_large_for_the_segment_are_complete_after_a_kill(
    bench: Bench, first: tuple[int, ...]
) -> None:
    near, far = RELATIVE_OFFSET_MAX - 50, RELATIVE_OFFSET_MAX + 50
    log = copied(bench, *first)
    log.append_as_follower(memoryview(bytes(kept(near, 100)) + bytes(kept(far, 100))))
    log.append_as_follower(kept(far + 1, 100))
    log.close(clean=False)
    log = bench.open(config=COPY, clean=False)
    assert offsets(log) == [*first, near, far, far + 1]


def test_a_log_truncated_among_compacted_offsets_is_complete_after_a_kill(bench: Bench) -> None:
    log = copied(bench, 0, 10, 20)
    log.truncate_to(15)
    assert (log.log_end_offset, log.data_end_offset) == (15, 11)
    for _ in range(3):
        append(log, batch(value=b"v" * 600), leader_epoch=1)
    assert bases(log) == [0, 1, 11, 16, 17]
    log.close(clean=False)
    log = bench.open(config=COPY, clean=False)
    assert offsets(log) == [0, 10, 15, 16, 17]
    assert log.producers.end_offset == log.log_end_offset == 18


def test_a_flush_of_a_log_truncated_among_compacted_offsets_ends_after_its_last_batch(bench: Bench) -> None:
    log = bench.open(config=replace(COPY, flush_messages=1, flush_ms=1))
    for offset in (0, 10, 20):
        log.append_as_follower(kept(offset))
    log.truncate_to(15)
    log.flush()
    assert (log.recovery_point, log.data_end_offset) == (11, 11)
    assert not log.is_flush_due, "its leader would wait for a flush that has nothing to do"
    assert not log.is_timed_flush_due(START_MS + 1000)
    append(log, batch(), leader_epoch=1)
    assert log.is_flush_due
    log.flush()
    assert log.recovery_point == 16


def test_a_running_flush_covers_nothing_after_a_truncation_among_compacted_offsets(bench: Bench) -> None:
    log = copied(bench, 0, 10, 20)
    flush = log.prepare_flush()
    assert flush is not None
    log.truncate_to(15)
    flush.run()
    log.complete_flush(flush)
    assert log.recovery_point == 11


def test_a_damaged_transaction_index_of_a_compacted_segment_is_rebuilt_without_loss(bench: Bench) -> None:
    log = bench.open(config=COPY)
    append(log, produced(7, 0, transactional=True))
    end_transaction(log, 7, commit=False)
    log.roll()
    append(log, batch(value=b"v" * 900))
    append(log, batch(value=b"v" * 900))
    log.flush()
    log.close(clean=True)
    # As compaction leaves it: offset 2 was dropped.
    bench.path(f"{2:020}.log").unlink()
    bench.path(f"{0:020}.txnindex").write_bytes(b"x" * 34)
    log = bench.open(config=COPY, clean=True)
    assert log.log_end_offset == 4
    assert bases(log) == [0, 3]


def test_a_directory_that_other_software_wrote_keeps_its_gaps(node: Node) -> None:
    async def test() -> None:
        node.config = COPY
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        for offset in (0, 10, 20):
            log.append_as_follower(kept(offset))
        directory = log.directory
        await node.kill(first)
        for name in node.disk.list(directory):  # Kafka names a segment by its first batch
            for old, new in ((f"{1:020}", f"{10:020}"), (f"{11:020}", f"{20:020}")):
                if name.startswith(old):
                    node.disk.rename(f"{directory}/{name}", f"{directory}/{name.replace(old, new)}")
        for path in node.paths:
            checkpoints.write(node.disk, f"{path}/{checkpoints.RECOVERY_POINTS}", {("orders", 0): 0})

        for _ in range(2):  # the second start knows which software wrote the directory last
            again = await node.start()
            assert offsets(again.logs["orders", 0]) == [0, 10, 20]
            await node.kill(again)

    run(test)


def test_a_new_directory_says_before_the_first_record_that_its_gaps_are_losses(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        for path in node.paths:
            found = checkpoints.read(node.disk, f"{path}/{checkpoints.RECOVERY_POINTS}")
            assert found == {checkpoints.CONTIGUOUS: 0}
        node.config = LogConfig(segment_bytes=300)
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(9):
            append(log, batch())
        second = log.segments[1]
        path, size = second.path, second.size_bytes
        await node.kill(directories)
        put(content(path)[: size // 3], path)
        again = await node.start()
        assert again.logs["orders", 0].log_end_offset < 9
        await node.stop(again)

    run(test)


def test_a_compacted_log_that_was_restored_from_a_copy_keeps_its_gaps(node: Node) -> None:
    async def test() -> None:
        node.config = replace(COMPACT, segment_bytes=1500)
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        for number in range(5):
            for key in (b"same", b"same", b"own %d" % number):
                append(log, memoryview(build_batch([Record(0, START_MS, key, b"x" * 600)])))
        log.roll()
        assert await first.cleaner.clean_next()
        left = offsets(log)
        assert len(left) < 8
        directory = log.directory
        other = next(path for path in node.paths if not directory.startswith(path))
        await node.kill(first)
        shutil.move(directory, f"{other}/orders-0")
        again = await node.start()
        assert again.logs["orders", 0].directory == f"{other}/orders-0"
        assert offsets(again.logs["orders", 0]) == left
        await node.stop(again)

    run(test)


def fill_for_compaction(log: Log, segments: int = 6) -> None:
    """Let every segment end with records that later ones supersede."""
    number = 0
    for count in range(2, segments + 2):
        while len(log.segments) < count:
            key = b"own %d" % number if number % 3 == 0 else b"same"
            append(log, memoryview(build_batch([Record(0, START_MS, key, b"v" * 80)])))
            number += 1


async def clean_and_kill(node: Node, directories: LogDirectories) -> None:
    """Stop the node when a cleaning has replaced segments and is about to write its checkpoint."""

    async def stop(directory: str, changes: Mapping[Partition, int | None]) -> None:
        raise asyncio.CancelledError

    directories.cleaner.set_cleaned = stop  # type: ignore[method-assign]
    with contextlib.suppress(asyncio.CancelledError):
        await directories.cleaner.clean_next()
    await node.kill(directories)


def test_a_kill_within_a_compaction_during_a_slow_flush_loses_no_record(node: Node) -> None:
    async def test() -> None:
        node.config = replace(COMPACT, segment_bytes=1000, flush_messages=1)
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        await first.checkpoint_recovery_points()
        fill_for_compaction(log)
        slow = log.prepare_flush()  # its fsync takes longer than everything after it
        assert slow is not None
        append(log, batch())
        await first.flush(log)
        assert log.scan_offset < log.recovery_point
        before = {record.key for record in read_all(log)}
        await clean_and_kill(node, first)

        again = await node.start()
        log = again.logs["orders", 0]
        assert {record.key for record in read_all(log)} == before
        await again.flush(log)
        log.advance_high_watermark(log.log_end_offset)
        assert await again.cleaner.clean_next(), "a later try succeeds"
        assert {record.key for record in read_all(log)} == before
        await node.stop(again)

    run(test)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
def test_a_kill_within_a_compaction_without_a_checkpoint_loses_no_record(node: Node, code: int) -> None:
    async def test() -> None:
        node.config = replace(COMPACT, segment_bytes=1000)
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        await first.checkpoint_recovery_points()
        fill_for_compaction(log)
        await first.flush(log)
        before = {record.key for record in read_all(log)}
        node.disk.fail_on("replace", checkpoints.RECOVERY_POINTS, code)
        await clean_and_kill(node, first)
        node.disk.heal()

        again = await node.start()
        log = again.logs["orders", 0]
        assert {record.key for record in read_all(log)} == before
        log.advance_high_watermark(log.log_end_offset)
        assert await again.cleaner.clean_next(), "a later try succeeds"
        await node.stop(again)

    run(test)


def test_a_flush_that_ends_frees_its_own_segments_while_another_runs(bench: Bench) -> None:
    log = bench.open(config=replace(COPY, segment_bytes=300))
    for _ in range(6):
        append(log, batch())
    first = log.prepare_flush()
    assert first is not None
    assert first.rolled
    for _ in range(6):
        append(log, batch())
    second = log.prepare_flush()
    assert second is not None
    assert second.rolled
    first.run()
    log.complete_flush(first)
    assert log.scan_offset == second.rolled[0].base_offset > first.rolled[0].base_offset
    third = log.prepare_flush(log.log_end_offset)
    assert third is not None
    third.run()
    log.complete_flush(third)
    assert log.recovery_point == 12
    assert log.scan_offset == second.rolled[0].base_offset, "indexes of the second are not synced yet"
    second.run()
    log.complete_flush(second)
    assert log.scan_offset == 12


async def put_compacted(node: Node, path: Path) -> tuple[str, list[int]]:
    """Copy a compacted log into a stopped node, as Kafka leaves it: its directory and offsets."""
    source = Node(path / "source", 1)
    source.config = node.config = replace(COMPACT, segment_bytes=1000)
    directories = await source.start()
    log = directories.create("orders", 0, TOPIC_ID)
    fill_for_compaction(log)
    assert await directories.cleaner.clean_next()
    before = offsets(log)
    await source.stop(directories)
    directory = f"{node.paths[0]}/orders-0"
    shutil.copytree(log.directory, directory)
    node.disk.remove(f"{directory}/{COMPACTED_MARK}")
    return directory, before


def test_a_compacted_log_that_was_copied_here_after_a_clean_stop_keeps_its_gaps(tmp_path: Path) -> None:
    async def test() -> None:
        node = Node(tmp_path / "node", 1)
        await node.stop(await node.start())
        _, before = await put_compacted(node, tmp_path)
        for _ in range(2):  # of which the second follows a kill
            again = await node.start()
            assert offsets(again.logs["orders", 0]) == before
            await node.kill(again)

    run(test)


def test_segments_of_a_compacted_log_that_other_software_wrote_are_never_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        node = Node(tmp_path / "node", 1)
        await node.kill(await node.start())
        directory, before = await put_compacted(node, tmp_path)

        first = await node.start()
        log = first.logs["orders", 0]
        assert offsets(log) == [offset for offset in before if offset < log.log_end_offset]
        node.clock.time_ms += node.config.file_delete_delay_ms + 1
        await first.delete_due()
        await node.stop(first)
        kept = [name for name in node.disk.list(directory) if name.endswith(".dropped")]
        assert any(name.endswith(".log.dropped") for name in kept)
        for name in kept:  # what the log line says
            node.disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix('.dropped')}")

        for _ in range(2):
            again = await node.start()
            assert offsets(again.logs["orders", 0]) == before
            await node.kill(again)

    run(test)
