"""Computes one change of a partition: its ISR, leader, replicas or directories.

Set the targets, then call `record()`. It elects a leader if one is needed, updates the eligible leader
replicas, completes a reassignment if possible, and returns one record for all of that, or None if nothing
changes.

Eligible leader replicas (ELR): when the ISR falls below min.insync.replicas, the replicas that leave it are
stored here, because nothing can be committed without them: each still has all committed records.
`last_known_elr` names the last leader once the ISR and the ELR are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum

from ottla.controller.reassignment_replicas import completed
from ottla.controller.records import DIRECTORY_ASSIGNMENT_LEVEL
from ottla.controller.registrations import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    PartitionRegistration,
)
from ottla.wire.messages.metadata_records import PartitionChangeRecord

EPOCH_BUMP_ON_SHRINK_BEFORE_LEVEL = 12  # 3.6-IV0: from there on a smaller ISR alone is no new leader epoch


class Election(Enum):
    """The kind of election."""

    PREFERRED = "the first assigned replica, if it is in sync"
    ONLINE = "the present leader, else any in-sync replica"
    UNCLEAN = "as ONLINE, else any live replica, even one that lacks records"


class PartitionChange:
    """One change in progress. The targets start as the present values."""

    def __init__(
        self,
        partition: PartitionRegistration,
        topic_id: bytes,
        index: int,
        *,
        is_acceptable_leader: Callable[[int], bool],
        default_directory: Callable[[int], bytes],
        metadata_version: int,
        min_isr: int,
        is_elr_enabled: bool,
        election: Election = Election.ONLINE,
    ) -> None:
        self._partition = partition
        self._topic_id = topic_id
        self._index = index
        self._is_acceptable_leader = is_acceptable_leader
        self._default_directory = default_directory
        self._metadata_version = metadata_version
        self._min_isr = min_isr
        self._is_elr_enabled = is_elr_enabled
        self.election = election
        self.isr: Sequence[int] = partition.isr
        self.replicas: Sequence[int] = partition.replicas
        self.removing: Sequence[int] = partition.removing
        self.adding: Sequence[int] = partition.adding
        self.recovery_state = partition.leader_recovery_state
        self.directories = dict(zip(partition.replicas, partition.directories, strict=True))
        self.unclean_shutdowns: Collection[int] = ()
        self._elr: Sequence[int] = partition.elr

    def record(self) -> PartitionChangeRecord | None:
        """The record of the change; None if nothing changes."""
        record = PartitionChangeRecord(partition_id=self._index, topic_id=self._topic_id)
        done = completed(self.replicas, self.removing, self.adding, self.isr)
        if done is not None:
            self.replicas, self.isr = done
            self.removing = self.adding = ()
        self._find_eligible()
        self._elect(record)
        self._bump_epoch_if_replicas_left(record)
        self._set_eligible(record)
        may_set_isr = record.isr is None and (self.isr or self._is_elr_enabled)
        if may_set_isr and tuple(self.isr) != self._partition.isr:
            record.isr = list(self.isr)
        self._bump_epoch_if_shrunk(record)
        self._set_last_known_leader(record)
        self._set_assignment(record)
        if self.recovery_state != self._partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if _is_nothing(record) else record

    def _find_eligible(self) -> None:
        if not self._is_elr_enabled:
            return
        if len(self.isr) >= self._min_isr:
            self._elr = ()
            return
        candidates = {*self._elr, *self._partition.isr}.intersection(self.replicas)
        self._elr = sorted(candidates.difference(self.isr, self.unclean_shutdowns))

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, is_unclean = self._leader()
        if leader == self._partition.leader:
            return
        if leader in self._elr:
            self.isr = (leader,)
            self._elr = [replica for replica in self._elr if replica != leader]
        record.leader = leader
        if is_unclean:
            record.isr = [leader]
            if self._partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _leader(self) -> tuple[int, bool]:
        """The new leader, and whether electing it may lose records."""
        candidates = [self._partition.leader, *self.replicas]
        if self.election is Election.PREFERRED:
            candidates.insert(0, self.replicas[0])
        for replica in candidates:
            if self._is_valid_leader(replica):
                return replica, False
        last_known = self._partition.last_known_elr
        may_take_last_known = self._is_elr_enabled and not self._elr and not self.isr and len(last_known) == 1
        if may_take_last_known and self._is_acceptable_leader(last_known[0]):
            return last_known[0], True
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self._is_acceptable_leader(replica):
                    return replica, True
        return NO_LEADER, False

    def _is_valid_leader(self, replica: int) -> bool:
        is_in_sync = replica in self.isr or (not self.isr and replica in self._elr)
        return is_in_sync and self._is_acceptable_leader(replica)

    def _bump_epoch_if_replicas_left(self, record: PartitionChangeRecord) -> None:
        """A removed replica must stop fetching in the old epoch: it would count for the high watermark."""
        if record.leader == NO_LEADER_CHANGE and not set(self._partition.replicas) <= set(self.replicas):
            record.leader = self._partition.leader

    def _bump_epoch_if_shrunk(self, record: PartitionChangeRecord) -> None:
        if self._metadata_version >= EPOCH_BUMP_ON_SHRINK_BEFORE_LEVEL or record.isr is None:
            return
        if record.leader == NO_LEADER_CHANGE and not set(self._partition.isr) <= set(record.isr):
            record.leader = self._partition.leader

    def _set_eligible(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self._is_elr_enabled:
            self._elr = ()  # an unclean election makes every older promise void
        if tuple(self._elr) != self._partition.elr:
            record.eligible_leader_replicas = list(self._elr)

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self._is_elr_enabled:
            return
        if record.leader == NO_LEADER and not self._partition.last_known_elr:
            record.last_known_elr = [self._partition.leader]
        elif record.leader >= 0 and self._partition.last_known_elr:
            record.last_known_elr = []

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        if self.replicas:
            if self._metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL:
                directories = [
                    self.directories[replica]
                    if replica in self.directories
                    else self._default_directory(replica)
                    for replica in self.replicas
                ]
                if tuple(directories) != self._partition.directories:
                    record.directories = directories
            if tuple(self.replicas) != self._partition.replicas:
                record.replicas = list(self.replicas)
        if tuple(self.removing) != self._partition.removing:
            record.removing_replicas = list(self.removing)
        if tuple(self.adding) != self._partition.adding:
            record.adding_replicas = list(self.adding)


def _is_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state == NO_RECOVERY_CHANGE
        and record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
    )
