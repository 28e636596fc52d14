"""The shell of the quorum on a real disk: what is committed is there, and what fails is not promised."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.host import HostClock, HostDisk, HostRandom
from ottla.ports import File
from ottla.raft import election_state
from ottla.raft.driver import (
    DIRECTORY_NAME,
    CommittedBatch,
    Driver,
    DriverConfig,
    MissingSnapshot,
    UnsupportedQuorum,
)
from ottla.raft.election_state import ElectionFileDamaged
from ottla.raft.snapshots import BOOTSTRAP_ID, SnapshotDamaged, SnapshotId, build
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.wire.errors import KafkaStorageError, RecordListTooLarge

LOCAL = Voter(ReplicaKey(1, bytes(range(16))), (VoterEndpoint("CONTROLLER", "localhost", 9093),))


class Brittle:
    """A file whose fsync fails when told so."""

    def __init__(self, file: File, disk: BrittleDisk) -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def fsync(self) -> None:
        self._disk.syncs += 1
        if self._disk.is_broken:
            raise OSError(errno.EIO, "the disk is broken")
        self._file.fsync()


class BrittleDisk(HostDisk):
    is_broken = False
    syncs = 0

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> Any:
        return Brittle(super().open(path, create=create, exclusive=exclusive), self)


class Told:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.snapshot: tuple[SnapshotId, list[bytes]] | None = None
        self.batches: list[CommittedBatch[bytes]] = []
        self.epochs: list[int] = []

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[bytes]) -> None:
        self.snapshot = snapshot_id, list(records)

    def commit(self, batches: Sequence[CommittedBatch[bytes]]) -> None:
        self.batches += batches

    def lead(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def resign(self, epoch: int) -> None:
        assert epoch == self.epochs[-1]

    @property
    def records(self) -> list[bytes]:
        return [record for batch in self.batches for record in batch.records]


class Node:
    """One run of a driver."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.disk = BrittleDisk()
        self.told = Told()
        settings.setdefault("static_voters", VoterSet.static({1: ("localhost", 9093)}, "CONTROLLER"))
        config = DriverConfig(directory=str(directory), local=LOCAL, **settings)
        self.driver: Driver[bytes] = Driver(self.disk, HostClock(), HostRandom(), config, self.told, bytes)

    async def __aenter__(self) -> Node:
        await self.driver.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.driver.stop()
        self.disk.close()

    async def append(self, *values: bytes) -> int:
        offset = self.driver.append(values, values)
        await self.committed(offset)
        return offset

    async def committed(self, offset: int) -> None:
        while not self.told.batches or self.told.batches[-1].last_offset < offset:
            await asyncio.sleep(0)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def test_what_was_committed_is_there_in_the_next_run_and_the_epoch_is_higher(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as node:
            assert await node.append(b"a", b"b") == 2  # offset 0 says who leads
            await node.append(b"c")
            assert node.told.records == [b"a", b"b", b"c"]
            assert (node.told.epochs, node.driver.log.high_watermark) == ([1], 4)
        async with Node(tmp_path) as node:
            assert node.told.records == [b"a", b"b", b"c"]
            assert node.told.epochs == [2]
            assert node.driver.next_offset == 5

    run(test)


def test_nothing_needs_a_clean_stop(tmp_path: Path) -> None:
    async def test() -> None:
        node = Node(tmp_path)
        await node.driver.start()
        await node.append(b"a")
        for task in node.driver._tasks:
            task.cancel()
        async with Node(tmp_path) as again:
            assert again.told.records == [b"a"]

    run(test)


def test_many_appends_share_a_flush(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as node:
            before = node.disk.syncs
            last = [node.driver.append([b"%d" % n], [b"%d" % n]) for n in range(500)][-1]
            await node.committed(last)
            assert len(node.told.records) == 500
            assert node.disk.syncs - before <= 6

    run(test)


def test_a_failed_flush_is_the_end_and_nothing_after_it_is_promised(tmp_path: Path) -> None:
    async def test() -> None:
        node = Node(tmp_path)
        await node.driver.start()
        await node.append(b"kept")
        node.disk.is_broken = True
        node.driver.append([b"lost"], [b"lost"])
        with pytest.raises(KafkaStorageError, match=r"cannot be read or written: .*the disk is broken"):
            await node.driver.failure
        assert node.told.records == [b"kept"]
        assert not node.driver.is_leader
        with pytest.raises(KafkaStorageError):
            node.driver.append([b"more"], [b"more"])
        await node.driver.stop()

    run(test)


def test_a_listener_that_cannot_follow_stops_the_node(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as node:

            def refuse(batches: object) -> None:
                raise ValueError("contradiction")

            node.told.commit = refuse  # type: ignore[method-assign]
            node.driver.append([b"x"], [b"x"])
            with pytest.raises(KafkaStorageError, match="could not be applied: contradiction"):
                await node.driver.failure

    run(test)


def test_what_fails_since_the_node_goes_down_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        node = Node(tmp_path)
        await node.driver.start()
        node.driver.fail(OSError(errno.EIO, "the disk is broken"))
        node.driver.fail(KafkaStorageError("The metadata log failed; this node is going down."))
        with pytest.raises(KafkaStorageError, match="the disk is broken"):
            await node.driver.failure
        await node.driver.stop()

    run(test)
    told = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert len(told) == 1
    assert told[0].exc_info is None


def test_a_batch_that_is_too_large_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path, batch_bytes_max=1000) as node:
            before = node.driver.next_offset
            with pytest.raises(RecordListTooLarge):
                node.driver.append([b"x" * 2000], [b""])
            assert node.driver.next_offset == before

    run(test)


class TestSnapshots:
    def test_a_run_begins_with_the_newest_and_reads_only_what_came_after(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path) as node:
                offset = await node.append(b"a")
                await node.driver.write_snapshot(SnapshotId(offset + 1, 1), [b"state"], 5)
                await node.append(b"b")
                with pytest.raises(ValueError, match="ahead of the high watermark"):
                    await node.driver.write_snapshot(SnapshotId(99, 1), [], 5)
            async with Node(tmp_path) as node:
                assert node.told.snapshot == (SnapshotId(offset + 1, 1), [b"state"])
                assert node.told.records == [b"b"]

        run(test)

    def test_old_ones_and_the_log_before_them_go(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path, retention_bytes=0) as node:
                for number in range(3):
                    offset = await node.append(b"%d" % number)
                    node.driver.log.roll()
                    await node.driver.write_snapshot(SnapshotId(offset + 1, 1), [b"%d" % number], 5)
                assert node.driver.log.log_start_offset == 0
                await node.driver.clean()
                assert node.driver.log.log_start_offset == 4
                names = {path.name for path in (tmp_path / DIRECTORY_NAME).glob("*.checkpoint*")}
                assert names == {
                    "00000000000000000002-0000000001.checkpoint.deleted",
                    "00000000000000000003-0000000001.checkpoint.deleted",
                    "00000000000000000004-0000000001.checkpoint",
                }
                await node.driver.clean()
                assert len(list((tmp_path / DIRECTORY_NAME).glob("*.checkpoint*"))) == 1
            async with Node(tmp_path) as node:
                assert node.told.snapshot == (SnapshotId(4, 1), [b"2"])
                assert node.told.records == []

        run(test)

    def test_one_that_is_damaged_is_set_aside_where_the_log_has_what_it_had(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path) as node:
                for value in (b"a", b"b"):
                    offset = await node.append(value)
                    await node.driver.write_snapshot(SnapshotId(offset + 1, 1), [b"state " + value], 5)
                await node.append(b"c")
            paths = sorted((tmp_path / DIRECTORY_NAME).glob("*.checkpoint"))
            for path, snapshot, records in (
                (paths[1], (SnapshotId(2, 1), [b"state a"]), [b"b", b"c"]),
                (paths[0], None, [b"a", b"b", b"c"]),
            ):
                damaged = path.read_bytes()[:-3]
                path.write_bytes(damaged)
                async with Node(tmp_path) as node:
                    assert node.told.snapshot == snapshot
                    assert node.told.records == records
                assert path.with_suffix(".checkpoint.damaged").read_bytes() == damaged
                assert not path.exists()

        run(test)

    def test_one_that_is_damaged_and_nowhere_else_is_not_read_as_a_smaller_state(
        self, tmp_path: Path
    ) -> None:
        async def test() -> None:
            async with Node(tmp_path, retention_bytes=0) as node:
                for _ in range(2):
                    offset = await node.append(b"a")
                    node.driver.log.roll()
                    await node.driver.write_snapshot(SnapshotId(offset + 1, 1), [b"state"], 5)
                await node.driver.clean()
                node.driver.log.delete_due(2**62)
            (path,) = (tmp_path / DIRECTORY_NAME).glob("*.checkpoint")
            path.write_bytes(path.read_bytes()[:-3])
            with pytest.raises(SnapshotDamaged, match=r"cut off.* restore the file"):
                await Node(tmp_path).driver.start()
            assert path.exists()

        run(test)

    def test_a_log_that_starts_late_needs_one(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path, retention_bytes=0) as node:
                for _ in range(2):
                    offset = await node.append(b"a")
                    node.driver.log.roll()
                    await node.driver.write_snapshot(SnapshotId(offset + 1, 1), [], 5)
                await node.driver.clean()
                node.driver.log.delete_due(2**62)
            for path in (tmp_path / DIRECTORY_NAME).glob("*.checkpoint"):
                path.unlink()
            with pytest.raises(MissingSnapshot, match="starts at offset 3"):
                await Node(tmp_path).driver.start()

        run(test)

    def test_one_that_is_ahead_of_the_log_replaces_it(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path) as node:
                await node.append(b"a")
            ahead = SnapshotId(50, 3)
            content = b"".join(build([b"new"], epoch=3, now_ms=1, last_contained_ms=1))
            (tmp_path / DIRECTORY_NAME / ahead.file_name).write_bytes(content)
            async with Node(tmp_path) as node:
                assert node.told.snapshot == (ahead, [b"new"])
                assert (node.told.records, node.told.epochs) == ([], [4])
                assert node.driver.log.log_start_offset == 50

        run(test)

    def test_what_an_earlier_run_did_not_finish_goes(self, tmp_path: Path) -> None:
        async def test() -> None:
            directory = tmp_path / DIRECTORY_NAME
            directory.mkdir()
            (directory / "00000000000000000007-0000000001.checkpoint.part").write_bytes(b"half")
            async with Node(tmp_path) as node:
                assert node.driver.latest_snapshot is None
            assert not list(directory.glob("*.part"))

        run(test)


class TestVoters:
    def test_a_dynamic_quorum_keeps_its_voters_in_log_and_snapshots(self, tmp_path: Path) -> None:
        async def test() -> None:
            directory = tmp_path / DIRECTORY_NAME
            directory.mkdir()
            first = VoterSet([Voter(LOCAL.key, (VoterEndpoint("CONTROLLER", "elsewhere", 1),))])
            content = b"".join(
                build([], epoch=0, now_ms=1, last_contained_ms=1, kraft_version=1, voters=first)
            )
            (directory / BOOTSTRAP_ID.file_name).write_bytes(content)
            async with Node(tmp_path, static_voters=VoterSet()) as node:
                assert node.driver.replica.voters.last == VoterSet([LOCAL])
                offset = await node.append(b"a")
                assert offset == 3  # after the leader, the level and the voters
                await node.driver.write_snapshot(SnapshotId(offset + 1, 1), [b"a"], 5)
            assert b'"data_version":1' in (directory / election_state.FILE_NAME).read_bytes()
            async with Node(tmp_path, static_voters=VoterSet()) as node:
                assert node.driver.replica.voters.last == VoterSet([LOCAL])
                assert node.driver.replica.kraft_version.last == 1
                assert node.driver.next_offset == 5  # nothing changed, so only the leader was written

        run(test)

    def test_a_static_quorum_becomes_dynamic(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path) as node:
                node.driver.upgrade_kraft_version(1)
                await node.append(b"a")
            async with Node(tmp_path, static_voters=VoterSet()) as node:
                assert node.driver.replica.voters.last == VoterSet([LOCAL])
                assert node.told.records == [b"a"]

        run(test)

    def test_a_quorum_without_voters_is_refused_unless_others_can_be_asked(self, tmp_path: Path) -> None:
        async def test() -> None:
            with pytest.raises(UnsupportedQuorum, match="no voters"):
                await Node(tmp_path / "a", static_voters=VoterSet()).driver.start()
            async with Node(tmp_path / "b", static_voters=VoterSet(), has_bootstrap=True) as node:
                assert not node.driver.is_leader

        run(test)

    def test_a_damaged_election_file_stops_the_start(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path):
                pass
            (tmp_path / DIRECTORY_NAME / election_state.FILE_NAME).write_text("{")
            with pytest.raises(ElectionFileDamaged):
                await Node(tmp_path).driver.start()

        run(test)
