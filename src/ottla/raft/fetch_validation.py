"""How a replica answers a fetch: it depends on its role and its log alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ottla.raft.metadata_log import EpochEnd
from ottla.raft.replica import Replica
from ottla.raft.snapshots import BOOTSTRAP_ID, SnapshotId
from ottla.wire.errors import ErrorCode


class Extent(Protocol):
    """What must be known of a log to compare another one with it."""

    @property
    def start_offset(self) -> int: ...
    @property
    def earliest_snapshot(self) -> SnapshotId | None: ...
    @property
    def latest_snapshot(self) -> SnapshotId | None: ...
    def end_of_epoch(self, epoch: int) -> EpochEnd: ...


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a fetch: the end of a log, the epoch of its last record, and the leader epoch."""

    offset: int
    last_epoch: int
    leader_epoch: int


class Readable:
    """The position is in the leader's log, which is read from there."""

    __slots__ = ()


READABLE = Readable()

Verdict: TypeAlias = Readable | EpochEnd | SnapshotId | ErrorCode
"""Read from the position, truncate to the end of an epoch, load a snapshot, or an error."""


def refusal(replica: Replica, leader_epoch: int) -> ErrorCode | None:
    """The error if this replica is not the leader of `leader_epoch`; None if it is."""
    if leader_epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not replica.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return None


def judge_fetch(replica: Replica, extent: Extent, position: Position) -> Verdict:
    """Compare the position with the log of this replica."""
    refused = refusal(replica, position.leader_epoch)
    if refused is not None:
        return refused
    latest = extent.latest_snapshot
    if position.offset == 0 and latest is not None and latest != BOOTSTRAP_ID:
        return latest  # it takes less time than the log
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
