"""Where a producer's records wait: an open batch for each partition, and behind it those to be sent.

Like `records/builder.py` this one file runs compiled (C types in `accumulator.pxd`) or as plain Python.
Users' threads append, the loop's thread takes whole batches; neither waits for the other while there is room.

The rules that keep it right:
- `_put` is the only step that changes a batch which other threads can see. It looks at `is_open`, writes the
  record, and notes index and callback. Between that look and the last of those writes nothing may run Python
  code or allocate an object that the garbage collector tracks: a collection runs finalizers, and then another
  thread appends to the batch, the loop seals it, or this same thread sends a record.
- So whatever may do that comes before the step (headers are packed, the clock is read, the delivery and a new
  batch are made) or after it (the loop is woken). The step relies on nothing that was decided before it.
- The plain form cannot keep such a step. It takes the lock for it, and `is_taking` turns away a finalizer or
  a signal handler that sends in the middle of it: that record goes to a batch of its own.
- The lock is reentrant, since a finalizer can run while its thread has it. No thread waits while it has it.
- A batch takes no records once `is_open` is false, and only the loop's thread sets that.
- A batch is published (`queue.open`) after its first record is complete. A thread's records are in the order
  in which it sent them.
- A `Delivery` is no more than a batch and an index; what became of a record is known to its batch alone.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ottla.client.core.partitioners import Sticky
from ottla.client.errors import RecordTooLarge
from ottla.client.values import Status
from ottla.records.builder import BatchBuilder, next_ratio, pack_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from typing import Any

    import cython

    from ottla.client.core.metadata import TopicView
    from ottla.ports import Random
else:
    # Cython takes the import above for its own and needs no module at run time. Plain Python comes here.
    cython = SimpleNamespace(compiled=False)

if not cython.compiled:
    from ottla.records.key_hash import key_partition

IS_COMPILED = bool(cython.compiled)
RECORD_OVERHEAD = 70
"""What a batch of one record needs beyond its key, value and headers."""

GROWN_BYTES_MAX = 128 << 10
"""What a batch may grow to beyond `batch.size` while others of its partition wait to be sent."""
_GROWN_BYTES_MAX = GROWN_BYTES_MAX

_NEEDS_TOPIC = 1
_NEEDS_ROOM = 2
NEEDS_TOPIC = _NEEDS_TOPIC
NEEDS_ROOM = _NEEDS_ROOM


class DeliveryReport:
    """The outcome of one record."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        status: Status,
        error: Exception | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.status = status
        self.error = error

    def __repr__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        if self.error is not None:
            return f"DeliveryReport({where}, {self.status.value}, {self.error!r})"
        return f"DeliveryReport({where}, offset {self.offset}, {self.status.value})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeliveryReport):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def _facts(self) -> tuple[object, ...]:
        return (self.topic, self.partition, self.offset, self.timestamp, self.status, self.error)


class Delivery:
    """A record being sent. `result` waits for its report; so does `await`, with the async producer."""

    def __init__(self, timestamp: int, callback: Callable[[DeliveryReport], object] | None) -> None:
        self.timestamp = timestamp
        self.callback = callback
        self._batch: Batch | None = None
        self._index = 0

    @property
    def topic(self) -> str:
        return self.batch.queue.topic.name

    @property
    def partition(self) -> int:
        return self.batch.queue.index

    @property
    def batch(self) -> Batch:
        """The batch that contains the record now: a batch that was too large is split."""
        batch = self._batch
        assert batch is not None
        if batch.pieces is None:
            return batch
        with batch.queue.topic.accumulator.lock:
            batch, index = self._batch, self._index
            assert batch is not None
            while batch.pieces is not None:
                for piece in batch.pieces:
                    batch = piece
                    if index < piece.count:
                        break
                    index -= piece.count
            # In this order: who sees the piece without having the lock sees the index in it.
            self._index = index
            self._batch = batch
        return batch

    def done(self) -> bool:
        """Whether the outcome of the record is known."""
        return self.batch.is_done

    def report(self, timeout: float | None = None) -> DeliveryReport:
        """Wait for the report, at most `timeout` seconds; it may contain an error."""
        if not self.batch.is_done:
            self.batch.queue.topic.accumulator.block(self, timeout)
        return self._report()

    def result(self, timeout: float | None = None) -> DeliveryReport:
        """Wait for the report, at most `timeout` seconds, and raise its error if it has one."""
        report = self.report(timeout)
        if report.error is not None:
            # A copy: the batch keeps the error, and must not keep the frames that it is raised through.
            raise copy(report.error)
        return report

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the report, and return its error."""
        return self.report(timeout).error

    def __await__(self) -> Generator[Any, None, DeliveryReport]:
        waiting: Generator[Any, None, DeliveryReport] = self.batch.queue.topic.accumulator.wait(
            self
        ).__await__()
        return waiting

    def _report(self) -> DeliveryReport:
        batch = self._batch
        assert batch is not None
        if batch.pieces is not None:
            batch = self.batch
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else -1
        timestamp = batch.log_append_time if batch.log_append_time >= 0 else self.timestamp
        error = batch.error
        if batch.record_errors is not None:
            error = batch.record_errors.get(self._index, error)
        if not cython.compiled:
            return DeliveryReport(
                batch.queue.topic.name, batch.queue.index, offset, timestamp, batch.status, error
            )
        report = DeliveryReport.__new__(DeliveryReport)  # the same without the call
        report.topic = batch.queue.topic.name
        report.partition = batch.queue.index
        report.offset = offset
        report.timestamp = timestamp
        report.status = batch.status
        report.error = error
        return report


class Batch:
    """Records of one partition that are sent together."""

    def __init__(self, queue: PartitionQueue, builder: BatchBuilder, created: float, reserved: int) -> None:
        self.queue = queue
        self.builder = builder
        self.created = created
        self.reserved = reserved
        self.is_open = True
        self.is_taking = False
        """Whether a record is being written: the plain form alone can be seen in the middle of that."""
        self.is_done = False
        self.base_offset = -1
        self.log_append_time = -1
        self.status = Status.NOT_PERSISTED
        self.error: Exception | None = None
        self.record_errors: dict[int, Exception] | None = None
        self.pieces: list[Batch] | None = None
        self.watched: list[Delivery] = []
        self.listeners: list[Callable[[], object]] = []
        # What the sender knows of it.
        self.attempts = 0
        self.is_in_flight = False
        self.is_doubtful = False
        self.is_split = False
        self.is_reset = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = -1

    @property
    def count(self) -> int:
        """The number of records."""
        return self.builder.count

    def on_done(self, listener: Callable[[], object]) -> None:
        """Call `listener` once when the batch is done or split."""
        self.listeners.append(listener)
        if self.is_done or self.pieces is not None:
            self.notify()

    def notify(self) -> None:
        while self.listeners:
            try:
                listener = self.listeners.pop()
            except IndexError:  # another thread has called it
                return
            listener()

    def call_back(self) -> list[BaseException]:
        """Call the callbacks with their reports, in the order of the records; return what they raised."""
        watched, self.watched = self.watched, []
        failures: list[BaseException] = []
        for delivery in watched:
            callback: Any = delivery.callback
            delivery.callback = None
            try:
                callback(delivery._report())
            except BaseException as failure:  # noqa: BLE001 - who called this logs it, sys.exit() too
                failures.append(failure)
        return failures

    def hand_over(self, pieces: list[Batch]) -> None:
        """This batch was too large: its records are now in others."""
        watched, self.watched = self.watched, []
        self.pieces = pieces
        for delivery in watched:
            delivery.batch.watched.append(delivery)
        self.notify()


class PartitionQueue:
    """The batches of one partition, in order. The last one may be open."""

    def __init__(self, topic: TopicQueues, index: int) -> None:
        self.topic = topic
        self.index = index
        self.open: Batch | None = None
        self.batches: deque[Batch] = deque()
        # What the sender knows of it.
        self.in_flight = 0
        self.blocked_until = 0.0
        self.sequences: Any = None
        self.probe: Batch | None = None
        """A batch larger than the topic has accepted so far, which is in flight alone."""

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"


class TopicQueues:
    """The partitions of one topic, as in the metadata."""

    def __init__(self, accumulator: Accumulator, name: str, view: TopicView, sticky: Sticky) -> None:
        self.accumulator = accumulator
        self.name = name
        self.view = view
        self.ratio = 1.0
        self.may_grow = accumulator.may_grow
        """Whether batches may exceed `batch.size`: not once the topic has rejected one as too large."""
        self.proven_bytes = accumulator.batch_size
        """The largest batch that the topic has accepted, and `batch.size` at least."""
        self.last_used = 0.0
        self.queues: list[PartitionQueue] = []
        self.sticky = sticky
        self.sticky_queue: PartitionQueue | None = None
        self.sticky_bytes = 0

    def grow(self, view: TopicView) -> None:
        """Take a newer view. Partitions are never fewer than before."""
        more = [PartitionQueue(self, index) for index in range(len(self.queues), len(view.partitions))]
        if more:
            self.queues = self.queues + more  # at once: keys are hashed by their number
        self.view = view  # last: threads choose a partition by it, and look for its queue

    def recreated(self, view: TopicView, sticky: Sticky) -> TopicQueues:
        """The queues of a topic of the same name that was created again with fewer partitions.

        It has the queues of the partitions that are left. This one keeps all of its queues, since threads may
        be in the middle of choosing one, but gets no new batches.
        """
        made = TopicQueues(self.accumulator, self.name, view, sticky)
        made.queues = self.queues[: len(view.partitions)]
        made.last_used = self.last_used
        made.may_grow = self.may_grow
        with self.accumulator.lock:
            for queue in made.queues:
                queue.topic = made
            self.accumulator.topics[self.name] = made
        return made


class Accumulator:
    """All batches of a producer, and `send`, which appends to them."""

    def __init__(
        self,
        *,
        batch_size: int,
        codec: int,
        level: int | None,
        buffer_memory: int,
        max_request_size: int,
        ignores_keys: bool,
        may_grow: bool,
        random: Random,
        now_ns: Callable[[], int],
        monotonic: Callable[[], float],
        wake: Callable[[], object],
        fallback: Callable[..., Any],
        block: Callable[[Delivery, float | None], object],
        wait: Callable[[Delivery], Any],
        lock: AbstractContextManager[object],
    ) -> None:
        self.batch_size = batch_size
        self.codec = codec
        self.level = level
        self.buffer_memory = buffer_memory
        self.max_request_size = max_request_size
        self.ignores_keys = ignores_keys
        self.may_grow = may_grow
        self.random = random
        self.used = 0
        self.is_fast = False
        """Whether `send` may append by itself: records are taken, and nothing is to be called for one."""
        self.topics: dict[str, TopicQueues] = {}
        self.active: dict[PartitionQueue, None] = {}
        """Partitions that have batches, in the order in which they got their first."""
        self.incomplete: dict[Batch, None] = {}
        self.block = block
        self.wait = wait
        self.lock = lock
        self._now_ns = now_ns
        self._monotonic = monotonic
        self._wake = wake
        self._fallback = fallback
        self._locks = not (IS_COMPILED and type(BatchBuilder.append).__name__ != "function")

    # Users' threads

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: Callable[[DeliveryReport], object] | None = None,
    ) -> Any:
        """Append a record that needs no preparation; the fallback sends any other."""
        # A memoryview or a str, for instance, is for the fallback, which knows what to do with it.
        if (
            self.is_fast
            and headers is None
            and timestamp is None
            and (value is None or type(value) is bytes)
            and (key is None or type(key) is bytes)
        ):
            number = -1
            if partition is not None:
                number = partition
                if number < 0:
                    return self._fallback(topic, value, key, headers, partition, timestamp, on_delivery)
            delivery = self.append(topic, key, value, None, number, -1, on_delivery)
            if type(delivery) is Delivery:
                return delivery
        return self._fallback(topic, value, key, headers, partition, timestamp, on_delivery)

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        partition: int,
        timestamp: int,
        callback: Callable[[DeliveryReport], object] | None,
    ) -> Any:
        """Append a record of bytes: returns its Delivery, or NEEDS_TOPIC or NEEDS_ROOM if that is missing."""
        header_count = 0
        header_bytes = None
        if headers is not None:
            header_count, header_bytes = pack_headers(headers)
        queues = self.topics.get(topic)
        if queues is None:
            return _NEEDS_TOPIC
        if timestamp < 0:
            timestamp = self._now_ns() // 1_000_000
        if cython.compiled:
            delivery = Delivery.__new__(Delivery)  # `Delivery(timestamp, callback)` without the call
            delivery.timestamp = timestamp
            delivery.callback = callback
        else:
            delivery = Delivery(timestamp, callback)
        sticky = False
        if partition >= 0:
            if partition >= len(queues.queues):
                return _NEEDS_TOPIC
            queue = queues.queues[partition]
        elif key is not None and not self.ignores_keys:
            raw = cython.cast("const unsigned char *", key) if cython.compiled else key
            queue = queues.queues[key_partition(raw, 0, len(key), len(queues.queues))]
        else:
            sticky = True
            if queues.sticky_queue is None:
                queues.sticky_queue = queues.queues[queues.sticky.current(queues.view)]
            queue = queues.sticky_queue
        if not self._put_open(queue, delivery, key, value, header_count, header_bytes):
            missing = self._put_new(queues, queue, sticky, delivery, key, value, header_count, header_bytes)
            if missing:
                return missing
        if sticky:
            queues.sticky_bytes += 8
            if value is not None:
                queues.sticky_bytes += len(value)
            if key is not None:
                queues.sticky_bytes += len(key)
        return delivery

    def _put_open(
        self,
        queue: PartitionQueue,
        delivery: Delivery,
        key: bytes | None,
        value: bytes | None,
        header_count: int,
        header_bytes: bytearray | None,
    ) -> bool:
        """Append to the open batch of a partition; False if there is none, or it is full."""
        if not self._locks:
            batch = queue.open
            return batch is not None and self._put(batch, delivery, key, value, header_count, header_bytes)
        with self.lock:
            batch = queue.open
            if batch is None or batch.is_taking:
                return False
            batch.is_taking = True
            try:
                return self._put(batch, delivery, key, value, header_count, header_bytes)
            finally:
                batch.is_taking = False

    def _put(
        self,
        batch: Batch,
        delivery: Delivery,
        key: bytes | None,
        value: bytes | None,
        header_count: int,
        header_bytes: bytearray | None,
    ) -> bool:
        """The step: see the rules above. False if the batch is full or closed."""
        if not batch.is_open:
            return False
        index = batch.builder.append_packed(delivery.timestamp, key, value, header_count, header_bytes)
        if index < 0:
            return False
        delivery._index = index
        delivery._batch = batch
        if delivery.callback is not None:
            batch.watched.append(delivery)
        return True

    def _put_new(
        self,
        queues: TopicQueues,
        queue: PartitionQueue,
        sticky: bool,
        delivery: Delivery,
        key: bytes | None,
        value: bytes | None,
        header_count: int,
        header_bytes: bytearray | None,
    ) -> int:
        """Append to a new batch: 0, or _NEEDS_TOPIC or _NEEDS_ROOM if that is missing."""
        if sticky and queues.sticky_bytes >= self.batch_size:
            # This partition has had its share: the next one, perhaps with an open batch.
            share, queues.sticky_bytes = queues.sticky_bytes, 0
            queues.sticky.appended(share, queues.view)
            queue = queues.queues[queues.sticky.current(queues.view)]
            queues.sticky_queue = queue
        size = RECORD_OVERHEAD + (0 if key is None else len(key)) + (0 if value is None else len(value))
        if header_bytes is not None:
            size += len(header_bytes)
        self._check_size(size, "record", queues.name)
        batch_size = self._new_batch_size(queues, queue)
        reserved = max(batch_size, size)
        if self.used + reserved > self.buffer_memory and self.used > 0:
            return _NEEDS_ROOM
        builder = BatchBuilder(codec=self.codec, level=self.level, batch_size=batch_size, ratio=queues.ratio)
        made = Batch(queue, builder, self._monotonic(), reserved)
        with self.lock:
            if self._put_open(queue, delivery, key, value, header_count, header_bytes):
                return 0  # another thread has made a batch meanwhile, and woken the loop for it
            if self.topics.get(queues.name) is not queues:
                return _NEEDS_TOPIC  # it was forgotten meanwhile: another queue would be made beside this one
            if self.used + reserved > self.buffer_memory and self.used > 0:
                return _NEEDS_ROOM
            self._put(made, delivery, key, value, header_count, header_bytes)
            self.used += reserved
            self.incomplete[made] = None
            queue.batches.append(made)
            self.active[queue] = None
            queue.open = made
        self._wake()
        return 0

    def _new_batch_size(self, queues: TopicQueues, queue: PartitionQueue) -> int:
        """`batch.size`, or a multiple of it while other batches wait: larger requests let it catch up.

        A request has one batch of a partition at most, so `batch.size` alone would limit the rate.
        """
        waiting = len(queue.batches)
        if waiting > 1 and queues.may_grow:
            grown = min(self.batch_size * waiting, _GROWN_BYTES_MAX, self.max_request_size)
            if grown > self.batch_size and self.used + grown <= self.buffer_memory:
                return grown
        return self.batch_size

    def add(self, queue: PartitionQueue, builder: BatchBuilder) -> Batch | None:
        """Add a sealed batch behind those of a partition; None if memory is used up."""
        size = builder.bytes_estimate
        self._check_size(size, "batch", queue.topic.name)
        batch = Batch(queue, builder, self._monotonic(), size)
        batch.is_open = False
        with self.lock:
            if self.used + size > self.buffer_memory and self.used > 0:
                return None
            self.topics.setdefault(queue.topic.name, queue.topic)  # it may have been forgotten meanwhile
            self.used += size
            self.incomplete[batch] = None
            queue.batches.append(batch)
            self.active[queue] = None
            queue.open = None  # what is sent after it goes behind it
        self._wake()
        return batch

    def _check_size(self, size: int, what: str, topic: str) -> None:
        if size > self.max_request_size or size > self.buffer_memory:
            limit = "max.request.size" if size > self.max_request_size else "buffer.memory"
            raise RecordTooLarge(
                f"A {what} of about {size} bytes for {topic} exceeds {limit} "
                f"({min(self.max_request_size, self.buffer_memory)})."
            )

    # The loop's thread

    def forget(self, queues: TopicQueues) -> bool:
        """Drop an idle topic; False if it has batches, queued or in flight."""
        with self.lock:
            if any(queue.batches or queue.in_flight for queue in queues.queues):
                return False
            return self.topics.pop(queues.name, None) is not None

    def oldest(self) -> Batch | None:
        """The batch that has waited longest, of those that are not done."""
        # One step of a loop: no other thread comes between the iterator and its first item, as `next` of an
        # `iter` would allow, so the dictionary cannot change there.
        for batch in self.incomplete:
            return batch
        return None

    def seal(self, queue: PartitionQueue, batch: Batch) -> None:
        """Close the batch for appends: it is about to be sent."""
        if batch.is_open:
            with self.lock:
                batch.is_open = False
                if queue.open is batch:
                    queue.open = None
            batch.builder.close()
            if self.codec:
                queue.topic.ratio = next_ratio(queue.topic.ratio, batch.builder.ratio)

    def release(self, batch: Batch) -> None:
        """Free the memory of a batch that is done."""
        with self.lock:
            self.used -= batch.reserved
            batch.reserved = 0
        self.incomplete.pop(batch, None)
        batch.builder.release()  # a delivery that is kept does not keep the bytes
