"""The format of snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`, as Kafka writes them.

The file is a sequence of batches with its own offsets, from 0: a control batch with the header (and, in a
dynamic quorum, kraft.version and the voters), batches of records, and a control batch with the footer. A file
without its footer, or with a batch whose CRC is wrong, is damaged, and no part of it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.raft.control_records import batch_of, read_control, voters_entries
from ottla.raft.events import KraftVersionAppended, VoterEvent, VotersAppended
from ottla.raft.voters import VoterSet
from ottla.records.batch import BatchHeader, iterate_headers
from ottla.records.control import ControlType
from ottla.records.record import Record, build_batch, read_batch
from ottla.wire import codec
from ottla.wire.errors import KafkaError, MalformedMessage
from ottla.wire.message import Buffer
from ottla.wire.messages.protocol_data import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

SUFFIX = ".checkpoint"
PARTIAL_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"
DAMAGED_SUFFIX = ".checkpoint.damaged"
BATCH_BYTES = 1024 * 1024
BATCH_RECORDS = 10_000


class SnapshotDamaged(ValueError):
    """The bytes of a snapshot are invalid. The message names file, position and cause."""


class SnapshotId(NamedTuple):
    """The part of the log that a snapshot covers: all before `offset`, whose last record is of `epoch`."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}{SUFFIX}"


BOOTSTRAP_ID = SnapshotId(0, 0)


def parse_name(name: str) -> tuple[SnapshotId, str] | None:
    """The snapshot that a file contains, and its suffix; None if it is another file."""
    for suffix in (PARTIAL_SUFFIX, DELETED_SUFFIX, SUFFIX):
        stem = name.removesuffix(suffix)
        if stem != name:
            offset, dash, epoch = stem.partition("-")
            if dash and len(offset) == 20 and len(epoch) == 10 and offset.isdecimal() and epoch.isdecimal():
                return SnapshotId(int(offset), int(epoch)), suffix
            return None
    return None


def build(
    values: Iterable[bytes],
    *,
    epoch: int,
    now_ms: int,
    last_contained_ms: int,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
) -> Iterator[bytearray]:
    """The batches of a snapshot file, in order. `values` are the encoded records."""
    header = codec.encode(SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_ms), 0)
    entries: list[tuple[ControlType, Buffer]] = [(ControlType.SNAPSHOT_HEADER, header)]
    if kraft_version > 0 and voters is not None:
        entries += voters_entries(kraft_version, voters)
    yield batch_of(entries, base_offset=0, epoch=epoch, now_ms=now_ms)
    offset = len(entries)
    pending: list[Record] = []
    size = 0
    for value in values:
        if pending and (size + len(value) > BATCH_BYTES or len(pending) >= BATCH_RECORDS):
            yield build_batch(pending, base_offset=offset, leader_epoch=epoch)
            offset += len(pending)
            pending, size = [], 0
        pending.append(Record(offset + len(pending), now_ms, None, value))
        size += len(value)
    if pending:
        yield build_batch(pending, base_offset=offset, leader_epoch=epoch)
        offset += len(pending)
    footer = codec.encode(SnapshotFooterRecord(version=0), 0)
    yield batch_of([(ControlType.SNAPSHOT_FOOTER, footer)], base_offset=offset, epoch=epoch, now_ms=now_ms)


@dataclass(slots=True)
class Snapshot:
    """The content of a snapshot file."""

    last_contained_ms: int | None = None
    kraft_version: int = 0
    voters: VoterSet | None = None
    values: list[bytes] = field(default_factory=list)

    def voter_events(self, offset: int) -> Iterator[VoterEvent]:
        """The events for the replica, as if the log named the voters at this offset."""
        if self.kraft_version:
            yield KraftVersionAppended(offset, self.kraft_version)
        if self.voters is not None:
            yield VotersAppended(offset, self.voters)


def read(content: Buffer, path: str) -> Snapshot:
    """Parse a snapshot file; SnapshotDamaged unless it is complete and every CRC is correct."""
    snapshot = Snapshot()
    position = end = 0
    has_footer = False
    try:
        for position, header in iterate_headers(content):
            if has_footer:
                raise SnapshotDamaged(f"{path} continues after its footer, at byte {position}.")
            end = position + header.length_bytes
            if header.is_control:
                has_footer = _read_control(content, position, header, snapshot)
            elif snapshot.last_contained_ms is None:
                break
            else:
                snapshot.values += [record.value or b"" for record in read_batch(content, position, header)]
    except (KafkaError, MalformedMessage) as error:
        raise SnapshotDamaged(f"{path} is damaged at byte {position}: {error}") from error
    if snapshot.last_contained_ms is None:
        raise SnapshotDamaged(f"{path} does not begin with the header of a snapshot.")
    if not has_footer or end != len(content):
        raise SnapshotDamaged(f"{path} is truncated: after byte {end} its footer is missing.")
    return snapshot


def _read_control(content: Buffer, position: int, header: BatchHeader, snapshot: Snapshot) -> bool:
    """Read a control batch into the snapshot. Returns whether it contains the footer."""
    for _, kind, message in read_control(content, position, header):
        if isinstance(message, SnapshotHeaderRecord):
            snapshot.last_contained_ms = message.last_contained_log_timestamp
        elif isinstance(message, KRaftVersionRecord):
            snapshot.kraft_version = message.k_raft_version
        elif isinstance(message, VotersRecord):
            snapshot.voters = VoterSet.from_record(message)
        elif kind is ControlType.SNAPSHOT_FOOTER:
            return True
    return False
