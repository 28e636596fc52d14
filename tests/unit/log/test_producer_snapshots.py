"""Snapshot files: taken, restored, skipped, removed."""

from __future__ import annotations

from pathlib import Path

from tests.unit.log.support import START_MS

from ottla.host import HostDisk
from ottla.log.producer_snapshots import Snapshots
from ottla.log.producer_state import ProducerEntry, ProducerStates


def states_at(offset: int, *producer_ids: int) -> ProducerStates:
    states = ProducerStates("t-0", expiration_ms=86_400_000)
    states.restore(
        [ProducerEntry(p, epoch=0, last_timestamp=START_MS) for p in producer_ids], offset, START_MS
    )
    return states


def snapshots_of(path: Path, *offsets: int) -> Snapshots:
    """One snapshot at each offset, with the offset as its only producer."""
    snapshots = Snapshots(HostDisk(threads=1), str(path), ())
    for offset in offsets:
        snapshots.take(states_at(offset, offset))
    return snapshots


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_a_snapshot_of_one_offset_is_written_once(tmp_path: Path) -> None:
    snapshots = snapshots_of(tmp_path, 5, 5, 3)
    assert names(tmp_path) == ["00000000000000000005.snapshot"]
    assert snapshots.latest_offset == 5
    assert len(snapshots.unsynced) == 1


def test_the_newest_snapshot_in_range_is_restored_and_the_others_are_removed(tmp_path: Path) -> None:
    snapshots = snapshots_of(tmp_path, 5, 10, 20)
    states = states_at(0)
    snapshots.restore(states, 6, 15, START_MS)
    assert states.end_offset == 10
    assert set(states.entries) == {10}
    assert snapshots.offsets == [10]
    assert names(tmp_path) == ["00000000000000000010.snapshot"]


def test_damaged_and_missing_snapshots_are_skipped(tmp_path: Path) -> None:
    snapshots = snapshots_of(tmp_path, 5, 10, 20)
    Path(snapshots.path_of(20)).write_bytes(b"garbage")
    Path(snapshots.path_of(10)).unlink()
    states = states_at(0)
    snapshots.restore(states, 0, 30, START_MS)
    assert (states.end_offset, set(states.entries)) == (5, {5})
    Path(snapshots.path_of(5)).write_bytes(b"")
    snapshots.restore(states, 2, 30, START_MS)
    assert (states.end_offset, states.entries) == (2, {})


def test_stray_snapshots_are_removed_except_one_beyond_all_segments(tmp_path: Path) -> None:
    snapshots = snapshots_of(tmp_path, 3, 5, 8, 10, 12, 15)
    snapshots.remove_strays([0, 5, 10])
    assert snapshots.offsets == [5, 10, 15]
    snapshots = Snapshots(HostDisk(threads=1), str(tmp_path), [5, 8])
    snapshots.remove_strays([0, 10])
    assert snapshots.offsets == []


def test_a_snapshot_is_renamed_for_deletion(tmp_path: Path) -> None:
    snapshots = snapshots_of(tmp_path, 5)
    path = snapshots.mark_deleted(5)
    assert path is not None
    assert names(tmp_path) == ["00000000000000000005.snapshot.deleted"]
    assert snapshots.mark_deleted(5) is None
