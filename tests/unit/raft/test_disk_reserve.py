"""A full disk under the metadata log: changes use the reserve, then fail until there is space again."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.raft.listener import RecordingListener
from tests.unit.raft.test_driver import LOCAL

from ottla.host import HostClock, HostDisk, HostFile, HostRandom
from ottla.ports import Buffer
from ottla.raft.disk_reserve import BLOCK_BYTES, NAME, Reserve
from ottla.raft.driver import Driver, DriverConfig
from ottla.raft.voters import VoterSet
from ottla.wire.errors import KafkaStorageError

BLOCKS = 5


class FullDisk(HostDisk):
    """Once it is full, each write takes one of the blocks that the reserve has released."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.is_full = False
        self.free_blocks = 0

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> Any:
        flags = os.O_RDWR | (os.O_CREAT if create else 0) | (os.O_EXCL if exclusive else 0)
        return CountedFile(self, path, os.open(path, flags, 0o644))

    def replace(self, path: str, content: Buffer, *, sync: bool = True) -> None:
        self.take_block()
        super().replace(path, content, sync=sync)

    def space(self, path: str) -> tuple[int, int]:
        return (1 << 40, self.free_blocks * BLOCK_BYTES if self.is_full else 1 << 40)

    def take_block(self) -> None:
        if self.is_full:
            if not self.free_blocks:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.free_blocks -= 1


class CountedFile(HostFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: FullDisk, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def pwrite(self, buffers: Sequence[Buffer], position: int) -> int:
        self._disk.take_block()
        return super().pwrite(buffers, position)

    def truncate(self, size: int) -> None:
        if self.path.endswith(NAME):
            self._disk.free_blocks += (self.size() - size) // BLOCK_BYTES
        super().truncate(size)


def only_voter(directory: Path, disk: FullDisk, listener: RecordingListener, **options: Any) -> Driver[bytes]:
    config = DriverConfig(
        directory=str(directory),
        local=LOCAL,
        static_voters=VoterSet.static({1: ("localhost", 9093)}, "CONTROLLER"),
        reserve_bytes=BLOCKS * BLOCK_BYTES,
        **options,
    )
    return Driver(disk, HostClock(), HostRandom(), config, listener, bytes)


def reserved(directory: Path) -> int:
    return (directory / NAME).stat().st_size


def test_changes_on_a_full_disk_use_the_reserve_then_fail_and_succeed_once_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.raft.driver.disk_space.RETRY_SECONDS", 0)

    async def test() -> None:
        disk, listener = FullDisk(), RecordingListener()
        driver = only_voter(tmp_path, disk, listener)
        await driver.start()
        assert reserved(tmp_path) == BLOCKS * BLOCK_BYTES
        assert not driver.is_disk_full
        disk.is_full = True
        written = 0
        while not driver._space.is_lacking:
            driver.append([b"%d" % written], [b"%d" % written])
            written += 1
            while len(listener.records) < written and not driver._space.is_lacking:
                await asyncio.sleep(0)
        assert reserved(tmp_path) == 0
        assert written > 1
        assert len(listener.records) == written - 1, "the last one waits for space"
        with pytest.raises(KafkaStorageError, match="is full"):
            driver.append([b"x"], [b"x"])
        assert not driver.failure.done()

        disk.is_full = False
        while len(listener.records) < written:
            await asyncio.sleep(0)
        assert listener.records == [b"%d" % number for number in range(written)]
        while driver._space.is_lacking:
            await asyncio.sleep(0)
        await driver.clean()
        assert not driver.is_disk_full
        assert reserved(tmp_path) == BLOCKS * BLOCK_BYTES
        driver.append([b"last"], [b"last"])
        await driver.stop()

        again = RecordingListener()
        driver = only_voter(tmp_path, disk, again)
        await driver.start()
        assert again.records == [*listener.records[:written], b"last"]
        await driver.stop()
        disk.close()

    asyncio.run(asyncio.wait_for(test(), 30))


def test_batches_of_several_segments_that_are_written_together_are_committed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full once the first segment is written."""
    monkeypatch.setattr("ottla.raft.driver.disk_space.RETRY_SECONDS", 0)

    async def test() -> None:
        disk, listener = FullDisk(), RecordingListener()
        driver = only_voter(tmp_path, disk, listener, segment_bytes=1000)
        await driver.start()
        disk.is_full = True
        values = [bytes([number]) * 400 for number in range(4)]
        for value in values:
            driver.append([value], [value])
        while len(listener.records) < len(values) and not driver.failure.done():
            disk.is_full = disk.is_full and not driver._space.is_lacking
            await asyncio.sleep(0)
        assert not driver.failure.done()
        assert listener.records == values
        assert len(driver.log.segments) > 1
        await driver.stop()
        disk.close()

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_start_on_a_full_disk_uses_the_reserve(tmp_path: Path) -> None:
    async def test() -> None:
        disk, listener = FullDisk(), RecordingListener()
        driver = only_voter(tmp_path, disk, listener)
        await driver.start()
        driver.append([b"a"], [b"a"])
        await driver.stop()
        disk.is_full = True
        again = RecordingListener()
        driver = only_voter(tmp_path, disk, again)
        await driver.start()
        assert again.records == [b"a"]
        assert driver.is_disk_full
        await driver.stop()
        disk.close()

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_write_that_fails_for_another_reason_does_not_use_the_reserve(tmp_path: Path) -> None:
    disk = FullDisk()
    reserve = Reserve(disk, str(tmp_path), BLOCKS * BLOCK_BYTES)
    reserve.open()

    def fail() -> None:
        raise OSError(errno.EIO, "injected")

    with pytest.raises(OSError, match="injected"):
        reserve.attempt(fail)
    assert reserve.is_whole
    reserve.close()
    disk.close()


def test_a_disk_without_space_for_the_reserve_has_none_until_there_is_space(tmp_path: Path) -> None:
    disk = FullDisk()
    disk.is_full = True
    reserve = Reserve(disk, str(tmp_path), BLOCKS * BLOCK_BYTES)
    reserve.open()
    assert not reserve.release_block()
    disk.is_full = False
    reserve.fill()
    assert reserve.is_whole
    reserve.close()
    Reserve(disk, str(tmp_path), 0).open()
    assert not (tmp_path / NAME).exists()
    disk.close()
