"""The files of the metadata quorum, damaged: a node starts with what is right, or says what is not.

What a snapshot stood for never reads as "less": it is there, or the start is refused. Only the end of the
log, which no snapshot has, may be cut: damage there looks like a write that a crash has torn.
"""

from __future__ import annotations

import asyncio
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.damage import damaged, within_memory
from tests.unit.raft.test_driver import LOCAL, Told

from ottla.host import HostClock, HostRandom
from ottla.log.segment import LogDamaged
from ottla.raft import election_state
from ottla.raft.driver import DIRECTORY_NAME, Driver, DriverConfig, MissingSnapshot
from ottla.raft.election_state import ElectionFileDamaged
from ottla.raft.snapshots import SnapshotDamaged, SnapshotId
from ottla.raft.voters import VoterSet
from ottla.testing.world.disk import SimulatedDisk

DIRECTORY = f"/data/{DIRECTORY_NAME}"
STATIC = VoterSet.static({1: ("localhost", 9093)}, "CONTROLLER")
REFUSALS = (LogDamaged, SnapshotDamaged, MissingSnapshot, ElectionFileDamaged)

Files = dict[str, bytes]


def _driver(disk: SimulatedDisk, told: Told) -> Driver[bytes]:
    config = DriverConfig(directory="/data", local=LOCAL, static_voters=STATIC)
    return Driver(disk, HostClock(), HostRandom(), config, told, bytes)


def _disk(files: Files) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(1))
    disk.make_directory(DIRECTORY)
    for path, content in files.items():
        disk.replace(path, content)
    return disk


@cache
def _sound() -> Files:
    """A log with nine records in two segments, and a snapshot after the third and the sixth."""
    disk = _disk({})

    async def main() -> None:
        told = Told()
        driver = _driver(disk, told)
        await driver.start()
        for number in range(9):
            offset = driver.append([b"%d" % number], [b"%d" % number])
            while not told.batches or told.batches[-1].last_offset < offset:
                await asyncio.sleep(0.001)
            if number in (2, 5):
                state = [b"%d" % one for one in range(number + 1)]
                await driver.write_snapshot(SnapshotId(offset + 1, 1), state, 5)
                driver.log.roll()
        await driver.stop()

    asyncio.run(asyncio.wait_for(main(), 60))
    return {path: disk.read(path) for name in disk.list(DIRECTORY) if (path := f"{DIRECTORY}/{name}")}


def _start(files: Files) -> list[bytes]:
    """What is there after a start: the records of the snapshot, and those after it."""

    async def main() -> list[bytes]:
        told = Told()
        driver = _driver(_disk(files), told)
        await driver.start()
        offset = driver.append([b"after"], [b"after"])
        while not told.batches or told.batches[-1].last_offset < offset:
            await asyncio.sleep(0.001)
        await driver.stop()
        return (told.snapshot[1] if told.snapshot is not None else []) + told.records

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_the_files_that_are_damaged_here_are_of_every_kind() -> None:
    names = [path.rpartition("/")[2] for path in _sound()]
    assert {name.rpartition(".")[2] for name in names} == {
        *("log", "index", "timeindex", "snapshot", "checkpoint", "metadata"),
        *("quorum-state", "leader-epoch-checkpoint"),
    }
    assert _start(_sound()) == [*(b"%d" % number for number in range(9)), b"after"]


@settings(max_examples=80)
@given(st.data())
def test_a_quorum_with_damaged_files_starts_with_all_of_it_or_says_what_is_wrong(data: st.DataObject) -> None:
    files = dict(_sound())
    for path in data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=2, unique=True)):
        files[path] = data.draw(damaged(files[path]), label=path)
    with within_memory(sum(map(len, files.values())) + 100_000):
        try:
            found = _start(files)
        except REFUSALS as error:
            assert DIRECTORY in str(error)  # noqa: PT017 - it may also start
            return
    assert found[:-1] == [b"%d" % number for number in range(len(found) - 1)]
    assert 6 <= len(found) - 1 <= 9


@pytest.mark.parametrize("snapshots", [1, 2])
@pytest.mark.parametrize("cut", [20, 69])  # within the last batch, and before it
@pytest.mark.parametrize("number", [0, 1])
def test_a_log_that_is_damaged_where_a_damaged_snapshot_stood_for_it_is_not_cut(
    number: int, cut: int, snapshots: int
) -> None:
    files = dict(_sound())
    logs = sorted(path for path in files if path.endswith(".log"))
    for path in sorted(path for path in files if path.endswith(".checkpoint"))[-snapshots:]:
        files[path] = files[path][:-3]
    files[logs[number]] = files[logs[number]][:-cut]
    if snapshots == 1 and number == 0:
        assert len(_start(files)) == 10, "the older snapshot has what is before it"
        return
    with pytest.raises(REFUSALS, match=r"[Rr]estore (the file|its files)"):
        _start(files)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"{}", b"[]", b"[" * 100_000, b"\xff\xfe", b'{"data_version":7}', b"null"]
    + [
        b'{"leaderId":%s,"leaderEpoch":%s,"votedId":%s,"data_version":0}' % numbers
        for numbers in ((b"1", b"-1", b"-1"), (b"1", b"2147483648", b"-1"), (b"1", b"1", b"true"))
    ],
)
def test_a_damaged_quorum_state_stops_the_start_with_file_and_cure(content: bytes) -> None:
    path = f"{DIRECTORY}/{election_state.FILE_NAME}"
    with pytest.raises(ElectionFileDamaged, match=rf"{path}.*(Restore it|newer release)"):
        _start(dict(_sound()) | {path: content})
