"""Shared by tests of log directories: the directories of a node, which a test starts, stops and kills."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.unit.log.support import START_MS, FakeClock, FaultyDisk

from ottla.host import HostRandom
from ottla.log import checkpoints
from ottla.log.config import LogConfig
from ottla.log.directories.log_directories import DirectoriesConfig, LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.properties import MetaProperties, write_meta
from ottla.log.log import Log

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
COMPACT = LogConfig(cleanup_policy=frozenset(("compact",)), min_cleanable_dirty_ratio=0.0)


class Node:
    """The directories of one node."""

    def __init__(self, path: Path, count: int = 2) -> None:
        self.paths = [str(path / f"d{number}") for number in range(count)]
        self.disk = FaultyDisk()
        self.clock = FakeClock()
        self.config = LogConfig()
        self.offline: list[tuple[str, list[checkpoints.Partition]]] = []
        self.moved: list[tuple[checkpoints.Partition, Log]] = []
        self.truncated: list[Log] = []
        self.options: dict[str, Any] = {}
        self.running: LogDirectories | None = None
        for number, one in enumerate(self.paths):
            self.disk.make_directory(one)
            meta = MetaProperties(cluster_id=CLUSTER, node_id=1, directory_id=bytes([100 + number]) * 16)
            write_meta(self.disk, one, meta, START_MS)

    def make(self) -> LogDirectories:
        def went_offline(directory: LogDirectory, partitions: list[checkpoints.Partition]) -> None:
            self.offline.append((directory.path, partitions))

        return LogDirectories(
            self.disk,
            self.clock,
            HostRandom(),
            DirectoriesConfig(paths=tuple(self.paths), **self.options),
            log_config=lambda topic: self.config,
            on_offline=went_offline,
            on_moved=lambda partition, log: self.moved.append((partition, log)),
            on_truncated=lambda partition, log: self.truncated.append(log),
        )

    async def start(self, is_stray: Callable[[Log], str | None] | None = None) -> LogDirectories:
        self.running = directories = self.make()
        assert directories.open(node_id=1) == CLUSTER
        await directories.load(is_stray=is_stray)
        return directories

    async def stop(self, directories: LogDirectories, epoch: int = -1) -> None:
        await directories.close(broker_epoch=epoch)
        self.running = None

    async def kill(self, directories: LogDirectories) -> None:
        """Stop as kill -9 does: release the handles and write nothing."""
        for log in directories.everything():
            log.close(clean=False)
        directories._release()
        self.running = None

    def names(self, number: int, kind: str = "") -> list[str]:
        return [
            name
            for name in self.disk.list(self.paths[number])
            if self.disk.is_directory(f"{self.paths[number]}/{name}") and name.endswith(kind)
        ]

    def checkpoint(self, number: int, name: str) -> dict[checkpoints.Partition, int]:
        offsets = checkpoints.read(self.disk, f"{self.paths[number]}/{name}")
        offsets.pop(checkpoints.CONTIGUOUS, None)
        return offsets


def content(*path: str) -> bytes:
    return Path(*path).read_bytes()


def put(data: bytes | bytearray, *path: str) -> None:
    Path(*path).write_bytes(data)


def is_there(*path: str) -> bool:
    return Path(*path).exists()


def files(path: str) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in Path(path).iterdir() if entry.is_file()}


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(_awaited(test))


async def _awaited(test: Callable[[], Awaitable[None]]) -> None:
    await test()
