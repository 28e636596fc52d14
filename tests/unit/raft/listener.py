"""A listener of a driver that records what it is given."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.raft.driver import CommittedBatch
from ottla.raft.snapshots import SnapshotId


class RecordingListener:
    def __init__(self) -> None:
        self.snapshot: tuple[SnapshotId, list[bytes]] | None = None
        self.batches: list[CommittedBatch[bytes]] = []
        self.led: list[int] = []
        self.resigned: list[int] = []

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[bytes]) -> None:
        self.snapshot = snapshot_id, list(records)
        self.batches = []

    def commit(self, batches: Sequence[CommittedBatch[bytes]]) -> None:
        self.batches += batches

    def lead(self, epoch: int) -> None:
        self.led.append(epoch)

    def resign(self, epoch: int) -> None:
        assert epoch == self.led[-1]
        self.resigned.append(epoch)

    @property
    def records(self) -> list[bytes]:
        """The records since the snapshot."""
        return [record for batch in self.batches for record in batch.records]
