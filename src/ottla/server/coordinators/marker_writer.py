"""Appends the markers that end transactions to partitions that this node leads.

Whether another broker's coordinator sent them (WriteTxnMarkers) or this node's own: the same way. Rule: an
outcome is told once the marker is committed, so a coordinator that hears of success need never come back. A
marker for `__consumer_offsets` goes through its group coordinator, whose offsets take effect with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from ottla.coordinator.transactions.marker_sender import Outcomes, WritableMarker
from ottla.coordinator.transactions.states import TopicPartition
from ottla.records.control import end_txn_marker
from ottla.records.validate import Origin
from ottla.server.broker import GROUPS_TOPIC
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
    from ottla.server.broker import Broker
    from ottla.server.replicas.partition import Partition

_NOT_READY = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


def write_marker(broker: Broker, marker: WritableMarker, done: Callable[[Outcomes], None]) -> None:
    """Append one marker to its partitions. `done` gets each one's error code, at once or later."""
    for _ in write_marker_in_steps(broker, marker, done):
        pass


def write_marker_in_steps(
    broker: Broker, marker: WritableMarker, done: Callable[[Outcomes], None]
) -> Generator[None, None, None]:
    """The same, for a marker that another node asks for: it may name any number of partitions."""
    outcomes: dict[TopicPartition, int] = {}
    waiting: list[_Waiting] = []
    now_ms = broker.clock.now_ms()
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
            partition = broker.partitions.get(topic.name, index)
            try:
                if partition is None:
                    raise UnknownTopicOrPartition(f"This node does not host {topic.name}-{index}.")
                if partition.topic == GROUPS_TOPIC:
                    end_offset = _append_to_groups(broker, partition, marker, batch, now_ms)
                else:
                    end_offset = _append(broker, partition, marker, batch, now_ms)
            except KafkaError as error:
                outcomes[key] = error.code
                continue
            if _is_committed(partition, end_offset):
                outcomes[key] = ErrorCode.NONE
            else:
                waiting.append(_Waiting(key, partition, end_offset))
    if waiting:
        _Committing(broker, waiting, outcomes, done).start()
    else:
        done(outcomes)


def _append(
    broker: Broker, partition: Partition, marker: WritableMarker, batch: bytearray, now_ms: int
) -> int:
    """The offset behind the marker. The batch may go to other partitions too: a copy of it is written."""
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
        raise broker.directories.storage_error(partition.log, error) from error
    return appended.last_offset + 1


def _append_to_groups(
    broker: Broker, partition: Partition, marker: WritableMarker, batch: bytearray, now_ms: int
) -> int:
    end_offset = -1

    def append() -> None:
        nonlocal end_offset
        end_offset = _append(broker, partition, marker, batch, now_ms)

    try:
        active = broker.groups.coordinator.active(partition.index)
    except _NOT_READY as error:
        raise NotLeaderOrFollower(str(error)) from error
    active.write_marker(
        append, marker.producer_id, marker.producer_epoch, is_commit=marker.transaction_result
    )
    return end_offset


def _is_committed(partition: Partition, end_offset: int) -> bool:
    log = partition.log
    return log is not None and log.high_watermark >= end_offset


class _Waiting:
    __slots__ = ("code", "end_offset", "key", "leader_epoch", "partition", "ticket")

    def __init__(self, key: TopicPartition, partition: Partition, end_offset: int) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.end_offset = end_offset
        self.ticket = -1
        self.code: ErrorCode | None = None  # what became of it


class _Committing:
    """Markers that are in the leader's log, and wait for its replicas or for a flush."""

    __slots__ = ("_broker", "_done", "_outcomes", "_timer", "_waiting")

    def __init__(
        self,
        broker: Broker,
        waiting: list[_Waiting],
        outcomes: dict[TopicPartition, int],
        done: Callable[[Outcomes], None],
    ) -> None:
        self._broker = broker
        self._waiting = waiting
        self._outcomes = outcomes
        self._done = done
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        from ottla.server.coordinators.groups import flush_soon

        timeout_ms = self._broker.config.int_of("request.timeout.ms")
        self._timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._finish)
        for one in self._waiting:
            one.ticket = one.partition.growth.add(self._check)
            log = one.partition.log
            if log is not None and log.is_flush_due:
                flush_soon(self._broker, one.partition)
        self._check()  # a marker of an earlier step may be committed since its append: nobody calls for it

    def _check(self) -> bool:
        for one in self._waiting:
            if one.code is None:
                one.code = one.partition.outcome(one.end_offset, one.leader_epoch)
        if all(one.code is not None for one in self._waiting):
            self._finish()
        return self._timer is None

    def _finish(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        for one in self._waiting:
            one.partition.growth.remove(one.ticket)
            if one.code is None:
                one.code = one.partition.outcome(one.end_offset, one.leader_epoch)
            self._outcomes[one.key] = ErrorCode.REQUEST_TIMED_OUT if one.code is None else one.code
        self._done(self._outcomes)
