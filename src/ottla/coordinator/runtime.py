"""The runtime of a coordinator: which partitions of its topic this node leads, and what runs on them.

When this node becomes the leader of a partition it loads it; meanwhile requests fail with
COORDINATOR_LOAD_IN_PROGRESS. When the leader or the leader epoch changes it unloads it: NOT_COORDINATOR.
`active_shard` runs a loaded one. Rules: a shard belongs to one leader epoch, and work of an older epoch finds
it closed. It acts on committed records only: an uncommitted record that it loaded could still be lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic

from ottla.coordinator.active_shard import ActiveShard, HostedPartition, S
from ottla.coordinator.partitioning import partition_for
from ottla.coordinator.records import Kinds
from ottla.coordinator.result import Result
from ottla.coordinator.shard_loader import Progress, load_steps
from ottla.coordinator.slices import Job, Slices
from ottla.records.batch import Codec
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.log.log import Log
    from ottla.ports import Clock

logger = logging.getLogger("ottla.coordinator")

RELOAD_DELAY_S = 1.0
PROGRESS_INTERVAL_S = 5.0

_CLIENT_ERRORS: dict[type[KafkaError], type[KafkaError]] = {
    NetworkException: CoordinatorLoadInProgress,
    UnknownTopicOrPartition: CoordinatorNotAvailable,
    NotEnoughReplicas: CoordinatorNotAvailable,
    RequestTimedOut: CoordinatorNotAvailable,
    NotLeaderOrFollower: NotCoordinator,
    KafkaStorageError: NotCoordinator,
    MessageTooLarge: UnknownServerError,
    RecordListTooLarge: UnknownServerError,
}
"""Error of the partition of a coordinator -> the error that clients of the coordinator get."""


def client_error(error: KafkaError) -> KafkaError:
    """The error that a client of the coordinator gets."""
    cls = _CLIENT_ERRORS.get(type(error))
    return error if cls is None else cls(error.message)


class _LedPartition(Generic[S]):
    """A partition that this node leads: loading, loaded, or waiting for the next attempt to load it."""

    __slots__ = (
        "active",
        "epoch",
        "job",
        "partition",
        "progress",
        "progress_timer",
        "retry_timer",
        "started_at",
        "ticket",
    )

    def __init__(self, partition: HostedPartition) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.active: ActiveShard[S] | None = None
        self.job: Job[None] | None = None
        self.retry_timer: asyncio.TimerHandle | None = None
        self.progress_timer: asyncio.TimerHandle | None = None
        self.ticket: int | None = None
        self.progress = Progress(0, 0)
        self.started_at = 0.0


class Coordinator(Generic[S]):
    """One kind of coordinator on this node. `hosted` returns this node's partitions of its topic."""

    def __init__(
        self,
        *,
        topic: str,
        partition_count: Callable[[], int],
        hosted: Callable[[], Iterable[HostedPartition]],
        new_shard: Callable[[int], S],
        kinds: Kinds,
        clock: Clock,
        slices: Slices,
        write_timeout_ms: int,
        flush: Callable[[HostedPartition], None],
        run_effect: Callable[[int, Any], None],
        codec: Codec = Codec.NONE,
    ) -> None:
        self.topic = topic
        self._partition_count = partition_count
        self._hosted = hosted
        self._new_shard = new_shard
        self._kinds = kinds
        self._clock = clock
        self._slices = slices
        self._write_timeout_ms = write_timeout_ms
        self._flush = flush
        self._run_effect = run_effect
        self._codec = codec
        self._led: dict[int, _LedPartition[S]] = {}

    # Requests

    def partition_for(self, key: str) -> int:
        """The partition that keeps the state of a group or a transactional id."""
        return partition_for(key, self._partition_count())

    def ask(
        self, index: int, decision: Callable[[S, PendingResponse], Result[object]], pending: PendingResponse
    ) -> None:
        """Have a decision made on one shard. It completes `pending` with the response, or fails it."""
        try:
            active = self.active(index)
        except KafkaError as error:
            pending.fail(error)
            return
        active.decide(decision, pending)

    def active(self, index: int) -> ActiveShard[S]:
        """The loaded shard, or CoordinatorLoadInProgress, or NotCoordinator."""
        led = self._led.get(index)
        if led is None:
            raise NotCoordinator(
                f"This node does not lead {self.topic}-{index}; look up the coordinator again."
            )
        if led.active is None:
            raise CoordinatorLoadInProgress(f"{self.topic}-{index} is still loading; retry.")
        return led.active

    def loaded_one(self, index: int) -> ActiveShard[S] | None:
        """The shard, if it is loaded."""
        led = self._led.get(index)
        return None if led is None else led.active

    def loaded(self) -> list[ActiveShard[S]]:
        return [led.active for led in self._led.values() if led.active is not None]

    @property
    def is_any_loading(self) -> bool:
        return any(led.active is None for led in self._led.values())

    # Leadership

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Load and unload shards as leaders change, then notify the shards of other changes."""
        self.update_leadership()
        for active in self.loaded():
            active.carry_out(active.shard.on_metadata(image, delta))

    def update_leadership(self) -> None:
        """Load the partitions that this node leads now, unload the others."""
        leading = {partition.index: partition for partition in self._hosted() if partition.is_leader}
        for index, led in list(self._led.items()):
            partition = leading.get(index)
            if partition is not led.partition or partition.leader_epoch != led.epoch:
                self._unload(led)
        for index, partition in leading.items():
            if index not in self._led:
                led = self._led[index] = _LedPartition(partition)
                self._load(led)

    def close(self) -> None:
        for led in list(self._led.values()):
            self._unload(led)

    def _unload(self, led: _LedPartition[S]) -> None:
        del self._led[led.partition.index]
        if led.job is not None:
            led.job.cancel()
        for handle in (led.retry_timer, led.progress_timer):
            if handle is not None:
                handle.cancel()
        if led.ticket is not None:
            led.partition.growth.remove(led.ticket)
            led.ticket = None
        if led.active is not None:
            led.active.close(NotCoordinator(f"{self.topic}-{led.partition.index} has another leader now."))

    # Loading

    def _load(self, led: _LedPartition[S]) -> None:
        partition = led.partition
        log = partition.log
        led.retry_timer = None
        if log is None:
            return  # its directory is offline: requests fail with COORDINATOR_LOAD_IN_PROGRESS
        shard = self._new_shard(partition.index)
        led.progress = Progress(log.log_start_offset, log.log_end_offset)
        led.started_at = self._clock.monotonic()
        self._load_rest(led, log, shard)

    def _load_rest(self, led: _LedPartition[S], log: Log, shard: S) -> None:
        if led.progress.next_offset >= log.log_end_offset:
            self._on_loaded(led, shard)
            return
        led.job = self._slices.start(
            load_steps(log, shard, self._kinds, led.progress),
            lambda _outcome: self._on_loaded(led, shard),
            lambda error: self._on_load_failed(led, error),
        )
        led.progress_timer = asyncio.get_running_loop().call_later(
            PROGRESS_INTERVAL_S, self._log_progress, led
        )

    def _log_progress(self, led: _LedPartition[S]) -> None:
        progress = led.progress
        logger.info(
            "Loading %s-%d: at offset %d of %d, %d records",
            self.topic,
            led.partition.index,
            progress.next_offset,
            progress.end_offset,
            progress.record_count,
        )
        led.progress_timer = asyncio.get_running_loop().call_later(
            PROGRESS_INTERVAL_S, self._log_progress, led
        )

    def _on_loaded(self, led: _LedPartition[S], shard: S) -> None:
        led.job = None
        if led.progress_timer is not None:
            led.progress_timer.cancel()
            led.progress_timer = None
        if not self._is_committed(led):
            led.ticket = led.partition.growth.add(lambda: self._on_growth(led, shard))
            log = led.partition.log
            if log is not None and log.is_flush_due:
                self._flush(led.partition)  # the earlier leader may have stopped before its flush
            return
        try:
            self._activate(led, shard)
        except Exception as error:  # noqa: BLE001 - it concerns this partition alone
            self._on_load_failed(led, error)

    def _is_committed(self, led: _LedPartition[S]) -> bool:
        """Whether the high watermark has passed what was replayed: no other leader can lack it."""
        log = led.partition.log
        return log is None or log.high_watermark >= led.progress.next_offset

    def _on_growth(self, led: _LedPartition[S], shard: S) -> bool:
        if led.ticket is None:
            return True
        if not self._is_committed(led):
            return False
        led.ticket = None
        log = led.partition.log
        if log is None:
            self._load_later(led)
        else:
            self._load_rest(led, log, shard)  # records that were written meanwhile, for instance a marker
        return True

    def _activate(self, led: _LedPartition[S], shard: S) -> None:
        if led.progress.record_count:
            logger.info(
                "Loaded %s-%d: %d records in %d ms",
                self.topic,
                led.partition.index,
                led.progress.record_count,
                (self._clock.monotonic() - led.started_at) * 1000,
            )
        progress = led.progress
        if progress.unknown_count or progress.unreadable_count:
            logger.warning(
                "%s-%d: skipped %d records of unknown types and %d unreadable records%s",
                self.topic,
                led.partition.index,
                progress.unknown_count,
                progress.unreadable_count,
                f", the first {progress.first_unreadable}" if progress.unreadable_count else "",
            )
        active = ActiveShard(
            led.partition,
            shard,
            clock=self._clock,
            slices=self._slices,
            codec=self._codec,
            write_timeout_ms=self._write_timeout_ms,
            flush=self._flush,
            run_effect=self._run_effect,
            on_failed_append=lambda error: self._on_failed_append(led, error),
        )
        result = shard.on_loaded()
        led.active = active
        active.carry_out(result)

    def _on_load_failed(self, led: _LedPartition[S], error: Exception) -> None:
        """Requests fail with COORDINATOR_LOAD_IN_PROGRESS until the next attempt succeeds."""
        led.job = None
        if led.progress_timer is not None:
            led.progress_timer.cancel()
            led.progress_timer = None
        logger.error(
            "Failed to load %s-%d at offset %d: %s",
            self.topic,
            led.partition.index,
            led.progress.next_offset,
            error,
            exc_info=None if isinstance(error, (KafkaError, OSError, ValueError)) else error,
        )
        self._load_later(led)

    def _on_failed_append(self, led: _LedPartition[S], error: KafkaError) -> None:
        # Too few in-sync replicas are a state of the cluster, not a fault of this node.
        level = logging.WARNING if isinstance(error, NotEnoughReplicas) else logging.ERROR
        logger.log(level, "Failed to write to %s-%d: %s", self.topic, led.partition.index, error)
        led.active = None
        self._load_later(led)

    def _load_later(self, led: _LedPartition[S]) -> None:
        led.retry_timer = asyncio.get_running_loop().call_later(RELOAD_DELAY_S, self._load, led)
