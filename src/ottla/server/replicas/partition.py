"""The replicas that this node hosts: their leadership, and the rules for appends and reads.

A `Partition` combines a log with its metadata. Rule: only this module moves a leader's high watermark, and
only over records that every in-sync replica has and that were flushed, if the topic requires flushes; it
notifies waiters in the same step. `ottla.replication.leader` decides the ISR; a partition with one replica
needs no leader state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol

from ottla.controller.topic_names import is_internal
from ottla.log.config import FLUSH_MESSAGES_NEVER
from ottla.log.log import Appended, CheckedBatch, Log
from ottla.log.plain_append import append_to_log
from ottla.log.producer_state import VerificationGuard
from ottla.records.plain_batch import NOT_PLAIN
from ottla.records.validate import Origin
from ottla.replication.leader import AcceptedChange, Leadership, Proposal
from ottla.server.parts import HasBackground, HasDirectories, HasImage, HasPartitions
from ottla.waiting.watch_list import WatchList
from ottla.wire import uuid
from ottla.wire.errors import (
    ErrorCode,
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from ottla.log.directories.log_directories import LogDirectories

logger = logging.getLogger("ottla.server.replicas.partition")


class Partition:
    """One replica on this node."""

    __slots__ = (
        "appends",
        "growth",
        "index",
        "is_internal",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "leadership",
        "log",
        "min_insync_replicas",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, log: Log | None) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log  # None if its log directory is offline
        self.is_internal = is_internal(topic)  # clients may not write to it
        self.is_leader = False
        self.leader_id = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: list[int] = []
        self.isr: list[int] = []
        self.min_insync_replicas = 1  # never above the number of replicas
        self.leadership: Leadership | None = None  # if this node leads and others follow
        self.growth = WatchList()  # notified when the high watermark or the last stable offset moves
        self.appends = WatchList()  # notified when the leader's log grows, for followers

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    def leader_log(self, expected_epoch: int = -1) -> Log:
        """The log, if this node leads the partition in the caller's leader epoch."""
        log = self.log
        if log is None:
            raise KafkaStorageError(
                f"The log directory of {self.topic}-{self.index} is offline; see the log of this node."
            )
        if expected_epoch >= 0 and expected_epoch != self.leader_epoch:
            self.check_epoch(expected_epoch)
        if not self.is_leader:
            raise NotLeaderOrFollower(
                f"Node {self.leader_id}, not this node, is the leader of {self.topic}-{self.index}."
            )
        return log

    def replica_log(self, expected_epoch: int = -1) -> Log:
        """The log, for a reader that accepts any replica."""
        log = self.log
        if log is None:
            return self.leader_log()  # raises the reason
        if expected_epoch >= 0 and expected_epoch != self.leader_epoch:
            self.check_epoch(expected_epoch)
        return log

    def check_epoch(self, expected_epoch: int) -> None:
        """Raise an error if the caller's leader epoch is not the current one."""
        if expected_epoch < 0 or expected_epoch == self.leader_epoch:
            return
        if expected_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(
                f"Leader epoch {expected_epoch} of {self.topic}-{self.index} is fenced; the current epoch "
                f"is {self.leader_epoch}."
            )
        raise UnknownLeaderEpoch(
            f"Leader epoch {expected_epoch} of {self.topic}-{self.index} is unknown; the current epoch on "
            f"this node is {self.leader_epoch}."
        )

    def append(
        self,
        records: memoryview,
        *,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: VerificationGuard | None = None,
        checked: CheckedBatch | None = None,
    ) -> Appended:
        """Append as the leader. If `log.is_flush_due`, the caller flushes; then it calls `advance`."""
        log = self.leader_log()
        if acks == -1 and len(self.isr) < self.min_insync_replicas:
            self._refuse_without_replicas()
        appended = log.append(
            records,
            leader_epoch=self.leader_epoch,
            origin=origin,
            now_ms=now_ms,
            transaction_version=transaction_version,
            guard=guard,
            checked=checked,
        )
        if not log.is_flush_due:
            self.advance(log.log_end_offset)
        if self.appends.watchers:
            self.appends.notify()
        return appended

    def append_own(self, batch: bytearray, now_ms: int) -> None:
        """Append a batch of this node's coordinator, with acks=all, as `append` does."""
        log = self.leader_log()
        if len(self.isr) < self.min_insync_replicas:
            self._refuse_without_replicas()
        if append_to_log(log, memoryview(batch), 0, len(batch), self.leader_epoch, now_ms) == NOT_PLAIN:
            log.append(
                memoryview(batch), leader_epoch=self.leader_epoch, origin=Origin.COORDINATOR, now_ms=now_ms
            )
        if not log.is_flush_due:
            self.advance(log.log_end_offset)
        if self.appends.watchers:
            self.appends.notify()

    def _refuse_without_replicas(self) -> NoReturn:
        raise NotEnoughReplicas(
            f"{self.topic}-{self.index} has {len(self.isr)} in-sync replicas "
            f"and needs {self.min_insync_replicas}."
        )

    def can_append_at_once(self) -> bool:
        """Whether a client's append has no rules beyond those of `append`, and needs no flush."""
        log = self.log
        return (
            log is not None
            and not self.is_internal
            and (self.leadership is not None or len(self.isr) == 1)
            and log.config.flush_messages == FLUSH_MESSAGES_NEVER
        )

    def advance(self, end_offset: int) -> None:
        """Advance the high watermark, given that the leader keeps its log up to `end_offset`."""
        log = self.log
        if log is None or not self.is_leader:
            return
        if self.leadership is not None:
            watermark = self.leadership.high_watermark(end_offset)
            if watermark is None:
                return
            end_offset = watermark
        elif len(self.isr) > 1:
            return
        if end_offset > log.high_watermark:
            log.advance_high_watermark(end_offset)
            if self.growth.watchers:
                self.growth.notify()

    def update_high_watermark(self) -> None:
        """Advance the high watermark after the ISR or a follower's progress changed."""
        log = self.log
        if log is not None:
            self.advance(log.recovery_point if log.is_flush_due else log.log_end_offset)

    def outcome(self, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        """The result for a producer whose batch, with acks=all, ends before `end_offset`; None means wait.

        This node appended the batch in `leader_epoch`. If that epoch ends before the batch does, this node
        lost the leadership, truncated the batch and leads again: the offsets now hold other records.
        """
        log = self.log
        if log is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self.is_leader or (
            self.leader_epoch != leader_epoch and log.end_offset_for_epoch(leader_epoch)[1] < end_offset
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if log.high_watermark < end_offset:
            return None
        leadership = self.leadership
        if leadership is not None and len(leadership.maximal_isr) < self.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # Its followers, if this node leads

    def follower_fetched(
        self, replica_id: int, broker_epoch: int, offset: int, log_start_offset: int, *, names_epoch: bool
    ) -> Proposal | None:
        """Record that a follower has everything below `offset`; return the ISR change that follows, if
        any."""
        log, leadership = self.log, self.leadership
        if log is None or leadership is None:
            # As far as this leader knows, no other replica is assigned.
            kind = UnknownLeaderEpoch if names_epoch else NotLeaderOrFollower
            raise kind(f"Node {replica_id} is not among the replicas of {self.topic}-{self.index}.")
        progress = leadership.follower(replica_id, names_epoch=names_epoch)
        log_start_before = progress.log_start_offset
        has_moved = leadership.fetched(
            progress,
            replica_id,
            offset=offset,
            log_start_offset=log_start_offset,
            leader_end_offset=log.log_end_offset,
            broker_epoch=broker_epoch,
        )
        proposal = leadership.expansion(replica_id, log.high_watermark)
        if has_moved:
            self.update_high_watermark()
        if log_start_offset != log_start_before:
            self.watermark_moved()  # DeleteRecords waits for the low watermark
        return proposal

    def is_proposing(self, proposal: Proposal) -> bool:
        return self.leadership is not None and self.leadership.pending is proposal

    def isr_change_accepted(self, proposal: Proposal, answer: AcceptedChange) -> None:
        """Apply an ISR change that the controller accepted."""
        leadership = self.leadership
        if leadership is None or not leadership.accepted(proposal, answer):
            return
        self.isr = list(answer.isr)
        self.partition_epoch = answer.partition_epoch
        logger.info(
            "%s-%d: ISR is %s, partition epoch %d",
            self.topic,
            self.index,
            ", ".join(map(str, answer.isr)),
            answer.partition_epoch,
        )
        self.update_high_watermark()

    def isr_change_rejected(self, proposal: Proposal, code: ErrorCode) -> bool:
        return self.leadership is not None and self.leadership.rejected(proposal, code)

    # Waiters

    def watermark_moved(self) -> None:
        if self.growth.watchers:
            self.growth.notify()

    def notify_all(self) -> None:
        """Notify all waiters of a new leader, or of a log that went offline."""
        self.growth.notify()
        self.appends.notify()


class Partitions:
    """All partitions that this node hosts, by topic name and by topic id."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}

    def __iter__(self) -> Iterator[Partition]:
        for partitions in list(self.by_name.values()):
            yield from list(partitions.values())

    def __len__(self) -> int:
        return sum(map(len, self.by_name.values()))

    def get(self, topic: str, index: int) -> Partition | None:
        partitions = self.by_name.get(topic)
        return partitions.get(index) if partitions else None

    def add(self, partition: Partition) -> None:
        partitions = self.by_name.setdefault(partition.topic, {})
        partitions[partition.index] = partition
        self.by_id[partition.topic_id] = partitions

    def remove(self, partition: Partition) -> None:
        partitions = self.by_name.get(partition.topic)
        if partitions is None or partitions.pop(partition.index, None) is None:
            return
        if not partitions:
            del self.by_name[partition.topic]
            del self.by_id[partition.topic_id]


class HostedParts(HasImage, HasPartitions, Protocol):
    """The parts of a node that `hosted_partition` looks in."""


class FlushingParts(HasPartitions, HasDirectories, HasBackground, Protocol):
    """The parts of a node that `flush_soon` flushes with."""


def hosted_partition(parts: HostedParts, topic: str, index: int) -> Partition:
    """A partition that this node has a replica of, or the error that says why not."""
    partition = parts.partitions.get(topic, index)
    if partition is None:
        raise not_hosted_error(topic, index, is_known=parts.image.partition(topic, index) is not None)
    return partition


def flush_soon(parts: FlushingParts, topic: str, index: int) -> None:
    """Flush a partition in the background; its high watermark moves after that."""
    partition = parts.partitions.get(topic, index)
    if partition is not None:
        parts.in_background(flush_partition(parts.directories, partition))


async def flush_partition(directories: LogDirectories, partition: Partition) -> bool:
    """Flush a log to its current end, then advance the high watermark. False if the flush failed."""
    log = partition.log
    if log is None:
        return False
    end_offset = log.log_end_offset
    try:
        await directories.flush(log)
    except KafkaError as error:  # the directory is offline, and the append is not acknowledged
        is_served = directories.logs.get((log.topic, log.partition)) is log
        level = logging.ERROR if is_served else logging.DEBUG  # otherwise its topic was deleted meanwhile
        logger.log(level, "Failed to flush %s: %s", log.directory, error)
        return False
    partition.advance(end_offset)
    return True


def not_hosted_error(topic: str | bytes, index: int, *, is_known: bool) -> KafkaError:
    """The error for a partition that this node does not host."""
    if is_known:
        return NotLeaderOrFollower(f"This node hosts no replica of partition {index} of the topic.")
    if isinstance(topic, bytes):
        return UnknownTopicId(f"Unknown topic id {uuid.to_text(topic)}.")
    return UnknownTopicOrPartition(f"Unknown partition {topic}-{index}.")
