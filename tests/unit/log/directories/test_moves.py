"""Moves of replicas between log directories."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.node_support import (
    COMPACT,
    TOPIC_ID,
    Node,
    content,
    put,
    run,
)
from tests.unit.log.support import append, batch, produced, read_all

from ottla.log import checkpoints
from ottla.log.config import LogConfig
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.wire.errors import (
    KafkaStorageError,
    LogDirNotFound,
    ReplicaNotAvailable,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def move_all(directories: LogDirectories) -> None:
    while await directories.copy_futures():
        pass


def test_a_replica_moves_while_it_is_written(node: Node) -> None:
    async def test() -> None:
        node.config = LogConfig(segment_bytes=2000)
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for number in range(20):
            append(log, produced(9, number * 5, 5))
        log.increase_log_start_offset(7, "DeleteRecords")
        directories.move("orders", 0, node.paths[1])
        future = directories.futures["orders", 0]
        lags = [
            (replica.offset_lag, replica.is_future)
            for report in directories.describe()
            for replica in report.replicas
        ]
        assert lags == [(0, False), (100, True)]
        assert await directories.copy_futures()
        append(log, produced(9, 100, 5))
        await move_all(directories)
        assert node.moved == [(("orders", 0), future)]
        assert directories.futures == {}
        moved = directories.logs["orders", 0]
        assert moved is future
        assert moved.directory == f"{node.paths[1]}/orders-0"
        assert (moved.log_start_offset, moved.log_end_offset, moved.high_watermark) == (7, 105, 105)
        assert [record.offset for record in read_all(moved)] == list(range(7, 105))
        assert append(moved, produced(9, 100, 5)).duplicate, "producers are remembered"
        append(moved, batch(1))
        assert len(node.names(0, "-delete")) == 1
        assert node.checkpoint(0, checkpoints.RECOVERY_POINTS) == {}
        assert ("orders", 0) in node.checkpoint(1, checkpoints.RECOVERY_POINTS)
        await node.stop(directories)
        again = await node.start()
        assert again.logs["orders", 0].log_end_offset == 106
        assert again.logs["orders", 0].log_start_offset == 7
        await node.stop(again)

    run(test)


def test_a_move_is_as_durable_as_the_log_was(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(5))
        await directories.flush(log)
        append(log, batch(5))
        directories.move("orders", 0, node.paths[1])
        await move_all(directories)
        assert directories.logs["orders", 0].recovery_point >= 5
        await node.stop(directories)

    run(test)


def test_a_move_continues_after_a_crash(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        append(log, batch(10))
        await first.flush(log)
        append(log, batch(10))
        first.move("orders", 0, node.paths[1])
        await first.copy_futures()
        await first.checkpoint_recovery_points()
        path = log.active_segment.path
        await node.kill(first)
        put(content(path)[:-1], path)  # the log lost its tail, the copy did not

        second = await node.start()
        assert second.logs["orders", 0].log_end_offset == 10
        assert second.futures["orders", 0].log_end_offset == 10
        append(second.logs["orders", 0], batch(3))
        await move_all(second)
        assert second.logs["orders", 0].directory.startswith(node.paths[1])
        assert second.logs["orders", 0].log_end_offset == 13
        await node.stop(second)

    run(test)


def test_a_move_can_be_redirected_and_cancelled(node: Node, tmp_path: Path) -> None:
    node.paths.append(str(tmp_path / "d2"))

    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(10))
        directories.move("orders", 0, node.paths[1])
        directories.move("orders", 0, node.paths[1])
        assert len(node.names(1, "-future")) == 1
        directories.move("orders", 0, node.paths[2])
        assert (len(node.names(1, "-future")), len(node.names(1, "-delete"))) == (0, 1)
        assert len(node.names(2, "-future")) == 1
        directories.move("orders", 0, node.paths[0])
        assert directories.futures == {}
        assert len(node.names(2, "-delete")) == 1
        assert directories.logs["orders", 0] is log
        assert not await directories.copy_futures()
        await node.stop(directories)

    run(test)


def test_moves_that_cannot_be_are_refused(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        with pytest.raises(LogDirNotFound):
            directories.move("orders", 0, "/nowhere")
        with pytest.raises(ReplicaNotAvailable):
            directories.move("orders", 0, node.paths[1])
        # A partition that is created later goes to the directory of the request.
        assert directories.create("orders", 0, TOPIC_ID).directory.startswith(node.paths[1])
        await node.stop(directories)

    run(test)


def test_a_moved_log_keeps_its_cleaned_offset(node: Node) -> None:
    async def test() -> None:
        node.config = COMPACT
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(2):
            append(log, batch(3))
            log.roll()
        assert await directories.cleaner.clean_next()
        append(log, batch(3))
        directories.move("orders", 0, node.paths[1])
        log.roll()
        assert not await directories.cleaner.clean_next(), "no cleaning while it is copied"
        await move_all(directories)
        moved = directories.logs["orders", 0]
        assert [record.offset for record in read_all(moved)] == [3, 4, 5, 6, 7, 8]
        assert node.checkpoint(1, checkpoints.CLEANED) == {("orders", 0): 6}
        assert node.checkpoint(0, checkpoints.CLEANED) == {}
        moved.roll()
        assert await directories.cleaner.clean_next()
        assert [record.offset for record in read_all(moved)] == [6, 7, 8]
        await node.stop(directories)

    run(test)


def test_a_deleted_topic_cancels_its_moves(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        append(directories.create("orders", 0, TOPIC_ID), batch(10))
        directories.move("orders", 0, node.paths[1])
        await directories.delete([("orders", 0)])
        assert directories.futures == {}
        assert [len(node.names(number, "-delete")) for number in range(2)] == [1, 1]
        assert not await directories.copy_futures()
        await node.stop(directories)

    run(test)


def test_copies_keep_to_the_configured_rate(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        node.options["copy_bytes_per_second"] = 100_000.0
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(5):
            append(log, batch(1, value=bytes(200_000)))
        slept: list[float] = []
        here, really_sleep = asyncio.get_running_loop(), asyncio.sleep

        async def sleep(seconds: float) -> None:
            if asyncio.get_running_loop() is not here:  # a loop of something else in this process
                await really_sleep(seconds)
                return
            slept.append(seconds)
            node.clock.time_ms += int(seconds * 1000)

        directories.move("orders", 0, node.paths[1])
        monkeypatch.setattr(asyncio, "sleep", sleep)
        await move_all(directories)
        assert sum(slept) == pytest.approx(10, rel=0.1)
        await node.stop(directories)

    run(test)


def test_a_new_rate_applies_to_a_running_move(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        directories = await node.start()
        directories.limit_moves(1)
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(5):
            append(log, batch(1, value=bytes(200_000)))
        slept: list[float] = []
        here, really_sleep = asyncio.get_running_loop(), asyncio.sleep

        async def sleep(seconds: float) -> None:
            if asyncio.get_running_loop() is not here:  # a loop of something else in this process
                await really_sleep(seconds)
                return
            slept.append(seconds)
            node.clock.time_ms += int(seconds * 1000)

        directories.move("orders", 0, node.paths[1])
        monkeypatch.setattr(asyncio, "sleep", sleep)
        for _ in range(20):
            assert await directories.copy_futures()
        assert directories.futures["orders", 0].log_end_offset == 1
        directories.limit_moves(0)
        for _ in range(20):
            assert await directories.copy_futures()
        assert directories.futures["orders", 0].log_end_offset == 1
        slept.clear()
        directories.limit_moves(100_000)
        await move_all(directories)
        assert sum(slept) == pytest.approx(8, rel=0.1)
        assert directories.logs["orders", 0].directory == f"{node.paths[1]}/orders-0"
        await node.stop(directories)

    run(test)


def test_a_failing_destination_cancels_the_move_and_the_log_is_served(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(10))
        directories.move("orders", 0, node.paths[1])
        node.disk.fault = lambda operation, path: (
            errno.EIO if operation == "write" and path.startswith(node.paths[1]) else 0
        )
        assert not await directories.copy_futures()
        assert directories.futures == {}
        assert node.offline == [(node.paths[1], [])]
        append(log, batch(1))
        assert directories.logs["orders", 0] is log
        node.config = COMPACT
        directories.reconfigure("orders")
        log.roll()
        assert await directories.cleaner.clean_next(), "it may be cleaned again"
        await node.stop(directories)

    run(test)


def test_a_log_that_was_never_flushed_moves_and_both_directories_stay_online(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(15))
        directories.move("orders", 0, node.paths[1])
        await move_all(directories)
        await directories.checkpoint_recovery_points()
        assert node.offline == []
        assert directories.logs["orders", 0].directory == f"{node.paths[1]}/orders-0"
        assert directories.hosted.unsynced == set()
        await node.stop(directories)

    run(test)


def test_a_new_log_that_is_renamed_while_it_is_synced_costs_no_directory(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        directories = await node.start()
        append(directories.create("orders", 0, TOPIC_ID), batch(15))
        directories.move("orders", 0, node.paths[1])
        future = directories.futures["orders", 0]
        await directories.copy_futures()
        old, new = future.directory, f"{node.paths[1]}/orders-0"
        really_offload = node.disk.offload

        def offload(work: Any, *arguments: Any) -> Any:
            if future.directory == old:
                directories.hosted.rename(future, new)
            return really_offload(work, *arguments)

        monkeypatch.setattr(node.disk, "offload", offload)
        flush = future.prepare_flush()
        assert flush is not None
        future.complete_flush(flush)  # nothing is left to flush but the name
        await directories.flush(future)
        assert node.offline == []
        assert new not in directories.hosted.unsynced
        await node.stop(directories)

    run(test)


@pytest.mark.parametrize("operation", ["pread", "open"])
def test_a_source_that_cannot_be_read_is_the_one_that_goes_offline(node: Node, operation: str) -> None:
    async def test() -> None:
        node.config = LogConfig(segment_bytes=300)
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(9):
            append(log, batch())
        other = directories.create("others", 0, TOPIC_ID, directory_id=bytes([101]) * 16)
        directories.move("orders", 0, node.paths[1])
        for segment in log.segments:
            segment.close_handles()
        node.disk.fault = lambda asked, path: (
            errno.EIO if asked == operation and path.startswith(f"{node.paths[0]}/orders") else 0
        )
        await directories.copy_futures()
        assert node.offline == [(node.paths[0], [("orders", 0)])]
        assert directories.logs["others", 0] is other
        await node.stop(directories)

    run(test)


def test_a_damaged_source_cancels_its_move(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(15))
        directories.move("orders", 0, node.paths[1])
        log.active_segment.file.pwrite([bytes(100)], 0)
        await directories.copy_futures()
        assert directories.futures == {}
        assert node.offline == []
        assert directories.logs["orders", 0] is log
        await node.stop(directories)

    run(test)


def test_the_last_copy_of_a_log_replaces_it(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        append(log, batch(15))
        first.move("orders", 0, node.paths[1])
        await first.copy_futures()
        gone = log.directory
        await node.kill(first)
        node.disk.rename(gone, f"{gone}.{'0' * 32}-delete")  # all that a power loss left of the move's end

        again = await node.start()
        with pytest.raises(ReplicaNotAvailable):
            again.move("orders", 0, node.paths[0])
        copy = again.create("orders", 0, TOPIC_ID, is_new=False)
        assert [record.offset for record in read_all(copy)] == list(range(15))
        assert copy.directory == f"{node.paths[1]}/orders-0"
        assert again.futures == {}
        await move_all(again)
        assert copy.log_end_offset == 15
        await node.stop(again)
        assert (await node.start()).logs["orders", 0].log_end_offset == 15

    run(test)


def test_the_name_of_a_copy_is_synced_before_its_log_is_marked_for_deletion(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        append(directories.create("orders", 0, TOPIC_ID), batch(15))
        directories.move("orders", 0, node.paths[1])
        node.disk.operations.clear()
        await move_all(directories)
        renamed = [at for at, (what, _) in enumerate(node.disk.operations) if what == "rename"]
        copy_named, log_marked = renamed[-2:]
        between = node.disk.operations[copy_named:log_marked]
        assert node.disk.operations[log_marked] == ("rename", "orders-0")
        assert ("sync_directory", "d1") in between
        await node.stop(directories)

    run(test)


def test_a_copy_whose_source_fails_at_the_end_of_a_move_is_not_loaded_as_the_log(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(15))
        directories.move("orders", 0, node.paths[1])
        await directories.copy_futures()
        really_rename = directories.hosted.rename

        def rename(future: Log, path: str) -> None:
            really_rename(future, path)
            if path.endswith("/orders-0"):
                append(log, batch(1))
                directories.take_offline(directories.directory_of(log), OSError(errno.EIO, "gone"))

        monkeypatch.setattr(directories.hosted, "rename", rename)
        await move_all(directories)
        assert node.names(1) == node.names(1, "-future")
        with pytest.raises(KafkaStorageError):
            directories.create("orders", 0, TOPIC_ID)
        await node.stop(directories)

    run(test)


def test_a_truncated_log_truncates_its_copy_and_its_checkpoints(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(3):
            append(log, batch(5))
        directories.move("orders", 0, node.paths[1])
        await directories.copy_futures()
        future = directories.futures["orders", 0]
        await directories.flush(future)
        await directories.checkpoint_recovery_points()
        await directories.truncate_to(log, 5)
        assert future.log_end_offset == 5
        assert node.checkpoint(1, checkpoints.RECOVERY_POINTS) == {("orders", 0): 5}
        node.disk.fault = lambda operation, path: (
            errno.EIO if operation == "truncate" and path.startswith(node.paths[1]) else 0
        )
        append(log, batch(5))
        await directories.copy_futures()
        await directories.truncate_to(log, 5)
        assert node.offline == [(node.paths[1], [])], "not the directory of the log"
        node.disk.heal()
        await node.stop(directories)

    run(test)


def test_a_moved_log_knows_epochs_that_have_no_record_yet(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(3))
        log.assign_epoch_start_offset(7, 3)
        before = list(log.epochs.entries)
        directories.move("orders", 0, node.paths[1])
        await move_all(directories)
        moved = directories.get("orders", 0)
        assert moved is not None
        assert moved is not log
        assert moved.epochs.entries == before
        assert moved.epochs.end_offset_for(7, 3) == (7, 3)  # the response to a follower of that epoch

    run(test)


@pytest.mark.parametrize(
    "step",
    [
        "cleaner.resume",
        "cleaner.set_cleaned",
        "_removal.mark",
        "_moves._on_moved",
        "_checkpoint_writer.write",
        "_checkpoint_writer.forget_removed",
    ],
)
def test_an_unexpected_error_after_the_replacement_keeps_the_moved_log(
    node: Node, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(5))
        await directories.flush(log)
        directories.move("orders", 0, node.paths[1])
        future = directories.futures["orders", 0]
        part, name = step.split(".")
        owner = getattr(directories, part)
        original = getattr(owner, name)

        def fail_after_the_exchange(*arguments: Any, **options: Any) -> Any:
            if directories.logs.get(("orders", 0)) is future:
                raise MemoryError
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, fail_after_the_exchange)
        await move_all(directories)
        monkeypatch.undo()
        moved = directories.logs["orders", 0]
        assert moved is future
        assert moved.directory == f"{node.paths[1]}/orders-0"
        assert directories.futures == {}
        if step != "_moves._on_moved":
            assert node.moved == [(("orders", 0), future)]
        with pytest.raises(KafkaStorageError):
            append(log, batch(1))
        append(moved, batch(3))
        node.clock.time_ms += 120_000
        await directories.delete_due()
        assert len(read_all(moved)) == 8
        await node.kill(directories)
        again = await node.start()
        assert again.logs["orders", 0].log_end_offset == 8
        await node.stop(again)

    run(test)


def test_an_error_of_a_redirected_move_leaves_the_new_copy_alone(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.paths.append(str(tmp_path / "d2"))

    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(5))
        directories.move("orders", 0, node.paths[1])
        really_flush = directories._flusher.flush

        async def flush(flushed: Log, offset: int | None = None) -> None:
            directories.move("orders", 0, node.paths[2])
            monkeypatch.setattr(directories._flusher, "flush", really_flush)
            raise MemoryError

        monkeypatch.setattr(directories._flusher, "flush", flush)
        await move_all(directories)
        await move_all(directories)
        assert directories.logs["orders", 0].directory == f"{node.paths[2]}/orders-0"
        assert len(node.names(1, "-delete")) == 1
        await node.stop(directories)

    run(test)


def test_a_disk_that_fails_while_two_copies_in_it_are_truncated_does_not_stop_the_start(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_truncate = Segment.truncate_to

    def truncate(segment: Segment, offset: int, now_ms: int) -> int:
        if segment.path.startswith(node.paths[1]):
            raise OSError(errno.EIO, "Input/output error", segment.path)
        return really_truncate(segment, offset, now_ms)

    async def test() -> None:
        directories = await node.start()
        logs = []
        for number in range(2):
            directories.hosted.preferred["orders", number] = node.paths[0]
            log = directories.create("orders", number, TOPIC_ID)
            for _ in range(4):
                append(log, batch(5))
            directories.move("orders", number, node.paths[1])
            logs.append(log)
        await directories.copy_futures()
        for number, log in enumerate(logs):
            await directories.flush(directories.futures["orders", number])
            log.truncate_to(10)  # what a crash may leave of the log, but not of its copy
        await node.kill(directories)
        monkeypatch.setattr(Segment, "truncate_to", truncate)
        again = await node.start()
        assert [directory.online for directory in again.directories] == [True, False]
        assert sorted(again.logs) == [("orders", 0), ("orders", 1)]
        assert again.futures == {}
        await node.stop(again)

    run(test)
