"""The control records in the metadata log: leaders, voters and kraft.version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.raft.effects import StartEpoch
from ottla.raft.events import KraftVersionAppended, VoterEvent, VotersAppended
from ottla.raft.voters import VoterSet
from ottla.records.batch import BatchHeader
from ottla.records.control import ControlType, control_batch, control_type
from ottla.records.record import read_batch
from ottla.wire import codec
from ottla.wire.message import Buffer, Message
from ottla.wire.messages.protocol_data import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotHeaderRecord,
    VotersRecord,
)

Entries = list[tuple[ControlType, Buffer]]


def start_of_epoch(effect: StartEpoch) -> Entries:
    """The first records of a new leader: itself and who elected it, and the voters if the log lacks them."""
    message = LeaderChangeMessage(
        version=0,
        leader_id=effect.leader_id,
        voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in effect.voter_ids],
        granting_voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in effect.granting_ids],
    )
    entries: Entries = [(ControlType.LEADER_CHANGE, codec.encode(message, 0))]
    if effect.voters is not None and effect.kraft_version is not None:
        entries += voters_entries(effect.kraft_version, effect.voters)
    return entries


def voters_entries(kraft_version: int, voters: VoterSet) -> Entries:
    """The kraft.version of the quorum, and its voters."""
    return [
        (
            ControlType.KRAFT_VERSION,
            codec.encode(KRaftVersionRecord(version=0, k_raft_version=kraft_version), 0),
        ),
        voters_entry(voters),
    ]


def voters_entry(voters: VoterSet) -> tuple[ControlType, Buffer]:
    return ControlType.KRAFT_VOTERS, codec.encode(voters.to_record(), 0)


def batch_of(entries: Entries, *, base_offset: int, epoch: int, now_ms: int) -> bytearray:
    return control_batch(entries, timestamp=now_ms, base_offset=base_offset, leader_epoch=epoch)


class ControlRecord(NamedTuple):
    """One control record; `message` is None if the type has no meaning here."""

    offset: int
    kind: ControlType
    message: Message | None

    @property
    def event(self) -> VoterEvent | None:
        """The event for the replica, if the record changes the voters."""
        if isinstance(self.message, KRaftVersionRecord):
            return KraftVersionAppended(self.offset, self.message.k_raft_version)
        if isinstance(self.message, VotersRecord):
            return VotersAppended(self.offset, VoterSet.from_record(self.message))
        return None


_MESSAGES: dict[ControlType, type[Message]] = {
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
}


def read_control(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[ControlRecord]:
    """The control records of a batch whose CRC was checked."""
    for record in read_batch(buffer, position, header):
        kind = control_type(record.key)
        cls = _MESSAGES.get(kind)
        message = None if cls is None else codec.decode(cls, record.value or b"", 0)
        yield ControlRecord(record.offset, kind, message)
