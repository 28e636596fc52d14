"""The files beside the log in `__cluster_metadata-0`: the quorum-state file and the snapshots.

Everything here blocks: the driver calls it off its loop. A snapshot is written under another name, made
durable, and only then renamed: a name that ends in .checkpoint is always whole.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from ottla.ports import Buffer, Disk, File
from ottla.raft import election_state, snapshots
from ottla.raft.election_state import ElectionState
from ottla.raft.retention import Kept
from ottla.raft.snapshots import (
    DAMAGED_SUFFIX,
    DELETED_SUFFIX,
    PARTIAL_SUFFIX,
    SUFFIX,
    Snapshot,
    SnapshotDamaged,
    SnapshotId,
)
from ottla.raft.voters import VoterSet

logger = logging.getLogger("ottla.raft.store")


class Download:
    """A snapshot that comes from the leader piece by piece."""

    def __init__(self, snapshot_id: SnapshotId, file: File) -> None:
        self.snapshot_id = snapshot_id
        self.file = file
        self.size_bytes = 0

    def append(self, piece: Buffer) -> None:
        self.size_bytes += self.file.pwrite([piece], self.size_bytes)

    def give_up(self) -> None:
        """What came so far stays under its partial name, which the next download or start removes."""
        self.file.close()


class DamagedSnapshot(NamedTuple):
    id: SnapshotId
    error: SnapshotDamaged


class Store:
    """One metadata log directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.directory = directory
        self.kept: list[Kept] = []  # in the order of the log

    @property
    def latest(self) -> SnapshotId | None:
        return self.kept[-1].id if self.kept else None

    def load(self) -> None:
        """See what is there; what an earlier run left half done or to be deleted goes."""
        self.kept = []
        for name in self._disk.list(self.directory):
            parsed = snapshots.parse_name(name)
            if parsed is None:
                continue
            snapshot_id, suffix = parsed
            path = f"{self.directory}/{name}"
            if suffix == SUFFIX:
                modified_ms = self._disk.modified_ms(path)
                self.kept.append(Kept(snapshot_id, self._disk.size(path), modified_ms))
            else:
                logger.info("Deleting %s, which an earlier run left behind.", path)
                self._disk.remove(path)
        self.kept.sort()

    def drop_before(self, start_offset: int) -> None:
        """Forget and remove snapshots of before the log's start: they lead nowhere."""
        for snapshot in [kept for kept in self.kept if kept.id.offset < start_offset]:
            self.kept.remove(snapshot)
            self._disk.remove(self._path(snapshot.id, SUFFIX))

    # The election

    def read_election(self) -> ElectionState:
        """What was written last; epoch 0 and nobody for a new directory."""
        path = f"{self.directory}/{election_state.FILE_NAME}"
        try:
            content = self._disk.read(path)
        except FileNotFoundError:
            return ElectionState()
        return election_state.from_json(content, path)

    def write_election(self, state: ElectionState, kraft_version: int, voters: VoterSet) -> None:
        content = election_state.to_json(state, kraft_version, voters.ids)
        self._disk.replace(f"{self.directory}/{election_state.FILE_NAME}", content, sync=True)

    # Snapshots

    def newest_sound(self) -> tuple[Snapshot | None, list[DamagedSnapshot]]:
        """The newest snapshot that can be read, and the newer ones that cannot, in the order of the log."""
        damaged: list[DamagedSnapshot] = []
        for kept in reversed(self.kept):
            try:
                return self.read_snapshot(kept.id), damaged[::-1]
            except SnapshotDamaged as error:
                damaged.append(DamagedSnapshot(kept.id, error))
        return None, damaged[::-1]

    def set_aside(self, damaged: Iterable[DamagedSnapshot]) -> None:
        """Keep damaged snapshots for a person to look at, under a name that nothing reads."""
        for snapshot_id, _ in damaged:
            self.kept = [kept for kept in self.kept if kept.id != snapshot_id]
            self._disk.rename(self._path(snapshot_id, SUFFIX), self._path(snapshot_id, DAMAGED_SUFFIX))
        self._disk.sync_directory(self.directory)

    def read_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        path = self._path(snapshot_id, SUFFIX)
        return snapshots.read(self._disk.read(path), path)

    def write_snapshot(
        self, snapshot_id: SnapshotId, batches: Iterable[Buffer], last_contained_ms: int
    ) -> Kept:
        """Write a whole snapshot; it counts only once `add` was told of it."""
        partial = self._path(snapshot_id, PARTIAL_SUFFIX)
        self._disk.remove(partial)
        file = self._disk.open(partial, create=True)
        try:
            position = 0
            for batch in batches:
                position += file.pwrite([batch], position)
            file.fsync()
        finally:
            file.close()
        self._disk.rename(partial, self._path(snapshot_id, SUFFIX))
        self._disk.sync_directory(self.directory)
        return Kept(snapshot_id, position, last_contained_ms)

    def begin_download(self, snapshot_id: SnapshotId) -> Download:
        partial = self._path(snapshot_id, PARTIAL_SUFFIX)
        self._disk.remove(partial)
        return Download(snapshot_id, self._disk.open(partial, create=True))

    def finish_download(self, download: Download) -> tuple[Snapshot, Kept]:
        """Check and keep a whole snapshot; SnapshotDamaged, and it is removed, where it is not sound."""
        partial = self._path(download.snapshot_id, PARTIAL_SUFFIX)
        try:
            download.file.fsync()
        finally:
            download.file.close()
        try:
            snapshot = snapshots.read(self._disk.read(partial), partial)
        except SnapshotDamaged:
            self._disk.remove(partial)
            raise
        self._disk.rename(partial, self._path(download.snapshot_id, SUFFIX))
        self._disk.sync_directory(self.directory)
        return snapshot, Kept(download.snapshot_id, download.size_bytes, snapshot.last_contained_ms or 0)

    def read_piece(self, snapshot_id: SnapshotId, position: int, count: int) -> bytes:
        """Part of a snapshot's file."""
        file = self._disk.open(self._path(snapshot_id, SUFFIX))
        try:
            return file.pread(count, position)
        finally:
            file.close()

    def add(self, snapshot: Kept) -> None:
        if snapshot.id not in [kept.id for kept in self.kept]:
            self.kept.append(snapshot)
            self.kept.sort()

    def withdraw(self, snapshot: Kept) -> None:
        """Undo `add`. The file stays: a start that finds it begins with it."""
        self.kept = [kept for kept in self.kept if kept is not snapshot]

    def retire_before(self, start: SnapshotId) -> None:
        """Mark the snapshots before `start` for deletion; `remove_retired` deletes them."""
        for snapshot in [kept for kept in self.kept if kept.id < start]:
            self.kept.remove(snapshot)
            self._disk.rename(self._path(snapshot.id, SUFFIX), self._path(snapshot.id, DELETED_SUFFIX))

    def remove_retired(self) -> None:
        for name in self._disk.list(self.directory):
            if name.endswith(DELETED_SUFFIX):
                self._disk.remove(f"{self.directory}/{name}")

    def _path(self, snapshot_id: SnapshotId, suffix: str) -> str:
        return f"{self.directory}/{snapshot_id.file_name.removesuffix(SUFFIX)}{suffix}"
