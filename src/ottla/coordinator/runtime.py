"""The runtime of a coordinator: which partitions of its topic this node leads, and what runs on them.

A partition that this node begins to lead is loaded (requests meanwhile: COORDINATOR_LOAD_IN_PROGRESS) and
given up when another node leads it or the epoch changes (NOT_COORDINATOR). What happens on a loaded one is
in `active_shard`. Rules: a shard belongs to one leader epoch, and work of an older epoch finds it closed. It
acts on committed records only: an uncommitted record that it loaded could still be lost.
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
"""What a client of a coordinator is told for an error of the partition behind it."""


def client_error(error: KafkaError) -> KafkaError:
    """The error as a client of a coordinator knows it."""
    cls = _CLIENT_ERRORS.get(type(error))
    return error if cls is None else cls(error.message)


class _Seat(Generic[S]):
    """A partition that this node leads: being loaded, loaded, or waiting to be loaded again."""

    __slots__ = (
        "active",
        "epoch",
        "job",
        "partition",
        "progress",
        "retry",
        "started_at",
        "teller",
        "ticket",
    )

    def __init__(self, partition: HostedPartition) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.active: ActiveShard[S] | None = None
        self.job: Job | None = None
        self.retry: asyncio.TimerHandle | None = None
        self.teller: asyncio.TimerHandle | None = None
        self.ticket: int | None = None
        self.progress = Progress(0, 0)
        self.started_at = 0.0


class Coordinator(Generic[S]):
    """One kind of coordinator on this node. `hosted` finds the partitions of its topic on this node."""

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
        self._seats: dict[int, _Seat[S]] = {}

    # Requests

    def partition_for(self, key: str) -> int:
        """The partition that keeps the state of a group or a transactional id."""
        return partition_for(key, self._partition_count())

    def ask(
        self, index: int, decision: Callable[[S, PendingResponse], Result[Any]], pending: PendingResponse
    ) -> None:
        """Have a decision made on one shard. It completes `pending` with the response, or fails it."""
        try:
            active = self.active(index)
        except KafkaError as error:
            pending.fail(error)
            return
        active.decide(decision, pending)

    def active(self, index: int) -> ActiveShard[S]:
        """The loaded shard; CoordinatorLoadInProgress or NotCoordinator where there is none."""
        seat = self._seats.get(index)
        if seat is None:
            raise NotCoordinator(
                f"This node does not lead {self.topic}-{index}; look up the coordinator again."
            )
        if seat.active is None:
            raise CoordinatorLoadInProgress(f"{self.topic}-{index} is still loading; retry.")
        return seat.active

    def loaded(self) -> list[ActiveShard[S]]:
        return [seat.active for seat in self._seats.values() if seat.active is not None]

    @property
    def is_any_loading(self) -> bool:
        return any(seat.active is None for seat in self._seats.values())

    # What the cluster's metadata says

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Take over changes of leadership, then tell the shards what else changed."""
        self.take_seats()
        for active in self.loaded():
            active.take(active.shard.on_metadata(image, delta))

    def take_seats(self) -> None:
        """Load what this node leads now, give up what it does not."""
        led = {partition.index: partition for partition in self._hosted() if partition.is_leader}
        for index, seat in list(self._seats.items()):
            partition = led.get(index)
            if partition is not seat.partition or partition.leader_epoch != seat.epoch:
                self._leave(seat)
        for index, partition in led.items():
            if index not in self._seats:
                seat = self._seats[index] = _Seat(partition)
                self._load(seat)

    def close(self) -> None:
        for seat in list(self._seats.values()):
            self._leave(seat)

    def _leave(self, seat: _Seat[S]) -> None:
        del self._seats[seat.partition.index]
        if seat.job is not None:
            seat.job.cancel()
        for handle in (seat.retry, seat.teller):
            if handle is not None:
                handle.cancel()
        if seat.ticket is not None:
            seat.partition.growth.remove(seat.ticket)
            seat.ticket = None
        if seat.active is not None:
            seat.active.close(NotCoordinator(f"{self.topic}-{seat.partition.index} has another leader now."))

    # Loading

    def _load(self, seat: _Seat[S]) -> None:
        partition = seat.partition
        log = partition.log
        seat.retry = None
        if log is None:
            return  # its directory is offline: requests are told that it is still loading
        shard = self._new_shard(partition.index)
        seat.progress = Progress(log.log_start_offset, log.log_end_offset)
        seat.started_at = self._clock.monotonic()
        self._load_on(seat, log, shard)

    def _load_on(self, seat: _Seat[S], log: Log, shard: S) -> None:
        if seat.progress.next_offset >= log.log_end_offset:
            self._on_loaded(seat, shard)
            return
        seat.job = self._slices.start(
            load_steps(log, shard, self._kinds, seat.progress),
            lambda _outcome: self._on_loaded(seat, shard),
            lambda error: self._on_load_failed(seat, error),
        )
        seat.teller = asyncio.get_running_loop().call_later(PROGRESS_INTERVAL_S, self._tell, seat)

    def _tell(self, seat: _Seat[S]) -> None:
        progress = seat.progress
        logger.info(
            "Loading %s-%d: at offset %d of %d, %d records",
            self.topic,
            seat.partition.index,
            progress.next_offset,
            progress.end_offset,
            progress.record_count,
        )
        seat.teller = asyncio.get_running_loop().call_later(PROGRESS_INTERVAL_S, self._tell, seat)

    def _on_loaded(self, seat: _Seat[S], shard: S) -> None:
        seat.job = None
        if seat.teller is not None:
            seat.teller.cancel()
            seat.teller = None
        if not self._is_committed(seat):
            seat.ticket = seat.partition.growth.add(lambda: self._on_growth(seat, shard))
            log = seat.partition.log
            if log is not None and log.is_flush_due:
                self._flush(seat.partition)  # who wrote it may not have come to that, and nobody else does
            return
        self._activate(seat, shard)

    def _is_committed(self, seat: _Seat[S]) -> bool:
        """Whether no other node can lead with less than what was replayed."""
        log = seat.partition.log
        return log is None or log.high_watermark >= seat.progress.next_offset

    def _on_growth(self, seat: _Seat[S], shard: S) -> bool:
        if seat.ticket is None:
            return True
        if not self._is_committed(seat):
            return False
        seat.ticket = None
        log = seat.partition.log
        if log is None:
            self._load_later(seat)
        else:
            self._load_on(seat, log, shard)  # what was written meanwhile, the end of a transaction, say
        return True

    def _activate(self, seat: _Seat[S], shard: S) -> None:
        if seat.progress.record_count:
            logger.info(
                "Loaded %s-%d: %d records in %d ms",
                self.topic,
                seat.partition.index,
                seat.progress.record_count,
                (self._clock.monotonic() - seat.started_at) * 1000,
            )
        progress = seat.progress
        if progress.unknown_count or progress.unreadable_count:
            logger.warning(
                "%s-%d: skipped %d records of unknown types and %d unreadable records%s",
                self.topic,
                seat.partition.index,
                progress.unknown_count,
                progress.unreadable_count,
                f", the first {progress.first_unreadable}" if progress.unreadable_count else "",
            )
        active = ActiveShard(
            seat.partition,
            shard,
            clock=self._clock,
            slices=self._slices,
            codec=self._codec,
            write_timeout_ms=self._write_timeout_ms,
            flush=self._flush,
            run_effect=self._run_effect,
            on_broken=lambda error: self._on_broken(seat, error),
        )
        result = shard.on_loaded()
        seat.active = active
        active.take(result)

    def _on_load_failed(self, seat: _Seat[S], error: Exception) -> None:
        """Requests are told that it is still loading, and the log says why; it is tried again."""
        seat.job = None
        if seat.teller is not None:
            seat.teller.cancel()
            seat.teller = None
        logger.error(
            "Failed to load %s-%d at offset %d: %s",
            self.topic,
            seat.partition.index,
            seat.progress.next_offset,
            error,
            exc_info=None if isinstance(error, (KafkaError, OSError, ValueError)) else error,
        )
        self._load_later(seat)

    def _on_broken(self, seat: _Seat[S], error: KafkaError) -> None:
        # Too few replicas in sync is a state of the cluster, which ends by itself.
        level = logging.WARNING if isinstance(error, NotEnoughReplicas) else logging.ERROR
        logger.log(level, "Failed to write to %s-%d: %s", self.topic, seat.partition.index, error)
        seat.active = None
        self._load_later(seat)

    def _load_later(self, seat: _Seat[S]) -> None:
        seat.retry = asyncio.get_running_loop().call_later(RELOAD_DELAY_S, self._load, seat)
