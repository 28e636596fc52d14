"""The log directories of a node: start, stop and ownership."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.unit.log.node_support import (
    CLUSTER,
    OTHER_ID,
    TOPIC_ID,
    Node,
    content,
    files,
    is_there,
    put,
    run,
)
from tests.unit.log.support import START_MS, append, batch

from ottla.log import checkpoints
from ottla.log.directories.properties import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryError,
    MetaProperties,
    read_meta,
    write_meta,
)
from ottla.wire.errors import (
    ErrorCode,
    KafkaStorageError,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


# ---- start and stop


def test_logs_survive_a_clean_stop_without_a_scan(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        assert first.previous_broker_epoch == -1
        for index in range(4):
            append(first.create("orders", index, TOPIC_ID), batch(index + 1))
        await node.stop(first, epoch=7)
        for path in node.paths:
            assert content(path, CLEAN_SHUTDOWN) == b'{"version":0,"brokerEpoch":7}'
        for number in range(2):
            assert len(node.checkpoint(number, checkpoints.RECOVERY_POINTS)) == 2

        node.disk.operations.clear()
        second = await node.start()
        assert second.previous_broker_epoch == 7
        assert not any(is_there(path, CLEAN_SHUTDOWN) for path in node.paths)
        assert {key: log.log_end_offset for key, log in second.logs.items()} == {
            ("orders", index): index + 1 for index in range(4)
        }
        assert all(log.high_watermark == log.log_end_offset for log in second.logs.values())
        assert all(log.topic_id == TOPIC_ID for log in second.logs.values())
        await node.stop(second)

    run(test)


def test_a_torn_tail_is_truncated_after_a_kill(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        append(log, batch(3))
        await first.flush(log)
        await first.checkpoint_recovery_points()
        append(log, batch(2))
        append(log, batch(2))
        path = log.active_segment.path
        await node.kill(first)
        put(content(path)[:-5], path)

        second = await node.start()
        log = second.logs["orders", 0]
        assert (log.log_end_offset, log.recovery_point) == (5, 3)
        await node.stop(second)

    run(test)


def test_a_damaged_log_is_closed_alone_and_never_truncated(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        log, other = first.create("orders", 0, TOPIC_ID), first.create("orders", 2, TOPIC_ID)
        for one in (log, other):
            append(one, batch(3))
            append(one, batch(3))
            await first.flush(one)
        first.logs.pop(("orders", 2))
        other.rename_directory(f"{node.paths[0]}/orders-2")
        first.logs["orders", 2] = other
        await first.checkpoint_recovery_points()
        path = log.active_segment.path
        await node.kill(first)
        data = bytearray(content(path))
        data[80] ^= 1
        put(data, path)

        for _ in range(3):  # it stays so however often the node starts, cleanly or not
            second = await node.start()
            assert second.get("orders", 2) is not None
            with pytest.raises(KafkaStorageError, match="damaged at byte 0"):
                second.get("orders", 0)
            with pytest.raises(KafkaStorageError, match="damaged"):
                second.create("orders", 0, TOPIC_ID, is_new=False)
            assert content(path) == data
            assert second.directories[0].online
            await second.checkpoint_recovery_points()
            await node.stop(second)
            assert not is_there(node.paths[0], CLEAN_SHUTDOWN)

        third = await node.start()
        await third.delete([("orders", 0)])
        assert node.names(0, "-delete")
        assert ("orders", 0) not in node.checkpoint(0, checkpoints.RECOVERY_POINTS)
        assert third.create("orders", 0, OTHER_ID).log_end_offset == 0
        await node.stop(third)

    run(test)


def test_damaged_topic_ids_and_checkpoints_do_not_stop_the_others(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        first = await node.start()
        for index in range(2):
            append(first.create("orders", index, TOPIC_ID), batch(2))
        await node.stop(first)
        put(b"nonsense", node.paths[0], "orders-0", PARTITION_METADATA)
        for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.CLEANED):
            put(b"0\n9\n", node.paths[1], name)
        second = await node.start()
        with pytest.raises(KafkaStorageError, match=r"partition\.metadata"):
            second.get("orders", 0)
        assert second.logs["orders", 1].log_end_offset == 2
        await node.stop(second)

    with caplog.at_level(logging.WARNING):
        run(test)
    assert "is damaged in line 2" in caplog.text


def test_long_recoveries_log_their_progress(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        first = await node.start()
        log = first.create("orders", 0, TOPIC_ID)
        for _ in range(6):
            append(log, batch(1, value=bytes(700_000)))
        await node.kill(first)
        original = node.clock.monotonic
        seconds = 0.0

        def monotonic() -> float:
            nonlocal seconds
            seconds += 3
            return original() + seconds

        node.clock.monotonic = monotonic  # type: ignore[method-assign]
        second = await node.start()
        assert second.logs["orders", 0].log_end_offset == 6
        await node.stop(second)

    with caplog.at_level(logging.INFO):
        run(test)
    assert "Recovering 1 logs from" in caplog.text
    assert "of 4 MB scanned" in caplog.text


def test_a_node_that_was_only_opened_leaves_everything_as_it_was(node: Node) -> None:
    async def test() -> None:
        first = await node.start()
        append(first.create("orders", 0, TOPIC_ID), batch(2))
        await node.stop(first, epoch=3)
        before = files(node.paths[0])
        opened = node.make()
        opened.open(node_id=1)
        await opened.close()
        assert files(node.paths[0]) == before

    run(test)


# ---- identity


@pytest.mark.parametrize(
    ("meta", "cause"),
    [
        (MetaProperties(cluster_id="other", node_id=1), "Invalid cluster.id"),
        (MetaProperties(cluster_id=CLUSTER, node_id=2), "Stored node id 2"),
        (
            MetaProperties(cluster_id=CLUSTER, node_id=1, directory_id=bytes([100]) * 16),
            "Duplicate directory ID",
        ),
    ],
)
def test_a_directory_of_another_node_stops_the_start(node: Node, meta: MetaProperties, cause: str) -> None:
    write_meta(node.disk, node.paths[1], meta, START_MS)
    directories = node.make()
    with pytest.raises(DirectoryError, match=cause):
        directories.open(node_id=1)
    assert all(directory.release is None for directory in directories.directories)


def test_an_expected_cluster_must_be_the_one(node: Node) -> None:
    with pytest.raises(DirectoryError, match=r"Invalid cluster\.id"):
        node.make().open(node_id=1, cluster_id="other")


def test_unformatted_directories_say_how_to_format(node: Node) -> None:
    for path in node.paths:
        Path(path, META_PROPERTIES).unlink()
    with pytest.raises(DirectoryError, match=r"kafka-storage\.sh format"):
        node.make().open(node_id=1)


def test_a_new_directory_among_formatted_ones_is_formatted(node: Node) -> None:
    Path(node.paths[1], META_PROPERTIES).unlink()
    write_meta(node.disk, node.paths[0], MetaProperties(cluster_id=CLUSTER, node_id=1), START_MS)
    directories = node.make()
    assert directories.open(node_id=1) == CLUSTER
    metas = [read_meta(node.disk, path) for path in node.paths]
    ids = [meta.directory_id for meta in metas if meta is not None]
    assert ids == [directory.id for directory in directories.directories]
    assert len(set(ids)) == 2
    assert directories.metadata_directory_id == ids[0]


def test_a_directory_in_use_stops_the_start(node: Node) -> None:
    first = node.make()
    first.open(node_id=1)
    with pytest.raises(DirectoryError, match=r"Failed to acquire lock on file \.lock"):
        node.make().open(node_id=1)
    asyncio.run(first.close())
    second = node.make()
    second.open(node_id=1)
    asyncio.run(second.close())


def test_the_same_directory_twice_stops_the_start(node: Node) -> None:
    node.paths[1] = node.paths[0] + "/"
    with pytest.raises(DirectoryError, match="twice"):
        node.make().open(node_id=1)


def test_a_metadata_log_in_the_wrong_place_stops_the_start(node: Node) -> None:
    Path(node.paths[1], "__cluster_metadata-0").mkdir()
    with pytest.raises(DirectoryError, match=r"metadata\.log\.dir"):
        node.make().open(node_id=1)


def test_a_metadata_directory_of_its_own_is_identified_too(node: Node, tmp_path: Path) -> None:
    node.options["metadata_path"] = str(tmp_path / "metadata")
    directories = node.make()
    directories.open(node_id=1)
    meta = read_meta(node.disk, str(tmp_path / "metadata"))
    assert meta is not None
    assert meta.directory_id == directories.metadata_directory_id
    assert len(directories.directories) == 2


def test_a_directory_that_cannot_be_opened_is_offline_from_the_start(node: Node, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    node.paths.append(str(tmp_path / "file" / "d2"))

    async def test() -> None:
        directories = await node.start()
        assert [directory.online for directory in directories.directories] == [True, True, False]
        assert directories.describe()[2].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaStorageError, match="are offline"):
            directories.create("orders", 0, TOPIC_ID, is_new=False)
        assert directories.create("orders", 0, TOPIC_ID, is_new=True) is not None
        assert directories.previous_broker_epoch == -1
        await node.stop(directories)

    run(test)


def test_no_usable_directory_at_all_stops_the_start(node: Node, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    node.options["metadata_path"] = node.paths[0]
    node.paths = [str(tmp_path / "file" / "x"), str(tmp_path / "file" / "y")]
    with pytest.raises(DirectoryError, match=r"No directory of log\.dirs"):
        node.make().open(node_id=1)
