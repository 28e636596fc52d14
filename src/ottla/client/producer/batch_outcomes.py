"""What becomes of a producer's batches: done, tried again, split, or given up, and who is told of it.

Rules: a batch that is tried again goes back to the front of its queue, behind those with lower sequences, so
that order holds. A batch ends once: `_end` frees its memory, calls its callbacks and wakes who waits. A batch
whose request was sent and not answered is doubtful from then on, and its report says so if it fails.
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
from ottla.client.producer.transactions import TransactionRunner
from ottla.client.values import Status
from ottla.ports import Clock
from ottla.records.batch import increment_sequence
from ottla.records.builder import BatchBuilder
from ottla.records.record import read_batch
from ottla.wire.errors import ErrorCode, InvalidRecord, KafkaError, for_code
from ottla.wire.messages.produce import ProduceResponse

log = logging.getLogger(__name__)

_MOVED = frozenset(
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


class Settling:
    """The part of a producer's engine that ends batches. `Engine` adds what sends them."""

    settings: ProducerSettings
    cluster: Cluster
    accumulator: Accumulator
    idempotence: Idempotence | None
    transactions: TransactionRunner | None

    def __init__(self, settings: ProducerSettings, clock: Clock) -> None:
        self.settings = settings
        self.transactions = None
        self.fatal: Exception | None = None
        self.is_closed = False
        self.is_leaving = False
        self.counts = {"records_sent": 0, "records_failed": 0, "requests": 0, "retries": 0, "splits": 0}
        self.may_be_fast = False
        """Whether records need no call of Python code on their way: the producer's class knows."""
        self.room_wanted: list[Callable[[], object]] = []
        """Called when memory has become free."""
        self.clock = clock
        self._delivery_seconds = settings.delivery_timeout_ms / 1000

    def wake(self) -> None:
        """Have a turn soon: `Engine` knows how."""
        raise AssertionError("an engine has turns")

    def pass_on(self, failure: BaseException) -> None:
        """A callback wants to end the program: `Engine` knows whose loop this is."""
        raise AssertionError("an engine knows its loop")

    def update_fast(self) -> None:
        """Whether `send` may take the short way, after anything that it depends on has changed."""
        is_taking = self.transactions is None or self.transactions.is_taking
        is_usable = self.fatal is None and not self.is_closed and not self.is_leaving
        self.accumulator.is_fast = self.may_be_fast and is_taking and is_usable

    # Answers

    def lost(self, batches: list[Batch], error: BaseException) -> None:
        is_retriable = isinstance(error, Disconnected)
        if is_retriable:
            self.cluster.request_refresh()
        for batch in batches:
            if batch.is_done:
                continue
            if not isinstance(error, _NEVER_SENT):
                batch.is_doubtful = True
            if is_retriable and self._has_tries(batch):
                self._again(batch, wait=True)
            else:
                self._fail(batch, error if isinstance(error, Exception) else Closed(str(error)))

    def sort_answers(self, batches: list[Batch], answer: ProduceResponse) -> None:
        by_place = {(batch.queue.topic.name, batch.queue.index): batch for batch in batches}
        names = self.cluster.view.topic_names
        for topic in answer.responses:
            name = topic.name or names.get(topic.topic_id)
            if name is None:  # a topic of this name was made anew meanwhile
                same = [one for one in batches if one.queue.topic.view.topic_id == topic.topic_id]
                name = same[0].queue.topic.name if same else ""
            for told in topic.partition_responses:
                batch = by_place.pop((name, told.index), None)
                if batch is not None and not batch.is_done:
                    self._judge(batch, told, answer)
        if by_place:
            missing = Disconnected("The broker's answer says nothing of some of the batches sent.")
            self.lost(list(by_place.values()), missing)

    def _judge(
        self, batch: Batch, told: ProduceResponse.PartitionProduceResponse, answer: ProduceResponse
    ) -> None:
        code = told.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.finish(batch, told.base_offset, told.log_append_time_ms)
            return
        if code in _PERHAPS_WRITTEN:
            batch.is_doubtful = True
        has_hint = code in _MOVED and self._follow_hint(batch, told, answer)
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif self._has_tries(batch) and self._may_retry(batch, code, told.log_start_offset):
            self._again(batch, wait=not has_hint)
        else:
            error: KafkaError = for_code(code)(told.error_message)
            if told.record_errors:
                batch.record_errors = {
                    one.batch_index: InvalidRecord(one.batch_index_error_message or told.error_message)
                    for one in told.record_errors
                }
                error = InvalidRecord(
                    told.error_message or "Other records of the same batch were refused, so all of it was."
                )
            self._fail(batch, error)

    def _follow_hint(
        self, batch: Batch, told: ProduceResponse.PartitionProduceResponse, answer: ProduceResponse
    ) -> bool:
        leader = told.current_leader
        if leader is not None and leader.leader_id >= 0:
            endpoint = next((one for one in answer.node_endpoints if one.node_id == leader.leader_id), None)
            node = None if endpoint is None else Node(endpoint.node_id, endpoint.host, endpoint.port)
            queue = batch.queue
            if self.cluster.update_leader(
                queue.topic.name, queue.index, leader.leader_id, leader.leader_epoch, node
            ):
                return True
        self.cluster.request_refresh()
        return False

    def _has_tries(self, batch: Batch) -> bool:
        if self.transactions is not None and self.transactions.drops_unsent:
            return False
        age = self.clock.monotonic() - batch.created
        return batch.attempts <= self.settings.retries and age < self._delivery_seconds

    def _may_retry(self, batch: Batch, code: int, log_start_offset: int) -> bool:
        if self.idempotence is None or batch.sequence < 0:
            return for_code(code).retriable
        return self.idempotence.may_retry(batch.queue.sequences, batch, code, log_start_offset)

    def _again(self, batch: Batch, *, wait: bool) -> None:
        """Put a batch back where it was: in front, and among others that are tried again in their order."""
        self.counts["retries"] += 1
        queue = batch.queue
        self._put_back(queue, [batch])
        if wait:
            delay_ms = self.cluster.backoff.delay_ms(batch.attempts - 1)
            queue.blocked_until = self.clock.monotonic() + delay_ms / 1000
        else:
            queue.blocked_until = 0.0

    def _put_back(self, queue: PartitionQueue, batches: list[Batch]) -> None:
        """In front of the queue, behind those that are tried again with lower sequences."""
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
        self.accumulator.active[queue] = None

    def _split(self, batch: Batch) -> None:
        """A batch that the broker finds too large becomes several, of half the size at most."""
        self.counts["splits"] += 1
        queue, accumulator = batch.queue, self.accumulator
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
        if self.idempotence is None or batch.sequence < 0:
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

    def finish(self, batch: Batch, base_offset: int, log_append_time: int) -> None:
        batch.base_offset = base_offset
        batch.log_append_time = log_append_time
        batch.status = Status.POSSIBLY_PERSISTED if self.settings.acks == 0 else Status.PERSISTED
        if self.idempotence is not None:
            batch.queue.sequences.acknowledge(batch)
        self._end(batch)

    def _fail(self, batch: Batch, error: Exception) -> None:
        """Give a batch up."""
        batch.error = error
        batch.status = Status.POSSIBLY_PERSISTED if batch.is_doubtful else Status.NOT_PERSISTED
        code = int(error.code) if isinstance(error, KafkaError) else -1
        if self.idempotence is not None and batch.queue.sequences is not None:
            was_refused = not batch.is_doubtful and not batch.is_in_flight
            self.idempotence.failed(batch.queue.sequences, batch, code, was_refused=was_refused)
        if self.transactions is not None:
            self.transactions.batch_failed(error)
        elif code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.PRODUCER_FENCED):
            self.fatal = self.fatal or error
        if self.accumulator.is_fast:
            self.update_fast()
        self._end(batch)

    def _end(self, batch: Batch) -> None:
        batch.is_done = True
        self.counts["records_sent" if batch.error is None else "records_failed"] += batch.count
        self.accumulator.release(batch)
        if batch.watched:
            for failure in batch.call_back():
                log.error("A delivery callback failed.", exc_info=failure)
                if not isinstance(failure, Exception):
                    self.pass_on(failure)
        batch.tell()
        if self.room_wanted and self.accumulator.used <= self.accumulator.buffer_memory // 2:
            self.tell_room()

    def want_room(self, notify: Callable[[], object]) -> None:
        """Have `notify` called once there is memory again: soon, since everything is sent until then."""
        if notify not in self.room_wanted:
            self.room_wanted.append(notify)
        if self.accumulator.used <= self.accumulator.buffer_memory // 2:
            self.tell_room()
        else:
            self.wake()

    def tell_room(self) -> None:
        """Wake those who wait for memory."""
        waiting, self.room_wanted = self.room_wanted, []
        for notify in waiting:
            notify()

    def expire(self, now: float) -> float:
        """Give up batches that are too old; when the next one will be."""
        oldest: Batch | None = self.accumulator.oldest()
        if oldest is None:
            return float("inf")
        if oldest.created + self._delivery_seconds > now:
            return oldest.created + self._delivery_seconds
        for batch in list(self.accumulator.incomplete):
            if batch.created + self._delivery_seconds <= now and not batch.is_done:
                self._give_up(batch)
        return now + 0.1

    def _give_up(self, batch: Batch) -> None:
        queue = batch.queue
        reason = f" ({self.cluster.last_error})" if self.cluster.last_error is not None else ""
        late = TimedOut(
            f"{batch.count} records for {queue} were not acknowledged within delivery.timeout.ms "
            f"({self.settings.delivery_timeout_ms} ms){reason}."
        )
        if batch.is_in_flight:
            batch.is_doubtful = True
        elif batch in queue.batches:
            self.accumulator.seal(queue, batch)
            queue.batches.remove(batch)
        self._fail(batch, late)

    def fail_unsent(self, error: Exception) -> None:
        """Give up everything that is not on the wire."""
        for queue in list(self.accumulator.active):
            while queue.batches:
                self.give_up_first(queue, error)

    def give_up_first(self, queue: PartitionQueue, error: Exception) -> None:
        """Give up the batch that would be sent next."""
        batch: Batch = queue.batches.popleft()
        self.accumulator.seal(queue, batch)
        self._fail(batch, error)

    def fail_everything(self, error: Exception) -> None:
        """Nothing can be sent any more."""
        if not isinstance(error, AbortableError):
            self.fatal = self.fatal or error
        self.update_fast()
        for batch in list(self.accumulator.incomplete):
            if not batch.is_done:
                if batch.is_in_flight:
                    batch.is_doubtful = True
                elif batch in batch.queue.batches:
                    self.accumulator.seal(batch.queue, batch)
                    batch.queue.batches.remove(batch)
                self._fail(batch, error)
        self.tell_room()
