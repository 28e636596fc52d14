"""The driver of an observer: it appends, delivers, truncates, and adopts snapshots."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.unit.raft.listener import RecordingListener

from ottla.host import HostClock, HostDisk, HostRandom
from ottla.log.files import LogFiles
from ottla.log.producer_snapshots import Snapshots
from ottla.log.segment import Segment
from ottla.raft.disk_reserve import BLOCK_BYTES
from ottla.raft.driver import (
    DivergedBelowCommit,
    Driver,
    DriverConfig,
    UnsupportedQuorum,
)
from ottla.raft.metadata_log import EpochEnd
from ottla.raft.snapshots import SnapshotDamaged, SnapshotId, build
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.records.record import Record, build_batch

OBSERVER = Voter(ReplicaKey(7, b"7" * 16))
LEADER = Voter(ReplicaKey(1, b"1" * 16), (VoterEndpoint("CONTROLLER", "localhost", 9093),))


class Observer:
    """One run of an observer on a directory."""

    def __init__(
        self,
        directory: Path,
        *,
        voters: VoterSet | None = None,
        local: Voter = OBSERVER,
        reserve_bytes: int = 0,
        retention_bytes: int = 100 * 1024 * 1024,
    ) -> None:
        self.disk = HostDisk()
        self.listener = RecordingListener()
        config = DriverConfig(
            directory=str(directory),
            local=local,
            static_voters=VoterSet([LEADER]) if voters is None else voters,
            reserve_bytes=reserve_bytes,
            retention_bytes=retention_bytes,
            is_observer=True,
        )
        self.driver: Driver[bytes] = Driver(
            self.disk, HostClock(), HostRandom(), config, self.listener, bytes
        )

    async def __aenter__(self) -> Observer:
        await self.driver.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.listener.led == [], "an observer never leads"
        await self.driver.stop()
        self.disk.close()

    @property
    def end(self) -> EpochEnd:
        return self.driver.journal.end


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def batch(offset: int, epoch: int, *values: bytes) -> bytearray:
    records = [Record(offset + index, 1000, None, value) for index, value in enumerate(values)]
    return build_batch(records, base_offset=offset, leader_epoch=epoch)


def test_fetched_records_are_delivered_once_they_are_committed(tmp_path: Path) -> None:
    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver, listener = observer.driver, observer.listener
            await driver.follow(1, 2)
            await driver.take_fetched(batch(0, 2, b"a", b"b") + batch(2, 2, b"c"), -1)
            assert listener.records == []
            await driver.take_fetched(b"", 2)
            assert listener.records == [b"a", b"b"]
            await driver.take_fetched(batch(3, 2, b"d"), 4)
            assert listener.records == [b"a", b"b", b"c", b"d"]
            assert observer.end == EpochEnd(2, 4)

    run(test)


def test_an_incomplete_batch_is_not_appended(tmp_path: Path) -> None:
    async def test() -> None:
        async with Observer(tmp_path) as observer:
            await observer.driver.follow(1, 2)
            whole, part = batch(0, 2, b"a"), batch(1, 2, b"b")[:-3]
            await observer.driver.take_fetched(whole + part, 2)
            assert observer.end == EpochEnd(2, 1)
            assert observer.listener.records == [b"a"]

    run(test)


def test_a_restart_continues_where_the_last_run_ended(tmp_path: Path) -> None:
    async def test() -> None:
        async with Observer(tmp_path) as observer:
            await observer.driver.follow(1, 2)
            await observer.driver.take_fetched(batch(0, 2, b"a") + batch(1, 2, b"b"), 1)
        async with Observer(tmp_path) as observer:
            driver = observer.driver
            assert observer.end == EpochEnd(2, 2)
            assert (driver.replica.leader_id, driver.replica.epoch) == (1, 2)
            assert observer.listener.records == []
            await driver.take_fetched(batch(2, 2, b"c"), 2)
            assert observer.listener.records == [b"a", b"b"]
            await driver.take_fetched(b"", 3)
            assert observer.listener.records == [b"a", b"b", b"c"]

    run(test)


def test_records_that_the_leader_lacks_are_truncated_and_never_delivered(tmp_path: Path) -> None:
    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver, listener = observer.driver, observer.listener
            await driver.follow(1, 2)
            await driver.take_fetched(batch(0, 2, b"a") + batch(1, 2, b"lost"), 1)
            await driver.follow(1, 3)
            await driver.truncate(EpochEnd(2, 1), 1, 3)
            assert observer.end == EpochEnd(2, 1)
            await driver.take_fetched(batch(1, 3, b"b"), 2)
            assert listener.records == [b"a", b"b"]

    run(test)


@pytest.mark.parametrize(("part", "method"), [(Segment, "truncate_to"), (Snapshots, "restore")])
def test_a_truncation_that_failed_halfway_is_completed_before_the_next_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: type, method: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver, listener = observer.driver, observer.listener
            await driver.follow(1, 3)
            await driver.take_fetched(batch(0, 2, b"a") + batch(1, 3, b"lost"), 1)
            await driver.follow(1, 4)
            with monkeypatch.context() as patch:
                patch.setattr(part, method, refuse)
                with pytest.raises(OSError, match="Too many open files") as caught:
                    await driver.truncate(EpochEnd(2, 1), 1, 4)
                assert driver.is_passing(caught.value)
                assert observer.end == EpochEnd(2, 1)
            await driver.take_fetched(batch(1, 4, b"b"), 2)
            assert listener.records == [b"a", b"b"]
            assert not driver.log.is_truncation_unfinished

    run(test)


def test_a_snapshot_that_replaced_the_log_halfway_fails_the_driver_and_a_restart_repairs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the log would continue after a snapshot that nothing has loaded."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver = observer.driver
            await driver.follow(1, 4)
            await driver.take_fetched(batch(0, 4, b"a"), 1)
            download = driver.begin_download(SnapshotId(100, 4))
            download.append(
                b"".join(build([b"x"], epoch=4, now_ms=9, last_contained_ms=8, kraft_version=0, voters=None))
            )
            with monkeypatch.context() as patch:
                patch.setattr(LogFiles, "substitute", refuse)
                with pytest.raises(OSError, match="No space left") as caught:
                    await driver.adopt_snapshot(download, 1, 4)
            assert not driver.is_passing(caught.value)
            driver.fail(caught.value)
        async with Observer(tmp_path) as again:
            assert again.listener.snapshot == (SnapshotId(100, 4), [b"x"])
            assert again.end == EpochEnd(4, 100)

    run(test)


def test_an_append_that_fails_on_a_full_disk_adds_no_leader_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver = observer.driver
            await driver.follow(1, 6)
            await driver.take_fetched(batch(0, 4, b"a"), 1)
            with monkeypatch.context() as patch:
                patch.setattr(Segment, "append_batches", refuse)
                with pytest.raises(OSError, match="No space left"):
                    await driver.take_fetched(batch(1, 5, b"b", b"c") + batch(3, 6, b"d"), 1)
            assert observer.end == EpochEnd(4, 1)
            await driver.follow(2, 7)
            await driver.truncate(EpochEnd(5, 2), 2, 7)
            assert (observer.end, driver.next_offset) == (EpochEnd(4, 1), 1)

    run(test)


def test_a_leader_that_lost_committed_records_is_not_followed(tmp_path: Path) -> None:
    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver = observer.driver
            await driver.follow(1, 2)
            await driver.take_fetched(batch(0, 2, b"a") + batch(1, 2, b"b"), 2)
            with pytest.raises(DivergedBelowCommit, match="reformat this node"):
                await driver.truncate(EpochEnd(2, 1), 1, 2)

    run(test)


async def with_snapshots(directory: Path) -> None:
    """Snapshots of about 1,200 bytes at the offsets 1, 2 and 3, which is the end of the log."""
    async with Observer(directory) as observer:
        driver = observer.driver
        await driver.follow(1, 2)
        for offset in range(3):
            await driver.take_fetched(batch(offset, 2, b"a"), offset + 1)
            await driver.write_snapshot(SnapshotId(offset + 1, 2), [b"x" * 1000], 5)


def test_old_snapshots_are_deleted_after_a_restart_before_a_leader_is_known(tmp_path: Path) -> None:
    async def test() -> None:
        await with_snapshots(tmp_path)
        async with Observer(tmp_path, retention_bytes=2000) as observer:
            await observer.driver.clean()
            assert [kept.id.offset for kept in observer.driver.journal.store.kept] == [3]
            assert observer.driver.log.log_start_offset == 3

    run(test)


def test_a_leader_that_lost_records_of_a_snapshot_is_not_followed_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        await with_snapshots(tmp_path)
        async with Observer(tmp_path) as observer:
            await observer.driver.follow(1, 3)
            with pytest.raises(DivergedBelowCommit):
                await observer.driver.truncate(EpochEnd(2, 1), 1, 3)
            assert observer.end == EpochEnd(2, 3)

    run(test)


def test_a_newer_snapshot_replaces_the_log(tmp_path: Path) -> None:
    snapshot_id = SnapshotId(100, 4)
    content = b"".join(
        build(
            [b"x", b"y"], epoch=4, now_ms=9, last_contained_ms=8, kraft_version=1, voters=VoterSet([LEADER])
        )
    )

    async def test() -> None:
        async with Observer(tmp_path, voters=VoterSet()) as observer:
            driver, listener = observer.driver, observer.listener
            await driver.follow(1, 5)
            await driver.take_fetched(batch(0, 2, b"old"), 1)
            download = driver.begin_download(snapshot_id)
            download.append(content[:50])
            download.append(content[50:])
            await driver.adopt_snapshot(download, 1, 5)
            assert listener.snapshot == (snapshot_id, [b"x", b"y"])
            assert observer.end == EpochEnd(4, 100)
            assert driver.replica.kraft_version.last == 1
            assert driver.replica.voters.last.ids == [1]
            await driver.take_fetched(batch(100, 5, b"z"), 101)
            assert listener.records == [b"z"]
        async with Observer(tmp_path, voters=VoterSet()) as observer:
            assert observer.end == EpochEnd(5, 101)
            assert observer.driver.replica.voters.last.ids == [1]
            await observer.driver.take_fetched(b"", 101)
            assert observer.listener.snapshot == (snapshot_id, [b"x", b"y"])
            assert observer.listener.records == [b"z"]

    run(test)


def fill_disk(monkeypatch: pytest.MonkeyPatch, has_room: Callable[[], bool]) -> None:
    """No segment can be created until there is room."""
    create = Segment.create

    def create_if_room(*arguments: Any, **named: Any) -> Segment:
        if not has_room():
            raise OSError(errno.ENOSPC, "No space left on device")
        return create(*arguments, **named)

    monkeypatch.setattr(Segment, "create", create_if_room)


def test_a_snapshot_that_failed_on_a_full_disk_is_adopted_once_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot_id = SnapshotId(100, 4)
    content = b"".join(build([b"x"], epoch=4, now_ms=9, last_contained_ms=8))

    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver = observer.driver
            await driver.follow(1, 5)
            await driver.take_fetched(batch(0, 2, b"old"), 1)
            has_room = False
            fill_disk(monkeypatch, lambda: has_room)
            for has_room in (False, True):
                download = driver.begin_download(snapshot_id)
                download.append(content)
                if has_room:
                    await driver.adopt_snapshot(download, 1, 5)
                else:
                    with pytest.raises(OSError, match="No space left"):
                        await driver.adopt_snapshot(download, 1, 5)
                    assert (driver.latest_snapshot, observer.end) == (None, EpochEnd(2, 1))
            assert observer.listener.snapshot == (snapshot_id, [b"x"])
            assert (driver.latest_snapshot, observer.end) == (snapshot_id, EpochEnd(4, 100))

    run(test)


def test_a_snapshot_is_adopted_with_blocks_of_the_reserve_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with Observer(tmp_path, reserve_bytes=2 * BLOCK_BYTES) as observer:
            driver = observer.driver
            await driver.follow(1, 5)
            fill_disk(monkeypatch, lambda: not driver._reserve.is_whole)
            download = driver.begin_download(SnapshotId(100, 4))
            download.append(b"".join(build([b"x"], epoch=4, now_ms=9, last_contained_ms=8)))
            await driver.adopt_snapshot(download, 1, 5)
            assert observer.end == EpochEnd(4, 100)
            assert driver._reserve.remaining_bytes == BLOCK_BYTES

    run(test)


def test_an_observer_with_a_damaged_snapshot_fetches_everything_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver = observer.driver
            await driver.follow(1, 2)
            download = driver.begin_download(SnapshotId(7, 2))
            for piece in build([b"state"], epoch=2, now_ms=5, last_contained_ms=5):
                download.append(piece)
            await driver.adopt_snapshot(download, 1, 2)
            await driver.take_fetched(batch(7, 2, b"h"), 8)
        path = f"{observer.driver.journal.store.directory}/{SnapshotId(7, 2).file_name}"
        observer.disk.replace(path, observer.disk.read(path)[:-3], sync=False)
        async with Observer(tmp_path) as observer:
            driver, listener = observer.driver, observer.listener
            assert (observer.end.end_offset, listener.snapshot, listener.records) == (0, None, [])
            assert driver.latest_snapshot is None
            await driver.follow(1, 3)
            await driver.take_fetched(batch(0, 2, b"a"), 1)
            assert listener.records == [b"a"]

    run(test)


def test_a_damaged_snapshot_of_the_leader_is_not_adopted(tmp_path: Path) -> None:
    content = b"".join(build([b"x"], epoch=4, now_ms=9, last_contained_ms=8))

    async def test() -> None:
        async with Observer(tmp_path) as observer:
            driver = observer.driver
            await driver.follow(1, 2)
            await driver.take_fetched(batch(0, 2, b"kept"), 1)
            download = driver.begin_download(SnapshotId(100, 4))
            download.append(content[:-5] + b"other")
            with pytest.raises(SnapshotDamaged):
                await driver.adopt_snapshot(download, 1, 2)
            assert observer.end == EpochEnd(2, 1)
            assert driver.latest_snapshot is None

    run(test)


def test_a_voter_cannot_run_as_an_observer(tmp_path: Path) -> None:
    async def test() -> None:
        observer = Observer(tmp_path, local=LEADER)
        with pytest.raises(UnsupportedQuorum):
            await observer.driver.start()
        await observer.driver.stop()
        observer.disk.close()

    run(test)
