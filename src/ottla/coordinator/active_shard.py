"""A loaded shard: makes decisions, appends their records, and responds once those are committed.

The records of all decisions in one turn of the event loop are appended as one batch. Rule: the state never
exceeds the log. Records are replayed when they are decided, and appended before the turn ends; if the append
fails, the shard is closed and loaded again from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.coordinator.records import encode
from ottla.coordinator.result import HELD, Record, Result, StartTimer, Task, TransactionalWrite
from ottla.coordinator.slices import Job, Slices
from ottla.coordinator.timers import Decision, Timers
from ottla.rare_paths import ON_PURPOSE, rarely
from ottla.records.batch import Codec
from ottla.records.builder import BatchBuilder
from ottla.records.record import Record as LogRecord
from ottla.records.record import build_batch
from ottla.records.validate import Origin
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    RequestTimedOut,
    UnknownServerError,
)

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.coordinator.encoded_record import EncodedRecord
    from ottla.log.log import Appended, Log
    from ottla.log.producer_state import VerificationGuard
    from ottla.ports import Clock
    from ottla.waiting.watch_list import WatchList

logger = logging.getLogger("ottla.coordinator")

TIMER_RETRY_MS = 500
"""A decision of a timer whose records could not be appended is repeated after this."""

_RECORD_OVERHEAD_BYTES = 32  # more than the framing of one record
_BATCH_OVERHEAD_BYTES = 61
_COMPRESSION_OVERHEAD_BYTES = 32  # and less than 1/512 of the records
_BATCH_BYTES_MAX = 2 << 20
"""More decisions than fit into this are several batches. One decision may be larger."""


class HostedPartition(Protocol):
    """A partition of the internal topic that this node leads: see `server.replicas.partition`."""

    topic: str
    index: int
    leader_epoch: int
    is_leader: bool
    isr: list[int]
    min_insync_replicas: int
    log: Log | None

    @property
    def growth(self) -> WatchList: ...

    def append(
        self,
        records: memoryview,
        *,
        acks: int,
        now_ms: int,
        origin: Origin = ...,
        transaction_version: int = ...,
        guard: VerificationGuard | None = ...,
    ) -> Appended: ...

    def append_own(self, batch: bytearray, now_ms: int) -> None: ...


class Shard(Protocol):
    """The state of one partition, as a pure state machine."""

    settings: Any

    def replay(self, record: Record, *, producer_id: int = -1, producer_epoch: int = -1) -> None: ...

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None: ...

    def on_loaded(self) -> Result[None]:
        """The load is complete: start timers and tasks."""

    def on_unloaded(self) -> list[PendingResponse]:
        """The shard is closed: the pending responses that its state holds."""

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> Result[None]: ...


S = TypeVar("S", bound=Shard)


class _Turn:
    """The responses and effects of one batch: they wait until it is committed, up to `end_offset`."""

    __slots__ = ("deadline", "effects", "end_offset", "responses")

    def __init__(self) -> None:
        self.end_offset = -1
        self.deadline = 0.0
        self.responses: list[tuple[PendingResponse, Any]] = []
        self.effects: list[Any] = []


class ActiveShard(Generic[S]):
    """See the module. `on_failed_append` is called when the log lacks records that the state has."""

    def __init__(
        self,
        partition: HostedPartition,
        shard: S,
        *,
        clock: Clock,
        slices: Slices,
        codec: Codec,
        write_timeout_ms: int,
        flush: Callable[[HostedPartition], None],
        run_effect: Callable[[int, Any], None],
        on_failed_append: Callable[[KafkaError], None],
    ) -> None:
        self.partition = partition
        self.shard = shard
        self.is_open = True
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._slices = slices
        self._codec = codec
        self._write_timeout_s = write_timeout_ms / 1000
        self._flush_log = flush
        self._run_effect = run_effect
        self._on_failed_append = on_failed_append
        self._timers = Timers(self._loop, self._decide_for_timer)
        self._jobs: dict[Hashable, Job[Any]] = {}
        self._turn = _Turn()
        self._batch: BatchBuilder | None = None  # the records of this turn
        self._batch_bytes = _BATCH_OVERHEAD_BYTES
        self._uncommitted: deque[_Turn] = deque()
        self._watcher = self._on_growth
        self._ticket: int | None = None
        self._time_limit: asyncio.TimerHandle | None = None

    # Decisions

    def decide(
        self, decision: Callable[[S, PendingResponse], Result[object]], pending: PendingResponse
    ) -> None:
        """Make a decision for a request. It completes `pending` once the state that it saw is committed."""
        try:
            result = decision(self.shard, pending)
        except KafkaError as error:
            pending.fail(error)
            return
        except Exception:  # the last line of defence: one request fails, not the node
            logger.exception("Unexpected error in a request to %s", self._name)
            pending.fail(UnknownServerError("Unexpected error in the coordinator; see the log of this node."))
            return
        self.carry_out(result, pending)

    def carry_out(self, result: Result[object], pending: PendingResponse | None = None) -> bool:
        """Carry out a result. False: the log rejected its records, and nothing of it has happened."""
        if result.records:
            try:
                if result.transaction is not None:
                    self._append_transactional(result.records, result.transaction)
                else:
                    self._add(result.records)
            except KafkaError as error:
                if not self.is_open:
                    error = _retriable(error)
                self._reject(result, pending, error)
                return False
        for timer in result.timers:
            if type(timer) is StartTimer:
                self._timers.start(timer.key, timer.delay_ms, timer.decision)
            else:
                self._timers.stop(timer.key)
        for task in result.tasks:
            self._start_task(task)
        if self._batch is not None:
            turn = self._turn
        elif self._uncommitted:
            turn = self._open_turn()
        else:
            if pending is not None and result.response is not HELD:
                pending.complete(result.response)
            for held, response in result.late_responses:
                self._attempt(held.complete, response)
            for effect in result.effects:
                self._attempt(self._run_effect, self.partition.index, effect)
            return True
        if pending is not None and result.response is not HELD:
            turn.responses.append((pending, result.response))
        turn.responses += result.late_responses
        turn.effects += result.effects
        return True

    def _open_turn(self) -> _Turn:
        """What is to wait for the newest uncommitted batch, with a deadline that is not over yet."""
        last = self._uncommitted[-1]
        now = self._loop.time()
        if last.end_offset < 0 or last.deadline > now:
            return last
        turn = _Turn()
        turn.end_offset = last.end_offset
        turn.deadline = now + self._write_timeout_s
        self._uncommitted.append(turn)
        if self._time_limit is None:
            self._time_limit = self._loop.call_at(turn.deadline, self._on_time_limit)
        return turn

    def _reject(self, result: Result[object], pending: PendingResponse | None, error: KafkaError) -> None:
        if result.on_failed is not None and self.is_open:
            self.carry_out(result.on_failed(error))
        if pending is not None:
            pending.fail(error)
        for held, _response in result.late_responses:
            held.fail(error)

    def _decide_for_timer(self, decision: Decision) -> None:
        """A timer's decision must take effect: if its records are rejected now, it is repeated later."""
        try:
            result = decision()
        except Exception:
            logger.exception("Unexpected error in a timer of %s", self._name)
            return
        if not self.carry_out(result) and self.is_open:
            self._timers.start(("retry", id(decision)), TIMER_RETRY_MS, decision)

    # Records

    def _add(self, records: list[Record]) -> None:
        """Replay records and add them to the batch of this turn."""
        log = self._writable_log()
        now_ms = self._clock.now_ms()
        encoded: list[tuple[bytes, bytes | None]] = []
        size, most = 0, self._batch_bytes_max(log)
        for record in records:
            key, value = encode(record)
            size += len(key) + (0 if value is None else len(value)) + _RECORD_OVERHEAD_BYTES
            if size + _BATCH_OVERHEAD_BYTES > most:  # encode no more: each holds the name of the group
                raise MessageTooLarge(
                    f"The operation needs at least {size} bytes of records, which exceeds the limit of "
                    f"{most} for {self._name}."
                )
            encoded.append((key, value))
        if self._batch is not None and self._batch_bytes + size > min(most, _BATCH_BYTES_MAX):
            self._flush_before_more()
        batch = self._open_batch(size)
        for key, value in encoded:
            batch.append_packed(now_ms, key, value, 0, None)
        with self._closing_if_not_replayed():
            for record in records:
                self.shard.replay(record)

    def add_encoded(
        self,
        records: Sequence[EncodedRecord],
        size: int,
        now_ms: int,
        timer: StartTimer | None,
        pending: PendingResponse,
        response: object,
    ) -> bool:
        """Carry out a decision that only has encoded records of this many bytes, a response and a timer.

        It does the same as `carry_out`. False: something speaks against it, and nothing has happened.
        """
        partition = self.partition
        log = partition.log
        if (
            not self.is_open
            or log is None
            or not partition.is_leader
            or len(partition.isr) < partition.min_insync_replicas
        ):
            return False
        size += len(records) * _RECORD_OVERHEAD_BYTES
        if self._batch_bytes + size > min(self._batch_bytes_max(log), _BATCH_BYTES_MAX):
            return False
        append = self._open_batch(size).append_packed
        replay = self.shard.replay
        for record in records:
            append(now_ms, record.key_bytes, record.value_bytes, 0, None)
        try:
            for record in records:
                replay(record)
        except Exception as error:  # noqa: BLE001  it is logged
            pending.fail(_retriable(self._not_replayed(error)))
            return True
        if timer is not None:
            self._timers.start(timer.key, timer.delay_ms, timer.decision)
        self._turn.responses.append((pending, response))
        return True

    def answer(self, pending: PendingResponse, response: object) -> None:
        """Carry out a decision that only has a response."""
        if self._batch is not None:
            self._turn.responses.append((pending, response))
        elif self._uncommitted:
            self._open_turn().responses.append((pending, response))
        else:
            pending.complete(response)

    def _batch_bytes_max(self, log: Log) -> int:
        """The maximum of a batch before compression, which lets incompressible records grow a little."""
        most = log.config.max_message_bytes
        return most - (most >> 9) - _COMPRESSION_OVERHEAD_BYTES if self._codec else most

    def _open_batch(self, size: int) -> BatchBuilder:
        """The batch of this turn, which gets `size` more bytes."""
        batch = self._batch
        if batch is None:
            self._loop.call_soon(self.flush)
            # This class keeps to the limits: the builder's, which is an estimate, must never be reached.
            limit = 2 * (max(size, _BATCH_BYTES_MAX) + _BATCH_OVERHEAD_BYTES)
            batch = self._batch = BatchBuilder(codec=self._codec, batch_size=limit)
        self._batch_bytes += size
        return batch

    @contextmanager
    def _closing_if_not_replayed(self) -> Iterator[None]:
        """If the replay fails, the state is inconsistent: load it again from the log."""
        try:
            yield
        except Exception as error:
            raise self._not_replayed(error) from error

    def _not_replayed(self, error: Exception) -> KafkaError:
        logger.error("%s failed to replay its own records", self._name, exc_info=error)
        failure = UnknownServerError(f"{type(error).__name__}: {error}")
        self._fail(failure)
        return failure

    def _flush_before_more(self) -> None:
        """Append the records so far. NotEnoughReplicas: that failed, and closed the shard."""
        self.flush()
        if not self.is_open:
            raise NotEnoughReplicas(f"{self._name} rejected the records before these.")

    def flush(self) -> None:
        """Append the records of this turn."""
        builder = self._batch
        if builder is None or not self.is_open:
            return
        self._batch = None
        turn, self._turn = self._turn, _Turn()
        self._batch_bytes = _BATCH_OVERHEAD_BYTES
        self._uncommitted.append(turn)  # before the append: if it fails, so must these responses
        batch = builder.build()
        try:
            if rarely("a coordinator cannot write"):
                raise NotEnoughReplicas(f"{self._name}: {ON_PURPOSE}.")
            try:
                self.partition.append_own(batch, self._clock.now_ms())
            except OSError as error:
                raise KafkaStorageError(str(error)) from error
            if rarely("a coordinator does not know whether it has written"):
                raise KafkaStorageError(f"{self._name}: {ON_PURPOSE}.")
        except KafkaError as error:
            self._fail(error)
            return
        self._wait_for_commit(turn)

    def _append_transactional(self, records: list[Record], write: TransactionalWrite) -> None:
        """Append records of a transaction: before the replay, since the log may reject them."""
        self._writable_log()
        self._flush_before_more()
        now_ms = self._clock.now_ms()
        batch = build_batch(
            [LogRecord(0, now_ms, *encode(record), ()) for record in records],
            codec=self._codec,
            producer_id=write.producer_id,
            producer_epoch=write.producer_epoch,
            base_sequence=0,  # without meaning; Kafka writes it, and DescribeProducers shows it
            transactional=True,
        )
        try:
            self.partition.append(
                memoryview(batch),
                acks=-1,
                now_ms=now_ms,
                origin=Origin.COORDINATOR,
                transaction_version=write.transaction_version,
                guard=write.guard,
            )
        except OSError as error:
            raise KafkaStorageError(str(error)) from error
        turn = _Turn()
        self._uncommitted.append(turn)
        with self._closing_if_not_replayed():
            for record in records:
                self.shard.replay(record, producer_id=write.producer_id, producer_epoch=write.producer_epoch)
        self._wait_for_commit(turn, release=False)
        self._loop.call_soon(self._release)

    def write_marker(
        self, write: Callable[[], None], producer_id: int, producer_epoch: int, *, is_commit: bool
    ) -> None:
        """End a transaction: `write` appends its marker to the partition.

        Its records take effect at once; responses to those who read them wait until the marker is committed.
        """
        self._flush_before_more()
        write()
        turn = _Turn()
        self._uncommitted.append(turn)
        with self._closing_if_not_replayed():
            self.shard.replay_end_transaction(producer_id, producer_epoch, is_commit)
        self._wait_for_commit(turn)

    def _writable_log(self) -> Log:
        partition = self.partition
        log = partition.log
        if log is None or not partition.is_leader:
            raise NotEnoughReplicas(f"This node cannot write to {self._name}.")
        if len(partition.isr) < partition.min_insync_replicas:
            raise NotEnoughReplicas(
                f"{self._name} has {len(partition.isr)} in-sync replicas "
                f"and needs {partition.min_insync_replicas}."
            )
        return log

    # Commitment

    def _wait_for_commit(self, turn: _Turn, *, release: bool = True) -> None:
        log = self.partition.log
        if log is None:
            return
        turn.end_offset = log.log_end_offset
        turn.deadline = self._loop.time() + self._write_timeout_s
        if log.is_flush_due:
            self._flush_log(self.partition)
        if release:
            self._release()

    def _on_growth(self) -> bool:
        self._release()
        return self._ticket is None

    def _release(self) -> None:
        """Complete the responses and run the effects of committed batches."""
        log = self.partition.log
        waiting = self._uncommitted
        while waiting and log is not None and 0 <= waiting[0].end_offset <= log.high_watermark:
            turn = waiting.popleft()
            for pending, response in turn.responses:
                try:
                    pending.complete(response)
                except Exception:  # noqa: BLE001  likewise
                    self._note_failure()
            for effect in turn.effects:
                self._attempt(self._run_effect, self.partition.index, effect)
        if waiting and self.is_open:
            if self._ticket is None:
                self._ticket = self.partition.growth.add(self._watcher)
            if self._time_limit is None:
                self._time_limit = self._loop.call_at(waiting[0].deadline, self._on_time_limit)
        elif self._ticket is not None:
            self.partition.growth.remove(self._ticket)
            self._ticket = None

    def _attempt(self, action: Callable[..., None], *arguments: Any) -> None:
        """Complete a response or run an effect. If that fails, no other of the shard may be lost with it."""
        try:
            action(*arguments)
        except Exception:  # noqa: BLE001  it is logged
            self._note_failure()

    def _note_failure(self) -> None:
        logger.exception("Unexpected error in a response or an effect of %s", self._name)

    def _on_time_limit(self) -> None:
        """The replicas are slow: fail the responses that have waited long enough. The records stay."""
        self._time_limit = None
        now = self._loop.time()
        for turn in self._uncommitted:
            if turn.deadline <= now:
                late, turn.responses = turn.responses, []
                for pending, _response in late:
                    pending.fail(
                        RequestTimedOut(
                            "The replicas of the coordinator's partition did not acknowledge the write in "
                            "time."
                        )
                    )
        open_deadlines = [turn.deadline for turn in self._uncommitted if turn.deadline > now]
        if open_deadlines:
            self._time_limit = self._loop.call_at(open_deadlines[0], self._on_time_limit)

    # Long work

    def _start_task(self, task: Task) -> None:
        earlier = self._jobs.pop(task.key, None)
        if earlier is not None:
            earlier.cancel()

        def on_done(outcome: Any) -> None:
            del self._jobs[task.key]
            self._decide_for_timer(lambda: task.decision(outcome))

        def on_error(error: Exception) -> None:
            del self._jobs[task.key]
            logger.error("Unexpected error in a background task of %s", self._name, exc_info=error)

        self._jobs[task.key] = self._slices.start(task.steps, on_done, on_error)

    # The end

    def _fail(self, error: KafkaError) -> None:
        self.close(_retriable(error))
        self._on_failed_append(error)

    def close(self, error: KafkaError) -> None:
        """Close the shard: all pending responses fail with the error."""
        if not self.is_open:
            return
        self.is_open = False
        self._timers.stop_all()
        for job in self._jobs.values():
            job.cancel()
        self._jobs.clear()
        if self._ticket is not None:
            self.partition.growth.remove(self._ticket)
            self._ticket = None
        if self._time_limit is not None:
            self._time_limit.cancel()
        waiting = [*self._uncommitted, self._turn]
        self._uncommitted.clear()
        self._batch = None
        for turn in waiting:
            for pending, _response in turn.responses:
                self._attempt(pending.fail, error)
        for pending in self.shard.on_unloaded():
            self._attempt(pending.fail, error)

    @property
    def _name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"


def _retriable(error: KafkaError) -> KafkaError:
    """The error for requests that fail with the shard: clients are to retry, whatever the cause."""
    return error if error.retriable else NotEnoughReplicas(str(error))
