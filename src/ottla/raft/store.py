"""The files next to the log in `__cluster_metadata-0`: the quorum-state file and the snapshots.

Everything here blocks, so the driver calls it on threads. A snapshot is written under another name, flushed,
and only then renamed: a file whose name ends in .checkpoint is complete.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from ottla.ports import Buffer, Disk, File
from ottla.raft import election_state, snapshots
from ottla.raft.election_state import ElectionState
from ottla.raft.retention import StoredSnapshot
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
    """A snapshot of the leader, fetched piece by piece."""

    def __init__(self, snapshot_id: SnapshotId, file: File) -> None:
        self.snapshot_id = snapshot_id
        self.file = file
        self.size_bytes = 0

    def append(self, piece: Buffer) -> None:
        self.size_bytes += self.file.pwrite([piece], self.size_bytes)

    def give_up(self) -> None:
        """Close the partial file, which the next download or start removes."""
        self.file.close()


class DamagedSnapshot(NamedTuple):
    id: SnapshotId
    error: SnapshotDamaged


class Store:
    """The snapshots and the quorum-state file of one metadata log directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.directory = directory
        self.kept: list[StoredSnapshot] = []  # in the order of the log

    @property
    def latest(self) -> SnapshotId | None:
        return self.kept[-1].id if self.kept else None

    def load(self) -> None:
        """List the snapshots. Remove those that an earlier run did not finish or was going to delete."""
        self.kept = []
        for name in self._disk.list(self.directory):
            parsed = snapshots.parse_name(name)
            if parsed is None:
                continue
            snapshot_id, suffix = parsed
            path = f"{self.directory}/{name}"
            if suffix == SUFFIX:
                modified_ms = self._disk.modified_ms(path)
                self.kept.append(StoredSnapshot(snapshot_id, self._disk.size(path), modified_ms))
            else:
                logger.info("Deleting %s, which an earlier run left behind.", path)
                self._disk.remove(path)
        self.kept.sort()

    def remove_before(self, start_offset: int) -> None:
        """Remove snapshots that end before the start of the log: the log does not continue them."""
        for snapshot in [kept for kept in self.kept if kept.id.offset < start_offset]:
            self.kept.remove(snapshot)
            self._disk.remove(self._path(snapshot.id, SUFFIX))

    # The election

    def read_election(self) -> ElectionState:
        """The last election that was written; epoch 0 without a vote for a new directory."""
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

    def newest_valid(self) -> tuple[Snapshot | None, list[DamagedSnapshot]]:
        """The newest snapshot that is valid, and the damaged ones after it, in the order of the log."""
        damaged: list[DamagedSnapshot] = []
        for kept in reversed(self.kept):
            try:
                return self.read_snapshot(kept.id), damaged[::-1]
            except SnapshotDamaged as error:
                damaged.append(DamagedSnapshot(kept.id, error))
        return None, damaged[::-1]

    def rename_damaged(self, damaged: Iterable[DamagedSnapshot]) -> None:
        """Keep damaged snapshots for inspection, under a name that nothing reads."""
        for snapshot_id, _ in damaged:
            self.kept = [kept for kept in self.kept if kept.id != snapshot_id]
            self._disk.rename(self._path(snapshot_id, SUFFIX), self._path(snapshot_id, DAMAGED_SUFFIX))
        self._disk.sync_directory(self.directory)

    def read_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        path = self._path(snapshot_id, SUFFIX)
        return snapshots.read(self._disk.read(path), path)

    def write_snapshot(
        self, snapshot_id: SnapshotId, batches: Iterable[Buffer], last_contained_ms: int
    ) -> StoredSnapshot:
        """Write a complete snapshot. It is not used before `add`."""
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
        return StoredSnapshot(snapshot_id, position, last_contained_ms)

    def begin_download(self, snapshot_id: SnapshotId) -> Download:
        partial = self._path(snapshot_id, PARTIAL_SUFFIX)
        self._disk.remove(partial)
        return Download(snapshot_id, self._disk.open(partial, create=True))

    def finish_download(self, download: Download) -> tuple[Snapshot, StoredSnapshot]:
        """Check a complete snapshot and rename it. If it is damaged, remove it and raise SnapshotDamaged."""
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
        return snapshot, StoredSnapshot(
            download.snapshot_id, download.size_bytes, snapshot.last_contained_ms or 0
        )

    def read_piece(self, snapshot_id: SnapshotId, position: int, count: int) -> bytes:
        """A part of the file of a snapshot."""
        file = self._disk.open(self._path(snapshot_id, SUFFIX))
        try:
            return file.pread(count, position)
        finally:
            file.close()

    def add(self, snapshot: StoredSnapshot) -> None:
        if snapshot.id not in [kept.id for kept in self.kept]:
            self.kept.append(snapshot)
            self.kept.sort()

    def withdraw(self, snapshot: StoredSnapshot) -> None:
        """Undo `add`. The file remains, and the next start uses it."""
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
