"""The producer that blocks. Rule: a record that needs no hook goes from `send` straight into the accumulator:
`Producer.send` is then that very function, compiled.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import NEEDS_TOPIC, Batch, Delivery
from ottla.client.core.transactions import Handle
from ottla.client.errors import AbortableError, TimedOut
from ottla.client.net.background import Background, wait_in_slices
from ottla.client.producer import exit_hooks
from ottla.client.producer.base import (
    ROOM_WAIT_SECONDS,
    Headers,
    OffsetsOrConsumer,
    OnDelivery,
    ProducerBase,
    group_of,
    handle_of,
    joined_failure,
    settings_of,
    timeout_on_leaving,
)
from ottla.client.values import GroupMetadata, OffsetAndMetadata

if TYPE_CHECKING:
    from ottla.client.arrow import TableDelivery
    from ottla.client.core.accumulator import PartitionQueue
    from ottla.records.builder import BatchBuilder

log = logging.getLogger(__name__)


class Producer(ProducerBase):
    """A producer that blocks where it must, and does its work in a thread of its own.

    `Producer("localhost:9092", linger_ms=20)` or `Producer({"bootstrap.servers": "localhost:9092"})`. Several
    threads may use it at once. Callbacks run in the producer's thread: they are short, and wait for nothing.
    A program that ends without `close` still delivers what it has sent (see `exit_hooks.py`).
    """

    def __init__(
        self,
        settings: Mapping[str, object] | str | ProducerSettings | None = None,
        /,
        *,
        _handle: Handle | None = None,
        **keywords: Any,
    ) -> None:
        parsed = settings_of(settings, keywords)
        self._background = Background("producer", on_fork=self._forked, on_end=self._ended)
        self._room = threading.Event()
        self._failed_before_exit: int | None = None
        super().__init__(
            parsed,
            handle=_handle,
            schedule=self._background.soon,
            fallback=self._send_slowly,
            block=self._block,
        )
        # The compiled function itself, so that a record costs one call.
        self.send = self._engine.accumulator.send  # type: ignore[method-assign]
        exit_hooks.register(self)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Hand a record over, and return without waiting for the broker.

        It waits, for `max.block.ms` at most, only for what it cannot do without: the topic's metadata the
        first time, and memory when `buffer.memory` is used up. `delivery.result()` waits for the broker;
        `on_delivery` is called with the report.
        """
        return self._send_slowly(topic, value, key, headers, partition, timestamp, on_delivery)

    def _send_slowly(self, *arguments: Any) -> Delivery:
        loop = self._background.loop  # says so if this is a forked child
        ready = self._ready(*arguments)
        deadline = self._clock.monotonic() + self._settings.max_block_ms / 1000
        while True:
            result = self._append(ready)
            if isinstance(result, Delivery):
                return result
            left = deadline - self._clock.monotonic()
            if result == NEEDS_TOPIC:
                if self._is_interrupting:
                    raise self._interrupting(f"the metadata of {ready.topic}")
                work = self._engine.topic(ready.topic, ready.partition, max(left, 0.0) * 1000)
                self._background.run(work)
            elif self._is_interrupting:
                raise self._interrupting("memory")
            elif left <= 0 or self._background.is_inside:
                raise self._no_room()
            else:
                self._room.clear()
                loop.call_soon_threadsafe(self._engine.want_room, self._room.set)
                self._room.wait(min(left, ROOM_WAIT_SECONDS))
                self._check()

    @property
    def _is_interrupting(self) -> bool:
        """Whether this is a finalizer or a signal handler in the middle of a send, which has the lock.

        What it would wait for needs that lock.
        """
        return self._lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def _interrupting(self, need: str) -> RuntimeError:
        return RuntimeError(
            "A finalizer or signal handler sent a record in the middle of another send, and would have to "
            f"wait for {need}, which that send prevents. Have another thread send it."
        )

    def send_arrow(
        self,
        topic: str,
        table: Any,
        *,
        key: str | None = None,
        value: str | None = "value",
        headers: str | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
    ) -> TableDelivery:
        """Send the rows of a pyarrow Table or RecordBatch; the names say which column is what.

        Rows go by the hash of their key, as single records do, or where `partition` says; those without
        either stay together in batches. It waits as `send` does, for each batch. Serializers and interceptors
        are not called: keys and values are binary or text columns.
        """
        from ottla.client.arrow import TableDelivery, built_batches, check_chain

        _ = self._background.loop  # says so if this is a forked child
        self._check()
        check_chain(self._chain.partitioner, partition)
        accumulator = self._engine.accumulator
        queues = accumulator.topics.get(topic)
        if queues is None:
            queues = self._background.run(self._engine.topic(topic, -1, self._settings.max_block_ms))
        delivery = TableDelivery(topic, self._wait_batch, self._engine.batch_done, self._clock.monotonic)
        for queue, builder in built_batches(
            accumulator,
            queues,
            table,
            key=key,
            value=value,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            now_ms=self._clock.now_ms(),
        ):
            delivery.batches.append(self._add(queue, builder))
        return delivery

    def send_batches(self, topic: str, batches: Iterable[tuple[int, bytes | memoryview]]) -> TableDelivery:
        """Send whole batches that were built elsewhere, each to a partition: pairs of its number and bytes.

        They are sent as they are, but for the fields that are the producer's. It waits as `send` does.
        """
        from ottla.client.arrow import TableDelivery, adopted

        _ = self._background.loop  # says so if this is a forked child
        self._check()
        queues = self._engine.accumulator.topics.get(topic)
        delivery = TableDelivery(topic, self._wait_batch, self._engine.batch_done, self._clock.monotonic)
        for partition, data in batches:
            if queues is None or partition >= len(queues.queues):
                work = self._engine.topic(topic, partition, self._settings.max_block_ms)
                queues = self._background.run(work)
            delivery.batches.append(self._add(queues.queues[partition], adopted(data)))
        return delivery

    def resume(self, topic: str, partition: int, sequence: int) -> None:
        """Take a turn in a partition that several producers of one transaction write to (see `join`).

        `sequence` is how many records the others have written to it so far. Only one may write at a time, and
        the next one begins when all that it has sent is acknowledged.
        """
        self._background.run(self._engine.resume(topic, partition, sequence))

    def _add(self, queue: PartitionQueue, builder: BatchBuilder) -> Batch:
        """Hand over a whole batch; waits for room."""
        deadline = self._clock.monotonic() + self._settings.max_block_ms / 1000
        while (batch := self._engine.accumulator.add(queue, builder)) is None:
            left = deadline - self._clock.monotonic()
            if left <= 0 or self._background.is_inside:
                raise self._no_room()
            self._room.clear()
            self._background.loop.call_soon_threadsafe(self._engine.want_room, self._room.set)
            self._room.wait(min(left, ROOM_WAIT_SECONDS))
            self._check()
        return batch

    def _wait_batch(self, batch: Batch, timeout: float | None) -> bool:
        if self._background.is_inside:
            raise RuntimeError("A callback of the producer cannot wait for a table: nothing would send it.")
        done = threading.Event()
        batch.on_done(done.set)
        return wait_in_slices(done.wait, timeout)

    def _block(self, delivery: Delivery, timeout: float | None) -> None:
        if self._background.is_inside:
            raise RuntimeError("A callback of the producer cannot wait for a delivery: nobody would send it.")
        _ = self._background.loop
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        while not delivery.done():
            done = threading.Event()
            delivery.batch.on_done(done.set)
            left = None if deadline is None else max(deadline - self._clock.monotonic(), 0.0)
            if not wait_in_slices(done.wait, left) and not delivery.done():
                raise TimedOut(f"The record was not acknowledged within {timeout:g} s.")

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that was handed over so far, and wait until the brokers have answered."""
        self._background.run(self._engine.flush(), timeout)

    def partitions_for(self, topic: str) -> int:
        """How many partitions a topic has."""
        work = self._engine.topic(topic, 0, self._settings.max_block_ms)
        return len(self._background.run(work).queues)

    # Transactions

    def transaction(self) -> Transaction:
        """`with producer.transaction():` commits at its end, and aborts where an exception leaves it."""
        return Transaction(self)

    def begin_transaction(self) -> None:
        self._engine.check_open()
        self._background.run(self._runner.begin(self._settings.max_block_ms))

    def commit_transaction(self) -> None:
        self._engine.check_open()
        self._background.run(self._runner.commit(self._settings.max_block_ms))

    def abort_transaction(self) -> None:
        self._engine.check_open()
        self._background.run(self._runner.abort(self._settings.max_block_ms))

    def send_offsets(self, offsets: OffsetsOrConsumer, group: GroupMetadata | str | None = None) -> None:
        """Commit a consumer's offsets with the transaction: `send_offsets(consumer)` takes its positions."""
        if group is None:
            consumer = offsets
            offsets = {one: OffsetAndMetadata(consumer.position(one)) for one in consumer.assignment}
            group = consumer.group_metadata()
        work = self._runner.send_offsets(offsets, group_of(group), self._settings.max_block_ms)
        self._background.run(work)

    def transaction_handle(self) -> Handle:
        """The transaction under way, for `Producer.join` in other processes; `to_text()` makes it a text.

        Each process writes to partitions of its own and flushes before this producer commits.
        """
        return self._runner.handle()

    @classmethod
    def join(cls, handle: Handle | str, /, **keywords: Any) -> Self:
        """A producer that writes within the transaction of another, which alone commits or aborts it."""
        given, settings = handle_of(handle, keywords)
        return cls(None, _handle=given, **settings)

    # Life

    def close(self, timeout: float | None = None) -> None:
        """Flush for up to `timeout` seconds (by default until all is acknowledged or given up), and leave.

        Records that are left are reported as failed. A joined producer that lost a record raises
        `AbortableError`, since the transaction must not be committed then.
        """
        if self._background.is_forked:
            return
        exit_hooks.forget(self)
        failed = None
        try:
            if not self._engine.is_closed:
                self._background.run(self._engine.close(timeout))
                failed = joined_failure(self._engine)
        finally:
            self._background.stop()
            self._chain.close()
        if failed is not None:
            raise failed

    def flush_at_exit(self) -> None:
        """The program ends, and other threads may still send: see `exit_hooks.py`."""
        runner = self._engine.transactions
        is_promised = runner is None or runner.is_joined  # else an abort takes it back
        if self._has_loop and is_promised and self._engine.accumulator.incomplete:
            failed_before = self._engine.counts["records_failed"]
            try:
                self.flush(exit_hooks.seconds_left(self._settings.delivery_timeout_ms))
            except TimedOut:
                self._failed_before_exit = failed_before  # `close_at_exit` counts from there
                return
            self._warn_of_loss(failed_before)

    def close_at_exit(self) -> None:
        """The program ends: deliver what it has sent, and log what could not be delivered."""
        if not self._has_loop:
            return
        failed_before = self._failed_before_exit
        if failed_before is None:
            failed_before = self._engine.counts["records_failed"]
        seconds = exit_hooks.seconds_left(self._settings.delivery_timeout_ms)
        runner = self._engine.transactions
        if runner is not None and not runner.is_joined:
            seconds = min(seconds, exit_hooks.ABORT_SECONDS_MAX)
            if runner.is_taking:
                log.warning(
                    "The program ended within the transaction of %s: it is aborted.", runner.transactional_id
                )
        try:
            self.close(seconds)
        finally:
            self._warn_of_loss(failed_before)

    @property
    def _has_loop(self) -> bool:
        return not self._background.is_forked and self._background.is_running and not self._engine.is_closed

    def _warn_of_loss(self, failed_before: int) -> None:
        count = self._engine.counts["records_failed"] - failed_before
        if count:
            reason = self._engine.cluster.last_error
            log.warning(
                "The program ended before it closed its producer, and %d records were not delivered%s.",
                count,
                f": {reason}" if reason is not None else "",
            )

    def _forked(self) -> None:
        engine = getattr(self, "_engine", None)  # there is none where a serializer could not be used
        if engine is not None:
            engine.accumulator.is_fast = False

    def _ended(self) -> None:
        self._engine.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(timeout_on_leaving(kind))


class Transaction:
    """One transaction of a `Producer`, as a context manager."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.send = producer.send
        self.send_offsets = producer.send_offsets

    def handle(self) -> Handle:
        """See `Producer.transaction_handle`."""
        return self._producer.transaction_handle()

    def __enter__(self) -> Transaction:
        self._producer.begin_transaction()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self._producer.commit_transaction()
            except AbortableError:
                self._producer.abort_transaction()
                raise
            return
        try:
            self._producer.abort_transaction()
        except Exception as failure:  # noqa: BLE001
            log.warning("The transaction could not be aborted: %s", failure)
