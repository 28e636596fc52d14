"""The metadata log of one node on disk: `__cluster_metadata-0` with its snapshots and the quorum-state file.

Voters and observers have the same files. The log never starts after the end of its newest snapshot, so
snapshot and log together always contain all records. Methods that block say so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.log.config import LogConfig
from ottla.log.directories.properties import PARTITION_METADATA, format_partition_metadata
from ottla.log.log import Log
from ottla.log.segment import LogDamaged
from ottla.ports import PASSING, Buffer, Clock, Disk
from ottla.raft.control_records import read_control
from ottla.raft.events import VoterEvent
from ottla.raft.snapshots import Snapshot, SnapshotDamaged, SnapshotId
from ottla.raft.store import DamagedSnapshot, Store
from ottla.records.batch import BatchHeader, check_crc, iterate_headers
from ottla.records.record import read_batch
from ottla.wire import uuid
from ottla.wire.errors import CorruptMessage

logger = logging.getLogger("ottla.raft.metadata_log")

TOPIC = "__cluster_metadata"
DIRECTORY_NAME = f"{TOPIC}-0"
_READ_BYTES = 4 * 1024 * 1024
_MAGIC = 2

_T = TypeVar("_T")


class MissingSnapshot(RuntimeError):
    """Neither the log nor a snapshot has the records at some offset."""


class EpochEnd(NamedTuple):
    """An epoch, and the offset after its last record."""

    epoch: int
    end_offset: int


class CommittedBatch(NamedTuple, Generic[_T]):
    """A committed batch; `records` is empty for control records."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    size_bytes: int
    records: Sequence[_T]


class Journal:
    """The files of one metadata log. `open` first."""

    def __init__(self, disk: Disk, clock: Clock, directory: str, log_config: LogConfig) -> None:
        self._disk = disk
        self._clock = clock
        self._log_config = log_config
        self.directory = directory
        self.store = Store(disk, f"{directory}/{DIRECTORY_NAME}")
        self._log: Log | None = None
        self._snapshot: Snapshot | None = None  # the newest, from `open` until `read_all` returns it

    # Life

    def open(self, *, can_refetch: bool = False) -> None:
        """Open the log and the snapshots, and make them consistent. Blocks.

        `can_refetch`: what cannot be repaired is fetched from the quorum again. Only a replica that never
        acknowledges records may do so.
        """
        store = self.store
        self._disk.make_directory(store.directory)
        # Even if it existed: a process that created it may have died before this. Without the directory's
        # entry, votes and records in it are lost.
        self._disk.sync_directory(store.directory.rpartition("/")[0])
        store.load()
        self._snapshot, damaged = store.newest_valid()
        base = store.kept[-1 - len(damaged)].id.offset if self._snapshot is not None else 0
        # What a snapshot covers is committed, even if the snapshot itself is damaged.
        committed = base if can_refetch or not damaged else damaged[-1].id.offset
        log = Log.open(
            self._disk,
            self._clock,
            store.directory,
            self._log_config,
            topic=TOPIC,
            partition=0,
            topic_id=uuid.METADATA_TOPIC_ID,
            recovery_point=committed,
        )
        if damaged:
            self._repair(log, base, damaged, can_refetch=can_refetch)
        path = f"{store.directory}/{PARTITION_METADATA}"
        if not self._disk.exists(path):
            self._disk.replace(path, format_partition_metadata(uuid.METADATA_TOPIC_ID).encode(), sync=True)
        store.remove_before(log.log_start_offset)
        latest = store.latest
        if log.log_start_offset > 0 and latest is None:
            raise MissingSnapshot(
                f"The metadata log in {store.directory} starts at offset {log.log_start_offset}, and the "
                "snapshot of the records before it is missing. Restore the .checkpoint file from a backup."
            )
        self._log = log
        if latest is not None and latest.offset > log.log_end_offset:
            logger.warning(
                "The snapshot %s is ahead of the log; restarting the log after it.", latest.file_name
            )
            self.restart_at_snapshot()
        if latest is not None:
            log.advance_high_watermark(latest.offset)  # what a snapshot covers is committed

    def _repair(self, log: Log, base: int, damaged: Sequence[DamagedSnapshot], *, can_refetch: bool) -> None:
        """Go back to the last valid snapshot, if the log has all records after it."""
        store = self.store
        is_first = damaged[0].id.offset == 0  # only it has the records of the format
        has_gap = log.log_start_offset > base or log.log_end_offset < damaged[-1].id.offset
        if is_first or has_gap:
            if not can_refetch:
                raise SnapshotDamaged(
                    f"{damaged[-1].error} The log does not contain all of its records. Restore the file "
                    "from a backup, or let this node rejoin the quorum with an empty directory."
                )
            logger.error("%s Fetching all metadata from the quorum again.", damaged[-1].error)
            log.truncate_fully_and_start_at(0)
            self._snapshot = None
            store.rename_damaged(damaged)
            store.remove_before(max(one.id.offset for one in damaged))
            return
        for one in damaged:
            logger.error("%s Renamed it; the log contains its records from offset %d on.", one.error, base)
        store.rename_damaged(damaged)

    def detach(self) -> Log | None:
        """Hand over the log to be closed; afterwards nothing is read or written here."""
        log, self._log = self._log, None
        return log

    # Facts

    @property
    def is_open(self) -> bool:
        return self._log is not None

    @property
    def log(self) -> Log:
        if self._log is None:
            raise RuntimeError("The metadata log is not open.")
        return self._log

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end(self) -> EpochEnd:
        """The epoch of the last record, and the end of the log."""
        log, latest = self.log, self.store.latest
        epoch = log.epochs.latest_epoch
        if epoch < 0:
            epoch = latest.epoch if latest is not None else 0
        return EpochEnd(epoch, log.log_end_offset)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self.store.kept[0].id if self.store.kept else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.store.latest

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The end of `epoch` or, if the log lacks it, of the greatest epoch before it."""
        found, end_offset = self.log.end_offset_for_epoch(epoch)
        if found < 0:
            return self.end
        earliest = self.earliest_snapshot
        if earliest is not None and found == epoch and end_offset == earliest.offset:
            return EpochEnd(earliest.epoch, earliest.offset)  # whose epoch may be earlier
        return EpochEnd(found, end_offset)

    # Reading

    def chunks(self, offset: int, end_offset: int) -> Iterator[bytes]:
        """The batches of the log from the one with `offset` on, in pieces. Blocks."""
        while offset < end_offset:
            read = self.log.read(offset, _READ_BYTES, limit_offset=end_offset)
            expected = offset
            try:
                for position, header in iterate_headers(read.records):
                    _check(read.records, position, header)
                    if header.base_offset > expected:
                        raise self._missing(expected)
                    expected = header.next_offset
            except CorruptMessage as error:
                raise self._damaged(expected, error) from None
            if expected == offset:
                raise self._missing(offset)
            yield read.records
            offset = expected

    def _missing(self, offset: int) -> MissingSnapshot:
        return MissingSnapshot(
            f"The metadata log in {self.store.directory} lacks the records at offset {offset}. Restore its "
            "files from a backup, or let this node rejoin the quorum with an empty directory."
        )

    def _damaged(self, offset: int, cause: CorruptMessage) -> LogDamaged:
        """The error of a batch that recovery did not look at, since a snapshot had its records."""
        segment, position = self.log.segments.find(offset) or (self.log.segments.active, 0)
        return segment.damaged(position, str(cause), offset)

    def newest_snapshot(self) -> Snapshot | None:
        """The content of the newest snapshot. Blocks."""
        latest = self.store.latest
        if latest is None or self._snapshot is not None:
            return self._snapshot
        return self.store.read_snapshot(latest)

    def read_all(self, decode: Callable[[bytes], _T]) -> tuple[Snapshot | None, list[CommittedBatch[_T]]]:
        """The newest snapshot, and the batches of the log after it. Blocks."""
        latest = self.store.latest
        snapshot = self.newest_snapshot()
        self._snapshot = None  # it may be large
        offset = self.log.log_start_offset if latest is None else latest.offset
        batches: list[CommittedBatch[_T]] = []
        for buffer in self.chunks(offset, self.log.log_end_offset):
            batches += batches_of(buffer, decode)
        return snapshot, batches

    def voter_events(self) -> Iterator[VoterEvent]:
        """What the newest snapshot, and the log after it, say about the voters. Blocks."""
        latest, snapshot = self.store.latest, self.newest_snapshot()
        if latest is not None and snapshot is not None:
            yield from snapshot.voter_events(latest.offset - 1)
        offset = self.log.log_start_offset if latest is None else latest.offset
        for buffer in self.chunks(offset, self.log.log_end_offset):
            yield from voter_events_of(buffer)

    # Changing

    def can_retry(self, error: Exception) -> bool:
        """Whether the log is as it was before the error of a write, and a retry may succeed."""
        return isinstance(error, OSError) and error.errno in PASSING and self.log.failure is None

    def common_end(self, diverging: EpochEnd) -> int:
        """The offset where the logs diverge at the latest, by the end of an epoch in the leader's log."""
        local = self.end_of_epoch(diverging.epoch)
        offset = local.end_offset
        if local.epoch == diverging.epoch:
            offset = min(offset, diverging.end_offset)
        return offset

    def restart_at_snapshot(self) -> None:
        """Delete the log, which ends before the newest snapshot, and continue after that snapshot."""
        latest = self.store.latest
        assert latest is not None, "there is a snapshot to restart at"
        self.log.truncate_fully_and_start_at(latest.offset)
        self.store.remove_before(latest.offset)


def _check(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """CorruptMessage if this is not a batch as the quorum writes it."""
    if header.magic != _MAGIC:
        raise CorruptMessage(f"The batch has magic {header.magic}; this log has only {_MAGIC}.")
    check_crc(buffer, position, header)


def batches_of(buffer: Buffer, decode: Callable[[bytes], _T]) -> list[CommittedBatch[_T]]:
    """Decode the batches in a buffer."""
    batches: list[CommittedBatch[_T]] = []
    for position, header in iterate_headers(buffer):
        records: list[_T] = []
        if not header.is_control:
            records = [decode(record.value or b"") for record in read_batch(buffer, position, header)]
        batches.append(
            CommittedBatch(
                header.base_offset,
                header.last_offset,
                header.partition_leader_epoch,
                header.max_timestamp,
                header.length_bytes,
                records,
            )
        )
    return batches


def voter_events_of(buffer: Buffer) -> Iterator[VoterEvent]:
    """What the control records in a buffer say about the voters."""
    for position, header in iterate_headers(buffer):
        if header.is_control:
            for record in read_control(buffer, position, header):
                if record.event is not None:
                    yield record.event
