"""What a replica answers to those who fetch from it, decided on its role and its log alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ottla.raft.metadata_log import EpochEnd
from ottla.raft.replica import Replica
from ottla.raft.snapshots import BOOTSTRAP_ID, SnapshotId
from ottla.wire.errors import ErrorCode


class Extent(Protocol):
    """What must be known of a log to judge where another one stands."""

    @property
    def start_offset(self) -> int: ...
    @property
    def earliest_snapshot(self) -> SnapshotId | None: ...
    @property
    def latest_snapshot(self) -> SnapshotId | None: ...
    def end_of_epoch(self, epoch: int) -> EpochEnd: ...


@dataclass(frozen=True, slots=True)
class Position:
    """Where a replica wants to go on: its end, the epoch of its last record, the epoch it believes in."""

    offset: int
    last_epoch: int
    leader_epoch: int


class Readable:
    """The position is in the leader's log: read from there."""

    __slots__ = ()


READABLE = Readable()

Verdict: TypeAlias = Readable | EpochEnd | SnapshotId | ErrorCode
"""Read on; truncate to an epoch's end; load a snapshot first; or an error."""


def refusal(replica: Replica, leader_epoch: int) -> ErrorCode | None:
    """Why this replica cannot serve what only the leader of `leader_epoch` can; None if it can."""
    if leader_epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not replica.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return None


def judge_fetch(replica: Replica, extent: Extent, position: Position) -> Verdict:
    """How a fetch from `position` goes on."""
    refused = refusal(replica, position.leader_epoch)
    if refused is not None:
        return refused
    latest = extent.latest_snapshot
    if position.offset == 0 and latest is not None and latest != BOOTSTRAP_ID:
        return latest  # shorter than the log
    return _judge_position(extent, position)


def _judge_position(extent: Extent, position: Position) -> Verdict:
    offset, start = position.offset, extent.start_offset
    if start == 0 and offset == 0:
        return READABLE
    earliest, latest = extent.earliest_snapshot, extent.latest_snapshot
    if earliest is not None and latest is not None:
        is_at_other_start = offset == start and position.last_epoch != earliest.epoch
        if offset < start or is_at_other_start or position.last_epoch < earliest.epoch:
            return latest
    end = extent.end_of_epoch(position.last_epoch)
    if end.epoch != position.last_epoch or end.end_offset < offset:
        return end
    return READABLE
