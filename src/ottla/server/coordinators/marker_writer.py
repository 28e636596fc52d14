"""Appends the markers that end transactions to partitions that this node leads.

Markers of this node's coordinator and of others (WriteTxnMarkers) are appended the same way. Rule: success is
reported once the marker is committed, so that the coordinator never has to repeat it. A marker for
`__consumer_offsets` goes through the group coordinator, so that the transaction's offsets take effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.transactions.markers import Outcomes, WritableMarker
from ottla.coordinator.transactions.states import TopicPartition
from ottla.records.control import end_txn_marker
from ottla.records.validate import Origin
from ottla.server.broker import GROUPS_TOPIC
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasClock, HasConfig, HasDirectories, HasGroups
from ottla.server.replicas.outcome_wait import Append, OutcomeWait
from ottla.server.replicas.partition import FlushingParts, flush_soon
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from ottla.log.directories.log_directories import LogDirectories
    from ottla.server.replicas.partition import Partition

_NOT_READY = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


class MarkerParts(FlushingParts, HasConfig, HasGroups, HasClock, Protocol):
    """The parts of a node that `write_marker` uses."""


class OffsetsParts(HasDirectories, HasGroups, Protocol):
    """The parts of a node that a marker in `__consumer_offsets` needs."""


def write_marker(parts: MarkerParts, marker: WritableMarker) -> Steps[Outcomes | PendingResponse]:
    """Append one marker to its partitions, one per step; returns the error code of each, now or later."""
    outcomes: dict[TopicPartition, int] = {}
    waiting: list[Append[TopicPartition]] = []
    now_ms = parts.clock.now_ms()
    batch = end_txn_marker(
        commit=marker.transaction_result,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=now_ms,
    )
    for topic in marker.topics:
        for index in topic.partition_indexes:
            key = (topic.name, index)
            yield
            partition = parts.partitions.get(topic.name, index)
            try:
                if partition is None:
                    raise UnknownTopicOrPartition(f"This node does not host {topic.name}-{index}.")
                if partition.topic == GROUPS_TOPIC:
                    end_offset = _append_to_groups(parts, partition, marker, batch, now_ms)
                else:
                    end_offset = _append(parts.directories, partition, marker, batch, now_ms)
            except KafkaError as error:
                outcomes[key] = error.code
                continue
            if _is_committed(partition, end_offset):
                outcomes[key] = ErrorCode.NONE
            else:
                waiting.append(Append(key, partition, end_offset))
    return _wait(parts, waiting, outcomes) if waiting else outcomes


def _append(
    directories: LogDirectories, partition: Partition, marker: WritableMarker, batch: bytearray, now_ms: int
) -> int:
    """The offset after the marker. An append changes its batch: each partition gets a copy."""
    try:
        appended = partition.append(
            memoryview(bytearray(batch)),
            acks=-1,
            now_ms=now_ms,
            origin=Origin.COORDINATOR,
            transaction_version=marker.transaction_version,
        )
    except OSError as error:
        assert partition.log is not None
        raise directories.storage_error(partition.log, error) from error
    return appended.last_offset + 1


def _append_to_groups(
    parts: OffsetsParts, partition: Partition, marker: WritableMarker, batch: bytearray, now_ms: int
) -> int:
    end_offset = -1

    def append() -> None:
        nonlocal end_offset
        end_offset = _append(parts.directories, partition, marker, batch, now_ms)

    try:
        active = parts.groups.coordinator.active(partition.index)
    except _NOT_READY as error:
        raise NotLeaderOrFollower(str(error)) from error
    active.write_marker(
        append, marker.producer_id, marker.producer_epoch, is_commit=marker.transaction_result
    )
    return end_offset


def _is_committed(partition: Partition, end_offset: int) -> bool:
    log = partition.log
    return log is not None and log.high_watermark >= end_offset


def _wait(
    parts: MarkerParts, waiting: list[Append[TopicPartition]], outcomes: dict[TopicPartition, int]
) -> Outcomes | PendingResponse:
    """The outcomes once these markers are flushed and committed, or the timeout has passed."""

    def respond() -> Outcomes:
        for append in waiting:
            assert append.outcome is not None
            outcomes[append.subject] = append.outcome
        return outcomes

    wait = OutcomeWait(waiting, respond)
    wait.start(parts.config.int_of("request.timeout.ms"))
    for append in waiting:
        log = append.partition.log
        if log is not None and log.is_flush_due:
            flush_soon(parts, append.partition.topic, append.partition.index)
    wait.check_all()  # a marker of an earlier step may be committed since its append: nothing else notices
    response: Outcomes | PendingResponse = wait.pending.response_or_self()
    return response
