"""The driver of the only voter on a real disk: records survive restarts, and a failed write stops it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.unit.raft.listener import RecordingListener

from ottla.host import HostClock, HostDisk, HostRandom
from ottla.ports import File
from ottla.raft import election_state
from ottla.raft.driver import (
    DIRECTORY_NAME,
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


class FailingFile:
    """A file whose fsync fails once its disk is broken."""

    def __init__(self, file: File, disk: FailingDisk) -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def fsync(self) -> None:
        self._disk.syncs += 1
        if self._disk.is_broken:
            raise OSError(errno.EIO, "the disk is broken")
        self._file.fsync()


class FailingDisk(HostDisk):
    is_broken = False
    syncs = 0

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> Any:
        return FailingFile(super().open(path, create=create, exclusive=exclusive), self)


class Node:
    """One run of a driver."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.disk = FailingDisk()
        self.listener = RecordingListener()
        settings.setdefault("static_voters", VoterSet.static({1: ("localhost", 9093)}, "CONTROLLER"))
        config = DriverConfig(directory=str(directory), local=LOCAL, **settings)
        self.driver: Driver[bytes] = Driver(
            self.disk, HostClock(), HostRandom(), config, self.listener, bytes
        )

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
        while not self.listener.batches or self.listener.batches[-1].last_offset < offset:
            await asyncio.sleep(0)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def test_committed_records_survive_a_restart_which_starts_a_new_epoch(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as node:
            assert await node.append(b"a", b"b") == 2  # at offset 0 is the LeaderChange record
            await node.append(b"c")
            assert node.listener.records == [b"a", b"b", b"c"]
            assert (node.listener.led, node.driver.log.high_watermark) == ([1], 4)
        async with Node(tmp_path) as node:
            assert node.listener.records == [b"a", b"b", b"c"]
            assert node.listener.led == [2]
            assert node.driver.next_offset == 5

    run(test)


def test_committed_records_survive_without_a_clean_stop(tmp_path: Path) -> None:
    async def test() -> None:
        node = Node(tmp_path)
        await node.driver.start()
        await node.append(b"a")
        for task in node.driver._tasks:
            task.cancel()
        async with Node(tmp_path) as again:
            assert again.listener.records == [b"a"]

    run(test)


def test_appends_share_flushes(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as node:
            before = node.disk.syncs
            last = [node.driver.append([b"%d" % n], [b"%d" % n]) for n in range(500)][-1]
            await node.committed(last)
            assert len(node.listener.records) == 500
            assert node.disk.syncs - before <= 6

    run(test)


def test_after_a_failed_flush_nothing_is_committed_or_appended(tmp_path: Path) -> None:
    async def test() -> None:
        node = Node(tmp_path)
        await node.driver.start()
        await node.append(b"kept")
        node.disk.is_broken = True
        node.driver.append([b"lost"], [b"lost"])
        with pytest.raises(KafkaStorageError, match=r"Cannot read or write .*the disk is broken"):
            await node.driver.failure
        assert node.listener.records == [b"kept"]
        assert not node.driver.is_leader
        with pytest.raises(KafkaStorageError):
            node.driver.append([b"more"], [b"more"])
        await node.driver.stop()

    run(test)


def test_an_exception_of_the_listener_fails_the_driver(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as node:

            def refuse(batches: object) -> None:
                raise ValueError("contradiction")

            node.listener.commit = refuse  # type: ignore[method-assign]
            node.driver.append([b"x"], [b"x"])
            with pytest.raises(KafkaStorageError, match="Failed to apply committed metadata: contradiction"):
                await node.driver.failure

    run(test)


def test_only_the_first_failure_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        node = Node(tmp_path)
        await node.driver.start()
        node.driver.fail(OSError(errno.EIO, "the disk is broken"))
        node.driver.fail(KafkaStorageError("The metadata log failed; this node is shutting down."))
        with pytest.raises(KafkaStorageError, match="the disk is broken"):
            await node.driver.failure
        await node.driver.stop()

    run(test)
    logged = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert len(logged) == 1
    assert logged[0].exc_info is None


def test_a_batch_that_is_too_large_changes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path, batch_bytes_max=1000) as node:
            before = node.driver.next_offset
            with pytest.raises(RecordListTooLarge):
                node.driver.append([b"x" * 2000], [b""])
            assert node.driver.next_offset == before

    run(test)


class TestSnapshots:
    def test_a_start_loads_the_newest_snapshot_and_only_the_records_after_it(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path) as node:
                offset = await node.append(b"a")
                await node.driver.write_snapshot(SnapshotId(offset + 1, 1), [b"state"], 5)
                await node.append(b"b")
                with pytest.raises(ValueError, match="ahead of the high watermark"):
                    await node.driver.write_snapshot(SnapshotId(99, 1), [], 5)
            async with Node(tmp_path) as node:
                assert node.listener.snapshot == (SnapshotId(offset + 1, 1), [b"state"])
                assert node.listener.records == [b"b"]

        run(test)

    def test_retention_deletes_old_snapshots_and_the_log_before_them(self, tmp_path: Path) -> None:
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
                assert node.listener.snapshot == (SnapshotId(4, 1), [b"2"])
                assert node.listener.records == []

        run(test)

    def test_a_damaged_snapshot_is_renamed_if_the_log_has_its_records(self, tmp_path: Path) -> None:
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
                    assert node.listener.snapshot == snapshot
                    assert node.listener.records == records
                assert path.with_suffix(".checkpoint.damaged").read_bytes() == damaged
                assert not path.exists()

        run(test)

    def test_a_damaged_snapshot_stops_the_start_if_the_log_lacks_its_records(self, tmp_path: Path) -> None:
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
            with pytest.raises(SnapshotDamaged, match=r"truncated.* Restore the file"):
                await Node(tmp_path).driver.start()
            assert path.exists()

        run(test)

    def test_a_log_that_does_not_start_at_offset_0_needs_a_snapshot(self, tmp_path: Path) -> None:
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

    def test_a_snapshot_that_is_ahead_of_the_log_replaces_it(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path) as node:
                await node.append(b"a")
            ahead = SnapshotId(50, 3)
            content = b"".join(build([b"new"], epoch=3, now_ms=1, last_contained_ms=1))
            (tmp_path / DIRECTORY_NAME / ahead.file_name).write_bytes(content)
            async with Node(tmp_path) as node:
                assert node.listener.snapshot == (ahead, [b"new"])
                assert (node.listener.records, node.listener.led) == ([], [4])
                assert node.driver.log.log_start_offset == 50

        run(test)

    def test_a_start_deletes_a_snapshot_that_was_not_finished(self, tmp_path: Path) -> None:
        async def test() -> None:
            directory = tmp_path / DIRECTORY_NAME
            directory.mkdir()
            (directory / "00000000000000000007-0000000001.checkpoint.part").write_bytes(b"half")
            async with Node(tmp_path) as node:
                assert node.driver.latest_snapshot is None
            assert not list(directory.glob("*.part"))

        run(test)


class TestVoters:
    def test_a_dynamic_quorum_has_its_voters_in_the_log_and_in_snapshots(self, tmp_path: Path) -> None:
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
                assert offset == 3  # after the leader, kraft.version and the voters
                await node.driver.write_snapshot(SnapshotId(offset + 1, 1), [b"a"], 5)
            assert b'"data_version":1' in (directory / election_state.FILE_NAME).read_bytes()
            async with Node(tmp_path, static_voters=VoterSet()) as node:
                assert node.driver.replica.voters.last == VoterSet([LOCAL])
                assert node.driver.replica.kraft_version.last == 1
                assert node.driver.next_offset == 5  # nothing has changed, so only the leader was appended

        run(test)

    def test_a_static_quorum_becomes_dynamic(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with Node(tmp_path) as node:
                node.driver.upgrade_kraft_version(1)
                await node.append(b"a")
            async with Node(tmp_path, static_voters=VoterSet()) as node:
                assert node.driver.replica.voters.last == VoterSet([LOCAL])
                assert node.listener.records == [b"a"]

        run(test)

    def test_a_quorum_without_voters_does_not_start_unless_bootstrap_servers_may_know_them(
        self, tmp_path: Path
    ) -> None:
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
