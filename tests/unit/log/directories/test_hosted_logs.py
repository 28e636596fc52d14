"""Logs in directories: where they are created, how they are removed, what the checkpoints contain."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.node_support import (
    COMPACT,
    OTHER_ID,
    TOPIC_ID,
    Node,
    content,
    put,
    run,
)
from tests.unit.log.support import append, batch, read_all

from ottla.log import checkpoints, flush
from ottla.log.config import LogConfig
from ottla.log.directories.properties import (
    CLEAN_SHUTDOWN,
    PARTITION_METADATA,
)
from ottla.ports import Disk
from ottla.wire import uuid
from ottla.wire.errors import (
    InconsistentTopicId,
    InvalidReplicaAssignment,
    KafkaStorageError,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_new_logs_go_to_the_directory_with_the_fewest(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        for index in range(6):
            directories.create("orders", index, TOPIC_ID)
        assert [len(node.names(number)) for number in range(2)] == [3, 3]
        wanted = directories.directories[1].id
        for index in range(6, 9):
            log = directories.create("orders", index, TOPIC_ID, directory_id=wanted)
            assert directories.directory_id_of(log) == wanted
        directories.create("orders", 9, TOPIC_ID, directory_id=uuid.DIRECTORY_LOST)
        assert [len(node.names(number)) for number in range(2)] == [4, 6]
        await node.stop(directories)

    run(test)


def test_cordoned_directories_get_no_new_logs(node: Node) -> None:
    node.options["cordoned"] = frozenset((node.paths[0],))

    async def test() -> None:
        directories = await node.start()
        for index in range(3):
            directories.create("orders", index, TOPIC_ID)
        assert [len(node.names(number)) for number in range(2)] == [0, 3]
        assert [report.is_cordoned for report in directories.describe()] == [True, False]
        with pytest.raises(InvalidReplicaAssignment):
            directories.move("orders", 0, node.paths[0])
        directories.cordon(node.paths)
        directories.create("orders", 3, TOPIC_ID)  # assigned before the controller knew of it
        assert [len(node.names(number)) for number in range(2)] == [1, 3]
        await node.stop(directories)

    run(test)


def test_an_existing_log_is_returned_unless_its_topic_is_another(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        assert directories.create("orders", 0, TOPIC_ID) is log
        with pytest.raises(InconsistentTopicId):
            directories.create("orders", 0, OTHER_ID)
        await node.stop(directories)

    run(test)


def test_a_log_without_a_topic_id_gets_the_one_of_the_request(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        append(log, batch(1))
        path = f"{log.directory}/{PARTITION_METADATA}"
        await node.stop(first)
        put(b"", path)  # what a power loss can leave of a file that was not synced
        second = await node.start()
        assert second.logs["orders", 0].topic_id == uuid.ZERO
        assert second.create("orders", 0, OTHER_ID).topic_id == OTHER_ID
        assert uuid.to_text(OTHER_ID) in content(path).decode()
        await node.stop(second)

    run(test)


def test_deleted_logs_are_removed_after_their_delay_and_leave_no_checkpoint(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        for index in range(4):
            append(directories.create("orders", index, TOPIC_ID), batch(2))
        await directories.checkpoint_recovery_points()
        deleted = directories.logs["orders", 0]
        await directories.delete([("orders", 0), ("orders", 1), ("nothing", 9)])
        assert set(directories.logs) == {("orders", 2), ("orders", 3)}
        assert [len(node.names(number, "-delete")) for number in range(2)] == [1, 1]
        assert sorted(
            key for number in range(2) for key in node.checkpoint(number, checkpoints.RECOVERY_POINTS)
        ) == [("orders", 2), ("orders", 3)]
        assert len(read_all(deleted)) == 2, "a reader that is under way can finish"
        assert directories.create("orders", 0, OTHER_ID).log_end_offset == 0

        assert await directories.delete_due() == 60.0
        node.clock.time_ms += 59_999
        assert await directories.delete_due() == 0.001
        node.clock.time_ms += 1
        await directories.delete_due()
        assert node.names(0, "-delete") == node.names(1, "-delete") == []
        await node.stop(directories)

    run(test)


def test_deletions_that_a_stop_interrupted_are_finished_after_the_next_start(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        append(first.create("orders", 0, TOPIC_ID), batch(2))
        await first.delete([("orders", 0)])
        await node.stop(first)
        second = await node.start()
        assert second.logs == {}
        assert len(node.names(0, "-delete")) == 1
        node.clock.time_ms += 60_000
        await second.delete_due()
        assert node.names(0) == []
        await node.stop(second)

    run(test)


def test_retention_keeps_all_segments_of_the_copy_of_a_move(node: Node) -> None:
    async def test() -> None:
        node.config = LogConfig(segment_bytes=100_000, retention_bytes=2000)
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID, directory_id=directories.directories[0].id)
        for _ in range(100):
            append(log, batch(value=b"v" * 100))
        # What is one segment here becomes many in the copy.
        node.config = replace(node.config, segment_bytes=1000)
        directories.reconfigure("orders")
        directories.move("orders", 0, node.paths[1])
        future = directories.futures["orders", 0]
        while future.log_end_offset < log.log_end_offset:
            await directories.copy_futures()
            await directories.retain()
            assert future.log_start_offset == log.log_start_offset == 0
        while await directories.copy_futures():
            pass
        assert directories.logs["orders", 0] is future
        assert await directories.retain() > 0
        assert future.log_start_offset > 0
        await node.stop(directories)

    run(test)


def test_segments_deleted_by_retention_are_removed_after_their_delay(node: Node) -> None:
    async def test() -> None:
        node.config = LogConfig(retention_ms=1000, file_delete_delay_ms=5000)
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(2))
        log.roll()
        append(log, batch(2))
        node.clock.time_ms += 2000
        assert await directories.retain() == 2
        assert log.log_start_offset == 4
        await directories.checkpoint_log_starts()
        assert node.checkpoint(0, checkpoints.LOG_STARTS) == {}, "it is where the first segment begins"
        assert await directories.delete_due() == 5.0
        node.clock.time_ms += 5000
        await directories.delete_due()
        assert not [name for name in node.disk.list(log.directory) if name.endswith(".deleted")]
        await node.stop(directories)

    run(test)


def test_stray_logs_are_renamed_and_kept(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        for index in range(3):
            append(first.create("orders", index, TOPIC_ID), batch(2))
        await node.stop(first)
        second = await node.start(lambda log: "it is unknown" if log.partition == 0 else None)
        assert set(second.logs) == {("orders", 1), ("orders", 2)}
        assert len(node.names(0, "-stray")) == 1
        assert await second.remove_strays(lambda log: "gone" if log.partition == 1 else None) == [
            ("orders", 1)
        ]
        assert len(node.names(1, "-stray")) == 1
        await node.stop(second)
        third = await node.start()
        assert set(third.logs) == {("orders", 2)}
        assert content(node.paths[0], node.names(0, "-stray")[0], "00000000000000000000.log")
        await node.stop(third)

    run(test)


def test_directories_with_other_names_are_ignored(node: Node) -> None:
    async def test() -> None:
        for name in ("lost+found", "notes", "__cluster_metadata-0"):
            node.disk.make_directory(f"{node.paths[0]}/{name}")
        directories = await node.start()
        assert directories.logs == {}
        await node.stop(directories)
        assert node.names(0) == ["__cluster_metadata-0", "lost+found", "notes"]

    run(test)


def test_two_directories_with_one_partition_keep_the_longer_log(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        append(log, batch(2))
        await node.stop(first)
        shutil.copytree(f"{node.paths[0]}/orders-0", f"{node.paths[1]}/orders-0")
        second = await node.start()
        append(second.logs["orders", 0], batch(1))
        await node.stop(second)
        third = await node.start()
        assert third.logs["orders", 0].log_end_offset == 3
        assert len(node.names(0, "-stray")) + len(node.names(1, "-stray")) == 1
        await node.stop(third)

    run(test)


def test_new_settings_reach_every_log_of_the_topic(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        node.config = LogConfig(retention_ms=5)
        directories.reconfigure("other")
        assert log.config.retention_ms != 5
        directories.reconfigure("orders")
        assert log.config.retention_ms == 5
        await node.stop(directories)

    run(test)


# ---- checkpoints and flushes


def test_checkpoints_have_the_offsets_of_the_logs(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(5))
        append(log, batch(5))
        await directories.flush(log, 5)
        log.increase_log_start_offset(3, "DeleteRecords")
        await directories.checkpoint_recovery_points()
        await directories.checkpoint_log_starts()
        await directories.checkpoint_high_watermarks()
        assert node.checkpoint(0, checkpoints.RECOVERY_POINTS) == {("orders", 0): 5}
        assert node.checkpoint(0, checkpoints.LOG_STARTS) == {("orders", 0): 3}
        assert node.checkpoint(0, checkpoints.HIGH_WATERMARKS) == {("orders", 0): 10}
        node.disk.operations.clear()
        await directories.checkpoint_recovery_points()
        assert node.disk.operations == [], "what has not changed is not written"
        await node.kill(directories)
        again = await node.start()
        assert again.logs["orders", 0].log_start_offset == 3
        assert again.logs["orders", 0].high_watermark == 10
        await node.stop(again)

    run(test)


def test_flushes_come_when_the_settings_ask_and_when_a_segment_is_rolled(node: Node) -> None:
    async def test() -> None:
        node.config = LogConfig(flush_ms=1000)
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(2))
        await directories.flush_due()
        assert log.recovery_point == 0
        node.clock.time_ms += 1000
        await directories.flush_due()
        assert log.recovery_point == 2
        append(log, batch(2))
        log.roll()
        append(log, batch(2))
        await directories.flush_due()
        assert log.recovery_point == 4
        await node.stop(directories)

    run(test)


def test_a_new_log_is_on_stable_storage_once_it_was_flushed(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(2))
        node.disk.operations.clear()
        await directories.flush(log)
        synced = [
            name for operation, name in node.disk.operations if operation in ("fsync", "sync_directory")
        ]
        assert {PARTITION_METADATA, "orders-0", "d0", "00000000000000000000.log"}.issubset(synced)
        node.disk.operations.clear()
        append(log, batch(2))
        await directories.flush(log)
        assert ("fsync", PARTITION_METADATA) not in node.disk.operations
        await node.stop(directories)

    run(test)


def test_a_clean_stop_syncs_the_files_of_many_segments_side_by_side(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced_by_work: list[list[str]] = []
    here = threading.local()
    offload = node.disk.offload
    sync_file = flush.sync_file

    def offloaded(work: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        def counted(*given: Any) -> Any:
            here.synced = []
            synced_by_work.append(here.synced)
            return work(*given)

        return offload(counted, *arguments)

    def counted_sync(disk: Disk, path: str) -> None:
        here.synced.append(path)
        sync_file(disk, path)

    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(100):
            append(log, batch(1))
            log.roll()
        rolled = {segment.path for segment in log.segments if segment is not log.active_segment}
        monkeypatch.setattr(node.disk, "offload", offloaded)
        monkeypatch.setattr(flush, "sync_file", counted_sync)
        await node.stop(directories)
        synced = [path for work in synced_by_work for path in work]
        assert rolled.issubset(synced)
        assert len(synced) == len(set(synced))
        assert max(map(len, synced_by_work)) <= len(synced) / flush.SIDE_BY_SIDE + 1
        assert content(node.paths[0], CLEAN_SHUTDOWN)

    run(test)


def test_logs_that_are_deleted_while_new_ones_are_synced_take_no_directory_offline(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        directories = await node.start()
        for index in range(6):
            directories.create("orders", index, TOPIC_ID)
        syncing = directories._flusher._sync_new
        asked: list[str] = []

        async def sync_slowly(path: str) -> None:
            asked.append(path)
            await directories.delete([("orders", index) for index in range(6)])
            await syncing(path)

        monkeypatch.setattr(directories._flusher, "_sync_new", sync_slowly)
        await directories.checkpoint_recovery_points()
        assert len(asked) == 1, "the others were deleted before their turn came"
        assert all(directory.online for directory in directories.directories)
        await node.stop(directories)

    run(test)


def test_a_truncation_is_in_the_checkpoints_before_anything_is_appended(node: Node) -> None:
    async def test() -> None:
        node.config = COMPACT
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        append(log, batch(5))
        log.roll()
        append(log, batch(5))
        await directories.flush(log)
        await directories.checkpoint_recovery_points()
        assert await directories.cleaner.clean_next()
        assert node.checkpoint(0, checkpoints.CLEANED) == {("orders", 0): 5}
        assert await directories.truncate_to(log, 0)
        assert node.checkpoint(0, checkpoints.RECOVERY_POINTS) == {("orders", 0): 0}
        assert node.checkpoint(0, checkpoints.CLEANED) == {("orders", 0): 0}
        await node.stop(directories)

    run(test)


def test_records_written_after_a_truncation_below_the_log_start_are_kept_over_a_crash(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(4):
            append(log, batch(5))
        log.increase_log_start_offset(17, "DeleteRecords")
        await directories.checkpoint_log_starts()
        await directories.truncate_to(log, 10)
        append(log, batch(3), leader_epoch=1)
        await node.kill(directories)
        again = await node.start()
        assert [record.offset for record in read_all(again.logs["orders", 0])] == [10, 11, 12]
        await node.stop(again)

    run(test)


def test_nothing_is_appended_before_a_truncation_is_flushed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(4):
            append(log, batch(5))
        may_sync = asyncio.Event()
        really_offload = node.disk.offload

        async def offload(work: Any, *arguments: Any) -> Any:
            await may_sync.wait()
            return await really_offload(work, *arguments)

        monkeypatch.setattr(node.disk, "offload", offload)
        truncating = asyncio.ensure_future(directories.truncate_to(log, 10))
        await asyncio.sleep(0)
        assert log.log_end_offset == 10
        with pytest.raises(KafkaStorageError):
            append(log, batch(1), leader_epoch=1)
        with pytest.raises(KafkaStorageError):
            log.append_as_follower(batch(1, base_offset=10, leader_epoch=0))
        assert log.epochs.latest_epoch == 0
        may_sync.set()
        assert await truncating
        append(log, batch(1), leader_epoch=1)
        assert log.epochs.latest_epoch == 1
        await node.stop(directories)

    run(test)
