"""Decides the outcome of a producer's batches: each is completed, retried, split or failed.

Rules: a batch that is retried returns to the front of its queue, behind those with lower sequences, so that
order is kept. A batch ends once: `_end` frees its memory, calls its callbacks and wakes its waiters. A batch
whose request was sent and not answered is uncertain from then on, and its report says so if it fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import Accumulator, Batch, PartitionQueue
from ottla.client.core.idempotence import Idempotence, PartitionSequences, comes_before
from ottla.client.core.metadata import Node
from ottla.client.errors import (
    AbortableError,
    Closed,
    ConnectionRefused,
    ConnectTimedOut,
    Disconnected,
    NameNotResolved,
    NodeUnknown,
    TimedOut,
)
from ottla.client.net.cluster import Cluster
from ottla.client.producer.state import MemoryWaiters, ProducerState
from ottla.client.producer.transactions import TransactionRunner
from ottla.client.values import Status
from ottla.ports import Clock
from ottla.records.batch import increment_sequence
from ottla.records.builder import BatchBuilder
from ottla.records.record import read_batch
from ottla.wire.errors import ErrorCode, InvalidRecord, KafkaError, for_code
from ottla.wire.messages.produce import ProduceResponse

log = logging.getLogger(__name__)

_LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_PERHAPS_WRITTEN = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
_NEVER_SENT = (ConnectionRefused, ConnectTimedOut, NameNotResolved, NodeUnknown)


class BatchOutcomes:
    """The outcomes of one producer's batches, by the brokers' responses and by time; on the loop's thread."""

    def __init__(
        self,
        settings: ProducerSettings,
        clock: Clock,
        cluster: Cluster,
        accumulator: Accumulator,
        idempotence: Idempotence | None,
        transactions: TransactionRunner | None,
        state: ProducerState,
        memory: MemoryWaiters,
        counts: dict[str, int],
        *,
        pass_on: Callable[[BaseException], None],
    ) -> None:
        """`pass_on` receives Ctrl-C and `sys.exit()` of delivery callbacks."""
        self._settings = settings
        self._clock = clock
        self._cluster = cluster
        self._accumulator = accumulator
        self._idempotence = idempotence
        self._transactions = transactions
        self._state = state
        self._memory = memory
        self._counts = counts
        self._pass_on = pass_on
        self._delivery_seconds = settings.delivery_timeout_ms / 1000

    # Answers

    def request_failed(self, batches: list[Batch], error: BaseException) -> None:
        is_retriable = isinstance(error, Disconnected)
        if is_retriable:
            self._cluster.request_refresh()
        for batch in batches:
            if batch.is_done:
                continue
            if not isinstance(error, _NEVER_SENT):
                batch.is_doubtful = True
            if is_retriable and self._has_retries(batch):
                self.retry(batch, wait=True)
            else:
                self._fail(batch, error if isinstance(error, Exception) else Closed(str(error)))

    def answered(self, batches: list[Batch], answer: ProduceResponse) -> None:
        by_place = {(batch.queue.topic.name, batch.queue.index): batch for batch in batches}
        names = self._cluster.view.topic_names
        for topic in answer.responses:
            name = topic.name or names.get(topic.topic_id)
            if name is None:  # a topic of this name was deleted and created again
                same = [one for one in batches if one.queue.topic.view.topic_id == topic.topic_id]
                name = same[0].queue.topic.name if same else ""
            for result in topic.partition_responses:
                batch = by_place.pop((name, result.index), None)
                if batch is not None and not batch.is_done:
                    self._decide(batch, result, answer)
        if by_place:
            missing = Disconnected("The broker's response lacks some of the batches that were sent.")
            self.request_failed(list(by_place.values()), missing)

    def _decide(
        self, batch: Batch, result: ProduceResponse.PartitionProduceResponse, answer: ProduceResponse
    ) -> None:
        code = result.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.complete(batch, result.base_offset, result.log_append_time_ms)
            return
        if code in _PERHAPS_WRITTEN:
            batch.is_doubtful = True
        has_hint = code in _LEADER_MOVED and self._follow_hint(batch, result, answer)
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif self._has_retries(batch) and self._may_retry(batch, code, result.log_start_offset):
            self.retry(batch, wait=not has_hint)
        else:
            error: KafkaError = for_code(code)(result.error_message)
            if result.record_errors:
                batch.record_errors = {
                    one.batch_index: InvalidRecord(one.batch_index_error_message or result.error_message)
                    for one in result.record_errors
                }
                error = InvalidRecord(
                    result.error_message
                    or "Other records of the same batch were rejected, and with them the whole batch."
                )
            self._fail(batch, error)

    def _follow_hint(
        self, batch: Batch, result: ProduceResponse.PartitionProduceResponse, answer: ProduceResponse
    ) -> bool:
        leader = result.current_leader
        if leader is not None and leader.leader_id >= 0:
            endpoint = next((one for one in answer.node_endpoints if one.node_id == leader.leader_id), None)
            node = None if endpoint is None else Node(endpoint.node_id, endpoint.host, endpoint.port)
            queue = batch.queue
            if self._cluster.update_leader(
                queue.topic.name, queue.index, leader.leader_id, leader.leader_epoch, node
            ):
                return True
        self._cluster.request_refresh()
        return False

    def _has_retries(self, batch: Batch) -> bool:
        if self._transactions is not None and self._transactions.drops_unsent:
            return False
        age = self._clock.monotonic() - batch.created
        return batch.attempts <= self._settings.retries and age < self._delivery_seconds

    def _may_retry(self, batch: Batch, code: int, log_start_offset: int) -> bool:
        if self._idempotence is None or batch.sequence < 0:
            return for_code(code).retriable
        return self._idempotence.may_retry(batch.queue.sequences, batch, code, log_start_offset)

    def retry(self, batch: Batch, *, wait: bool) -> None:
        """Put a batch back into its queue, in sequence order."""
        self._counts["retries"] += 1
        queue = batch.queue
        self._put_back(queue, [batch])
        if wait:
            delay_ms = self._cluster.backoff.delay_ms(batch.attempts - 1)
            queue.blocked_until = self._clock.monotonic() + delay_ms / 1000
        else:
            queue.blocked_until = 0.0

    def _put_back(self, queue: PartitionQueue, batches: list[Batch]) -> None:
        """Put it at the front of the queue, behind retried ones with lower sequences."""
        first = batches[0].sequence
        position = 0
        if first >= 0:
            waiting = list(queue.batches)
            while (
                position < len(waiting)
                and waiting[position].sequence >= 0
                and comes_before(waiting[position].sequence, first)
            ):
                position += 1
        for batch in reversed(batches):
            queue.batches.insert(position, batch)
        self._accumulator.active[queue] = None

    def _split(self, batch: Batch) -> None:
        """Split a batch that the broker finds too large into several, of half the size at most."""
        self._counts["splits"] += 1
        queue, accumulator = batch.queue, self._accumulator
        records = read_batch(batch.builder.build(), 0)
        size_max = max(1, min(accumulator.batch_size, batch.builder.bytes_estimate // 2))
        if batch.is_split or batch.count == 2:
            size_max = max(1, batch.builder.bytes_estimate // 2)
        pieces: list[Batch] = []
        builder: BatchBuilder | None = None
        for record in records:
            if builder is None or not builder.append(
                record.timestamp, record.key, record.value, record.headers
            ):
                builder = BatchBuilder(codec=accumulator.codec, level=accumulator.level, batch_size=size_max)
                builder.append(record.timestamp, record.key, record.value, record.headers)
                piece = Batch(queue, builder, batch.created, 0)
                piece.is_split, piece.is_open = True, False
                piece.is_doubtful = batch.is_doubtful
                pieces.append(piece)
        queue.topic.may_grow = False
        if accumulator.codec:
            queue.topic.ratio = 1.0
        pieces[0].reserved, batch.reserved = batch.reserved, 0
        self._number_pieces(batch, pieces)
        for piece in pieces:
            accumulator.incomplete[piece] = None
        accumulator.incomplete.pop(batch, None)
        self._put_back(queue, pieces)
        queue.blocked_until = 0.0
        batch.hand_over(pieces)
        batch.builder.release()

    def _number_pieces(self, batch: Batch, pieces: list[Batch]) -> None:
        if self._idempotence is None or batch.sequence < 0:
            return
        sequences: PartitionSequences = batch.queue.sequences
        sequences.remove(batch)
        sequence = batch.sequence
        for piece in pieces:
            piece.producer_id, piece.producer_epoch = batch.producer_id, batch.producer_epoch
            piece.sequence = sequence
            sequence = increment_sequence(sequence, piece.count)
            sequences.add(piece)

    # Ends

    def complete(self, batch: Batch, base_offset: int, log_append_time: int) -> None:
        batch.base_offset = base_offset
        batch.log_append_time = log_append_time
        if batch.builder.bytes_estimate > batch.queue.topic.proven_bytes:
            batch.queue.topic.proven_bytes = batch.builder.bytes_estimate
        batch.status = Status.POSSIBLY_PERSISTED if self._settings.acks == 0 else Status.PERSISTED
        if self._idempotence is not None:
            batch.queue.sequences.acknowledge(batch)
        self._end(batch)

    def _fail(self, batch: Batch, error: Exception) -> None:
        """Fail a batch."""
        batch.error = error
        batch.status = Status.POSSIBLY_PERSISTED if batch.is_doubtful else Status.NOT_PERSISTED
        code = int(error.code) if isinstance(error, KafkaError) else -1
        if self._idempotence is not None and batch.queue.sequences is not None:
            was_refused = not batch.is_doubtful and not batch.is_in_flight
            self._idempotence.failed(batch.queue.sequences, batch, code, was_refused=was_refused)
        if self._transactions is not None:
            self._transactions.batch_failed(error)
        elif code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.PRODUCER_FENCED):
            self._state.fail(error)
        if self._accumulator.is_fast:
            self._state.update_fast()
        self._end(batch)

    def _end(self, batch: Batch) -> None:
        batch.is_done = True
        self._counts["records_sent" if batch.error is None else "records_failed"] += batch.count
        self._accumulator.release(batch)
        if batch.watched:
            for failure in batch.call_back():
                log.error("A delivery callback failed.", exc_info=failure)
                if not isinstance(failure, Exception):
                    self._pass_on(failure)
        batch.notify()
        if self._memory:
            self._memory.notify_if_free()

    def fail_expired(self, now: float) -> float:
        """Fail expired batches; return when the next one expires."""
        oldest: Batch | None = self._accumulator.oldest()
        if oldest is None:
            return float("inf")
        if oldest.created + self._delivery_seconds > now:
            return oldest.created + self._delivery_seconds
        for batch in list(self._accumulator.incomplete):
            if batch.created + self._delivery_seconds <= now and not batch.is_done:
                self._fail_late(batch)
        return now + 0.1

    def _fail_late(self, batch: Batch) -> None:
        queue = batch.queue
        reason = f" ({self._cluster.last_error})" if self._cluster.last_error is not None else ""
        late = TimedOut(
            f"{batch.count} records for {queue} were not acknowledged within delivery.timeout.ms "
            f"({self._settings.delivery_timeout_ms} ms){reason}."
        )
        if batch.is_in_flight:
            batch.is_doubtful = True
        elif batch in queue.batches:
            self._accumulator.seal(queue, batch)
            queue.batches.remove(batch)
        self._fail(batch, late)

    def fail_unsent(self, error: Exception) -> None:
        """Fail everything that is not in flight."""
        for queue in list(self._accumulator.active):
            while queue.batches:
                self.fail_first(queue, error)

    def fail_first(self, queue: PartitionQueue, error: Exception) -> None:
        """Fail the batch that would be sent next."""
        batch: Batch = queue.batches.popleft()
        self._accumulator.seal(queue, batch)
        self._fail(batch, error)

    def fail_all(self, error: Exception) -> None:
        """Fail everything: the producer can no longer send."""
        if not isinstance(error, AbortableError):
            self._state.fail(error)
        self._state.update_fast()
        for batch in list(self._accumulator.incomplete):
            if not batch.is_done:
                if batch.is_in_flight:
                    batch.is_doubtful = True
                elif batch in batch.queue.batches:
                    self._accumulator.seal(batch.queue, batch)
                    batch.queue.batches.remove(batch)
                self._fail(batch, error)
        self._memory.notify()
