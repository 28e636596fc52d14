"""Logs and log directories with damaged files: they open with what is valid, or report what is not.

Damage raises only the errors that are meant for it, and memory stays in proportion.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.damage import damaged, within_memory
from tests.unit.log.support import START_MS, FakeClock, append, batch, end_transaction, produced, read_all

from ottla.host import HostRandom
from ottla.log import checkpoints
from ottla.log.config import LogConfig
from ottla.log.directories.log_directories import DirectoriesConfig, LogDirectories
from ottla.log.directories.properties import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    DirectoryError,
    MetaProperties,
    write_meta,
)
from ottla.log.log import Log
from ottla.log.segment import LogDamaged
from ottla.testing.world.disk import SimulatedDisk
from ottla.wire.errors import CorruptMessage, InvalidRecord, KafkaError

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)
DIRECTORY = "/data/orders-0"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"

Files = dict[str, bytes]


def _disk(files: Files) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(1))
    for path, content in files.items():
        disk.make_directory(path.rpartition("/")[0])
        disk.replace(path, content)
    return disk


def _files(disk: SimulatedDisk, directory: str) -> Files:
    found: Files = {}
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        if disk.is_directory(path):
            found |= _files(disk, path)
        else:
            found[path] = disk.read(path)
    return found


def _fill(log: Log) -> None:
    """Segments with plain batches, an aborted transaction and a committed one, in two leader epochs."""
    for number in range(8):
        append(log, batch(2, value=b"plain %d" % number))
    append(log, produced(7, 0, transactional=True))
    append(log, produced(8, 0, transactional=True))
    end_transaction(log, 7, commit=False)
    for number in range(8):
        append(log, batch(1, value=b"more %d" % number), leader_epoch=3)
    end_transaction(log, 8, commit=True)


def _open(disk: SimulatedDisk, *, clean: bool, recovery_point: int = 0) -> Log:
    return Log.open(
        disk,
        FakeClock(),
        DIRECTORY,
        CONFIG,
        topic="orders",
        partition=0,
        clean=clean,
        recovery_point=recovery_point,
    )


@cache
def _sound_log() -> tuple[Files, int]:
    """The files of a log that was stopped cleanly, and where it ends."""
    disk = _disk({"/data/x": b""})
    log = _open(disk, clean=False)
    _fill(log)
    log.flush()
    log.close(clean=True)
    return _files(disk, DIRECTORY), log.log_end_offset


def test_the_log_that_these_tests_damage_has_files_of_every_kind() -> None:
    files, end_offset = _sound_log()
    kinds = {path.rpartition(".")[2] for path in files}
    assert kinds == {
        "log",
        "index",
        "timeindex",
        "txnindex",
        "snapshot",
        f"{DIRECTORY}/leader-epoch-checkpoint",
    }
    log = _open(_disk(files), clean=True)
    assert log.log_end_offset == end_offset
    assert len(list(log.segments)) >= 3


@settings(max_examples=100)
@given(st.data())
def test_a_log_with_damaged_files_opens_and_serves_or_says_that_it_is_damaged(data: st.DataObject) -> None:
    files, end_offset = _sound_log()
    files = dict(files)
    for path in data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=3, unique=True)):
        files[path] = data.draw(damaged(files[path]), label=path)
    if data.draw(st.booleans(), label="remove one"):
        del files[data.draw(st.sampled_from(sorted(files)))]
    clean = data.draw(st.booleans(), label="clean")
    point = data.draw(st.integers(0, end_offset), label="recovery point")
    disk = _disk(files)
    with within_memory(sum(map(len, files.values()))):
        try:
            log = _open(disk, clean=clean, recovery_point=point)
        except LogDamaged:
            return
        for use in (_read, _look_up, _go_on):
            try:
                use(log)
            except (LogDamaged, CorruptMessage, InvalidRecord):
                continue
        log.close(clean=True)


def _read(log: Log) -> None:
    assert 0 <= log.log_start_offset <= log.high_watermark <= log.log_end_offset
    read_all(log)


def _look_up(log: Log) -> None:
    end = log.log_end_offset
    log.offset_of_max_timestamp()
    for timestamp in (0, START_MS, START_MS + 1, 2**62):
        log.offset_for_timestamp(timestamp)
    for offset in (0, end // 2, end):
        log.aborted_transactions(offset, end)
    for epoch in (0, 1, 3, 4):
        log.end_offset_for_epoch(epoch)


def _go_on(log: Log) -> None:
    append(log, batch(1, value=b"after"), leader_epoch=max(log.epochs.latest_epoch, 4))
    log.truncate_to(log.log_end_offset // 2)
    append(log, batch(1, value=b"after"), leader_epoch=max(log.epochs.latest_epoch, 4))
    log.flush()


# Log directories


def _run(disk: SimulatedDisk, use: Callable[[LogDirectories], None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            directories = LogDirectories(
                disk,
                FakeClock(),
                HostRandom(),
                DirectoriesConfig(paths=("/data",)),
                log_config=lambda topic: CONFIG,
                on_offline=lambda directory, partitions: None,
                on_moved=lambda partition, log: None,
            )
            directories.open(node_id=1)
            await directories.load()
            use(directories)
            await directories.close(broker_epoch=5)

    asyncio.run(main())


@cache
def _sound_directory() -> Files:
    disk = _disk({"/data/x": b""})
    meta = MetaProperties(cluster_id=CLUSTER, node_id=1, directory_id=bytes(range(100, 116)))
    write_meta(disk, "/data", meta, START_MS)
    _run(disk, lambda directories: _fill(directories.create("orders", 0, bytes(range(16)))))
    disk.replace(f"/data/{checkpoints.CLEANED}", checkpoints.format({("orders", 0): 3}).encode())
    return _files(disk, "/data")


_SMALL = (
    *(META_PROPERTIES, CLEAN_SHUTDOWN, checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS),
    *(checkpoints.HIGH_WATERMARKS, checkpoints.CLEANED, "orders-0/partition.metadata"),
)


def test_the_directory_that_these_tests_damage_has_all_small_files() -> None:
    assert {f"/data/{name}" for name in _SMALL} <= set(_sound_directory())


@settings(max_examples=100)
@given(st.data())
def test_a_directory_with_damaged_files_is_loaded_or_refused_with_the_cause(data: st.DataObject) -> None:
    files = dict(_sound_directory())
    damaged_paths = [f"/data/{name}" for name in data.draw(_some_of(_SMALL))]
    for path in damaged_paths:
        files[path] = data.draw(damaged(files[path]), label=path)
    if data.draw(st.integers(0, 3), label="no segments") == 0:
        files = {path: files[path] for path in files if not path.startswith("/data/orders-0/0")}

    def use(directories: LogDirectories) -> None:
        directories.get("orders", 1)
        try:
            log = directories.get("orders", 0)
        except KafkaError:
            return  # it is offline, with its cause in the log
        if log is not None:
            for one in (_read, _look_up, _go_on):
                one(log)

    try:
        _run(_disk(files), use)
    except DirectoryError as error:
        refusal = str(error)
    else:
        return
    assert META_PROPERTIES in refusal, "only that one stops the start"


def _some_of(names: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)


@pytest.mark.parametrize("name", [META_PROPERTIES])
def test_a_directory_whose_properties_are_damaged_is_refused_with_file_and_cure(name: str) -> None:
    for content in (b"", b"version=1\n", b"version=1\ncluster.id=x\nnode.id=seven\n", b"\\u00", b"version=9"):
        with pytest.raises(DirectoryError, match=r"meta\.properties.*(format|restore|newer release)"):
            _run(_disk(dict(_sound_directory()) | {f"/data/{name}": content}), lambda directories: None)
