"""The limit of open files of inactive segments. A file that is parked is opened again by its users."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.log.node_support import COMPACT, OTHER_ID, TOPIC_ID, Node, run
from tests.unit.log.support import START_MS, append, batch, read_all

from ottla.host import HostDisk, HostFile
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.record import Record, build_batch

TINY = LogConfig(segment_bytes=200, index_interval_bytes=0, file_delete_delay_ms=0)
COUNT = 60


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, 1)
    node.config = TINY
    node.options["open_files_max"] = 10
    return node


@pytest.fixture
def file(tmp_path: Path) -> Iterator[HostFile]:
    disk = HostDisk(threads=1)
    file = disk.open(str(tmp_path / "file"), create=True)
    file.pwrite([b"content"], 0)
    yield file
    file.close()
    disk.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_log_of_many_segments_has_few_files_open(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        before = descriptors()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(log, batch())
        assert len(log.segments) > COUNT // 3
        assert descriptors() <= before + 12
        await directories.flush_due()
        assert [record.offset for record in read_all(log)] == list(range(COUNT))
        assert log.offset_for_timestamp(0) is not None
        assert descriptors() <= before + 12
        assert len(directories._open_files) <= 10
        await node.kill(directories)

        again = await node.start()
        assert descriptors() <= before + 4, "a recovery closes what it has scanned"
        assert again.logs["orders", 0].log_end_offset == COUNT
        await node.stop(again)

    run(test)


def test_a_clean_stop_does_not_write_inactive_segments_again(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(log, batch())
        await directories.flush(log)
        node.disk.operations.clear()
        await node.stop(directories)
        assert len(node.disk.operations) < 30
        again = await node.start()
        assert [record.offset for record in read_all(again.logs["orders", 0])] == list(range(COUNT))
        await node.stop(again)

    run(test)


def test_a_response_is_sent_from_a_file_that_was_parked_in_the_meantime(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(log, batch())
        answer = log.locate(0, 1 << 20, limit_offset=COUNT)
        wanted = answer.file.pread(answer.length, answer.position)
        for offset in range(COUNT):
            log.read(offset, 1 << 20, limit_offset=COUNT)
        assert answer.file.fileno() == -1
        assert answer.file.pread(answer.length, answer.position) == wanted
        await node.stop(directories)

    run(test)


def read_everything(log: Log) -> None:
    """Have only the last segments of `log` open."""
    for offset in range(log.log_end_offset):
        log.read(offset, 1 << 20, limit_offset=log.log_end_offset)


def test_a_response_from_a_parked_file_is_sent_unchanged_after_a_compaction(node: Node) -> None:
    async def test() -> None:
        node.config = replace(COMPACT, segment_bytes=500, index_interval_bytes=0)
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for number in range(2 * COUNT):
            key = b"key %d" % (number % 10 if number % 3 else number)
            append(log, memoryview(build_batch([Record(0, START_MS, key, b"%d" % number)])))
        answer = log.locate(2, 1 << 20, limit_offset=log.log_end_offset)
        wanted = answer.file.pread(answer.length, answer.position)
        read_everything(log)
        assert answer.file.fileno() == -1
        assert await directories.cleaner.clean_next()
        assert log.read(2, 1 << 20, limit_offset=log.log_end_offset).records != wanted
        assert answer.file.pread(answer.length, answer.position) == wanted

        assert answer.file.park()
        node.clock.time_ms += node.config.file_delete_delay_ms + 1
        log.delete_due(node.clock.now_ms())
        with pytest.raises(OSError, match="Bad file descriptor"):
            answer.file.pread(answer.length, answer.position)
        await node.stop(directories)

    run(test)


def test_a_response_of_a_deleted_topic_has_no_records_of_a_new_topic_of_that_name(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(log, batch(value=b"old"))
        answer = log.locate(0, 1 << 20, limit_offset=COUNT)
        wanted = answer.file.pread(answer.length, answer.position)
        read_everything(log)
        assert answer.file.fileno() == -1
        await directories.delete([("orders", 0)])
        again = directories.create("orders", 0, OTHER_ID)
        for _ in range(COUNT):
            append(again, batch(value=b"new"))
        assert answer.file.pread(answer.length, answer.position) == wanted

        assert answer.file.park()
        node.clock.time_ms += directories._config.delete_delay_ms + 1
        await directories.delete_due()
        with pytest.raises(OSError, match="Bad file descriptor"):
            answer.file.pread(answer.length, answer.position)
        await node.stop(directories)

    run(test)


def test_a_segment_and_a_response_share_one_file_after_it_was_parked(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(log, batch())
        answer = log.locate(0, 1 << 20, limit_offset=COUNT)
        read_everything(log)
        assert answer.file.fileno() == -1
        assert log.segments[0].file is answer.file
        assert answer.file.fileno() >= 0
        await node.stop(directories)

    run(test)


def test_the_segments_that_were_read_last_stay_open(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(log, batch())
        for offset in range(3, COUNT - 3):
            log.segments.find(0)
            log.segments.forget_positions()
            log.read(offset, 1, limit_offset=COUNT)
        assert log.segments[0].file.fileno() >= 0
        node.disk.operations.clear()
        log.segments[0].file.pread(1, 0)
        assert ("open", "00000000000000000000.log") not in node.disk.operations
        await node.stop(directories)

    run(test)


def test_a_segment_stays_open_until_it_is_flushed_if_others_can_be_closed(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log, other = directories.create("orders", 0, TOPIC_ID), directories.create("others", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(other, batch())
        await directories.flush(other)
        while len(log.segments) < 3:
            append(log, batch())
        rolled = log.segments[0]
        read_everything(other)
        assert rolled.is_open
        node.disk.operations.clear()
        read_everything(other)
        assert ("open", "00000000000000000000.log") in node.disk.operations, "the others are closed instead"
        await directories.flush(log)
        read_everything(other)
        assert not rolled.is_open
        await node.stop(directories)

    run(test)


def test_a_parked_file_is_opened_again_under_its_new_name(file: HostFile) -> None:
    assert file.park()
    assert file.fileno() == -1
    renamed = f"{file.path}.renamed"
    os.rename(file.path, renamed)
    file.path = renamed
    assert file.pread(7, 0) == b"content"
    assert file.park()
    file.pwrite([b"C"], 0)
    assert file.park()
    assert file.size() == 7
    assert file.park()
    file.truncate(3)
    assert file.park()
    file.fsync()
    assert file.pread(9, 0) == b"Con"


def test_a_file_that_another_thread_uses_is_not_parked(file: HostFile) -> None:
    file.hold()
    assert not file.park()
    assert file.fileno() >= 0
    file.release()
    assert file.park()


def test_a_descriptor_that_another_thread_uses_stays_open_until_its_release(file: HostFile) -> None:
    descriptor = file.fileno()
    file.hold()
    file.hold()
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)
    file.release()
    assert os.pread(descriptor, 7, 0) == b"content"
    file.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_file_without_references_releases_its_descriptor(tmp_path: Path) -> None:
    disk = HostDisk(threads=1)
    file = disk.open(str(tmp_path / "file"), create=True)
    descriptor = file.fileno()
    file.hold()
    file.close()
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    disk.close()


def test_a_closed_file_stays_closed(file: HostFile) -> None:
    file.close()
    assert file.park()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)


def test_a_lack_of_descriptors_at_the_first_append_after_a_start_takes_no_directory_offline(
    node: Node,
) -> None:
    async def test() -> None:
        directories = await node.start()
        append(directories.create("orders", 0, TOPIC_ID), batch())
        await node.stop(directories)
        again = await node.start()
        log = again.logs["orders", 0]
        log.segments.active.close_handles()
        node.disk.fail_on("open", ".log", errno.EMFILE)
        with pytest.raises(OSError, match="Too many open files"):
            append(log, batch())
        assert log.failure is None
        node.disk.heal()
        append(log, batch())
        assert log.log_end_offset == 2
        await node.stop(again)

    run(test)


def test_a_segment_that_is_active_again_stays_open(node: Node) -> None:
    async def test() -> None:
        directories = await node.start()
        log = directories.create("orders", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(log, batch())
        await directories.truncate_to(log, COUNT - 4)
        assert log.active_segment.open_files is None
        append(log, batch(), leader_epoch=1)
        other = directories.create("others", 0, TOPIC_ID)
        for _ in range(COUNT):
            append(other, batch())
        assert log.active_segment.file.fileno() >= 0
        assert [record.offset for record in read_all(log)] == list(range(COUNT - 3))
        await node.stop(directories)

    run(test)
