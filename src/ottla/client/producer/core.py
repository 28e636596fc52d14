"""The calls of the blocking and the asyncio producer, each written once.

`ProducerCore` is a member of both. `ProducerCalls` lists the calls that are methods of both classes. A record
that needs no preparation goes from `send` straight into the compiled accumulator, without this module.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ottla.client.calls import Call, LoopAccess
from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import NEEDS_TOPIC, Batch, Delivery
from ottla.client.core.transactions import Handle
from ottla.client.errors import AbortableError, BufferExhausted, ConfigError, TransactionStateError
from ottla.client.ports import Ports
from ottla.client.producer.engine import Engine
from ottla.client.producer.preparation import (
    Headers,
    OnDelivery,
    Preparation,
    PreparedRecord,
    ProducerRecord,
)
from ottla.client.producer.transactions import TransactionRunner
from ottla.client.values import GroupMetadata, OffsetAndMetadata

if TYPE_CHECKING:
    from ottla.client.core.accumulator import PartitionQueue
    from ottla.client.producer.arrow import TableDelivery
    from ottla.records.builder import BatchBuilder

log = logging.getLogger(__name__)

OffsetsOrConsumer: TypeAlias = Any
"""A mapping of TopicPartition to OffsetAndMetadata, or a consumer."""
ROOM_WAIT_SECONDS = 0.1


class Caller(Protocol):
    """The threads, or the loop, of the user."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The accumulator's lock."""
        raise NotImplementedError

    @property
    def is_inside(self) -> bool:
        """Whether this is the sending thread, in which no call may wait for it."""

    def schedule(self, function: Callable[[], object]) -> object:
        """Schedule a function on the loop."""

    def check_process(self) -> None:
        """Raise in a forked child, which has no loop."""

    def check_may_wait(self, need: str) -> None:
        """Raise in a finalizer or signal handler that would wait forever."""

    async def wait_for_room(self, engine: Engine, seconds: float) -> None:
        """Wait for memory in the accumulator, for at most `seconds`."""

    def wait_for_batch(self, batch: Batch, timeout: float | None) -> bool:
        """Block until a batch is done or split; return whether that happened within `timeout` seconds."""
        raise NotImplementedError

    def wait_for_delivery(self, delivery: Delivery, timeout: float | None) -> None:
        """Block until a delivery is done."""


class ProducerCore:
    """The calls of one producer, on one engine. `fallback` sends what the accumulator cannot."""

    def __init__(
        self,
        settings: ProducerSettings,
        loop: LoopAccess,
        caller: Caller,
        ports: Ports,
        *,
        fallback: Callable[..., Any],
        handle: Handle | None,
    ) -> None:
        self.settings = settings
        self._loop = loop
        self._caller = caller
        self._clock = ports.clock
        for warning in settings.warnings:
            log.warning("%s", warning)
        self.preparation = Preparation(settings, ports.random)
        self.engine = Engine(
            settings,
            ports,
            schedule=caller.schedule,
            fallback=fallback,
            block=caller.wait_for_delivery,
            lock=caller.lock,
            may_be_fast=self.preparation.is_empty,
        )
        if handle is not None and self.engine.transactions is not None:
            self.engine.transactions.join(handle)
        self.engine.state.update_fast()

    @property
    def transactions(self) -> TransactionRunner:
        if self.engine.transactions is None:
            raise ConfigError("Transactions need a transactional.id. Set it when you create the producer.")
        return self.engine.transactions

    # Sending

    def _check_may_send(self) -> int:
        """Raise unless records are taken now. The number of the transaction that they are part of, or 0."""
        self.engine.state.check_open()
        if self.engine.transactions is None:
            return 0
        transactions = self.engine.transactions.transactions
        transactions.check_may_send()
        return transactions.number

    def _check_may_still_send(self, number: int) -> None:
        """Raise if the producer was closed, or the transaction ended, while a call waited: another
        transaction must not commit its records."""
        if self._check_may_send() != number:
            raise TransactionStateError("The transaction ended while this call waited: nothing was sent.")

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> PreparedRecord:
        self._check_may_send()
        record = ProducerRecord(topic, value, key, headers, partition, timestamp)
        return self.preparation.prepare(record, on_delivery)

    def append(self, record: PreparedRecord) -> Any:
        """Append to a batch: the Delivery, or NEEDS_TOPIC or NEEDS_ROOM if that is missing."""
        accumulator = self.engine.accumulator
        partition = record.partition
        partitioner = self.preparation.partitioner
        if partition < 0 and partitioner is not None:
            queues = accumulator.topics.get(record.topic)
            if queues is None:
                return NEEDS_TOPIC
            partition = partitioner(record.topic, record.key, record.value, queues.view)
            if not 0 <= partition < len(queues.queues):
                raise ValueError(
                    f"The partitioner chose partition {partition}, which {record.topic} does not have."
                )
        return accumulator.append(
            record.topic,
            record.key,
            record.value,
            record.headers,
            partition,
            record.timestamp,
            record.callback,
        )

    async def append_when_possible(self, record: PreparedRecord, missing: int) -> Delivery:
        """Append once NEEDS_TOPIC or NEEDS_ROOM is resolved."""
        deadline = self._clock.monotonic() + self.settings.max_block_ms / 1000
        number = self._check_may_send()
        while True:
            left = deadline - self._clock.monotonic()
            if missing == NEEDS_TOPIC:
                self._caller.check_may_wait(f"the metadata of {record.topic}")
                await self._loop.run(self.engine.topic(record.topic, record.partition, max(left, 0.0) * 1000))
            else:
                self._caller.check_may_wait("memory")
                await self._wait_for_room(left)
            self._check_may_still_send(number)
            result = self.append(record)
            if isinstance(result, Delivery):
                return result
            missing = result

    async def _wait_for_room(self, seconds: float) -> None:
        """Wait a little for memory; raise if no time is left."""
        if seconds <= 0 or self._caller.is_inside:
            raise BufferExhausted(
                f"buffer.memory ({self.settings.buffer_memory} bytes) stayed full for max.block.ms "
                f"({self.settings.max_block_ms} ms): the brokers accept records more slowly than they are "
                "sent."
            )
        await self._caller.wait_for_room(self.engine, min(seconds, ROOM_WAIT_SECONDS))

    async def send_arrow(
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
        """Send the rows of a pyarrow Table or RecordBatch; the arguments name the columns.

        Rows are partitioned by the hash of their key, as single records are, or by the column `partition`;
        rows without either stay together in batches. It waits as `send` does, for each batch. Serializers and
        interceptors are not called: keys and values are binary or text columns. `result()` of the delivery
        waits for the acknowledgements; with the asyncio producer, `await` the delivery.
        """
        from ottla.client.producer.arrow import built_batches, check_chain

        self._caller.check_process()
        number = self._check_may_send()
        check_chain(self.preparation.partitioner, partition)
        accumulator = self.engine.accumulator
        queues = accumulator.topics.get(topic)
        if queues is None:
            queues = await self._loop.run(self.engine.topic(topic, -1, self.settings.max_block_ms))
        delivery = self._table_delivery(topic)
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
            delivery.batches.append(await self._add(queue, builder, number))
            await self._loop.let_others_run()
        return delivery

    async def send_batches(
        self, topic: str, batches: Iterable[tuple[int, bytes | memoryview]]
    ) -> TableDelivery:
        """Send whole batches that were built elsewhere: pairs of a partition and bytes.

        Only the fields that belong to the producer are changed. It waits as `send` does, and returns what
        `send_arrow` returns.
        """
        from ottla.client.producer.arrow import adopted

        self._caller.check_process()
        number = self._check_may_send()
        queues = self.engine.accumulator.topics.get(topic)
        delivery = self._table_delivery(topic)
        for partition, data in batches:
            if queues is None or partition >= len(queues.queues):
                work = self.engine.topic(topic, partition, self.settings.max_block_ms)
                queues = await self._loop.run(work)
            delivery.batches.append(await self._add(queues.queues[partition], adopted(data), number))
            await self._loop.let_others_run()
        return delivery

    def _table_delivery(self, topic: str) -> TableDelivery:
        from ottla.client.producer.arrow import TableDelivery

        return TableDelivery(
            topic, self._caller.wait_for_batch, self.engine.batch_done, self._clock.monotonic
        )

    async def _add(self, queue: PartitionQueue, builder: BatchBuilder, number: int) -> Batch:
        """Append a whole batch to the transaction of this number; waits for memory."""
        deadline = self._clock.monotonic() + self.settings.max_block_ms / 1000
        self._check_may_still_send(number)
        while (batch := self.engine.accumulator.add(queue, builder)) is None:
            await self._wait_for_room(deadline - self._clock.monotonic())
            self._check_may_still_send(number)
        return batch

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything appended so far, and wait for the brokers' responses."""
        await self._loop.run(self.engine.flush(), timeout, "Not all records were acknowledged")

    async def partitions_for(self, topic: str) -> int:
        """The number of partitions of a topic."""
        queues = await self._loop.run(self.engine.topic(topic, 0, self.settings.max_block_ms))
        return len(queues.queues)

    # Transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction. The first one fences earlier producers with the same transactional.id."""
        self.engine.state.check_open()
        await self._loop.run(self.transactions.begin(self.settings.max_block_ms))

    async def commit_transaction(self) -> None:
        """Commit everything sent since the transaction began."""
        self.engine.state.check_open()
        await self._loop.run(self.transactions.commit(self.settings.max_block_ms))

    async def abort_transaction(self) -> None:
        """Abort the transaction: read_committed consumers skip its records."""
        self.engine.state.check_open()
        await self._loop.run(self.transactions.abort(self.settings.max_block_ms))

    async def send_offsets(
        self, offsets: OffsetsOrConsumer, group: GroupMetadata | str | None = None
    ) -> None:
        """Commit a consumer's offsets with the transaction: `send_offsets(consumer)` uses its positions."""
        if group is None:
            consumer = offsets
            offsets = {
                one: OffsetAndMetadata(await self._loop.result_of(consumer.position(one)))
                for one in consumer.assignment
            }
            group = consumer.group_metadata()
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self._loop.run(self.transactions.send_offsets(offsets, metadata, self.settings.max_block_ms))

    async def resume(self, topic: str, partition: int, sequence: int) -> None:
        """Continue in a partition that several producers of one transaction write to (see `join`).

        `sequence` is the number of records that the others have written to it so far. Only one may write at a
        time; the next one begins when everything that it has sent is acknowledged.
        """
        await self._loop.run(self.engine.resume(topic, partition, sequence))

    async def end_transaction(self, failure: type[BaseException] | None) -> None:
        """End a `with` block: commit, or abort if the block raises."""
        if failure is None:
            try:
                await self.commit_transaction()
            except AbortableError:
                await self.abort_transaction()
                raise
            return
        try:
            await self.abort_transaction()
        except Exception as error:  # noqa: BLE001
            log.warning("Failed to abort the transaction: %s", error)

    def check_joined(self) -> None:
        """When a producer that joined a transaction closes: raise if one of its records was not written."""
        runner = self.engine.transactions
        if runner is not None and runner.is_joined and runner.drops_unsent:
            raise AbortableError(
                f"A record of the shared transaction was not written: {runner.transactions.error}"
            )

    def metrics(self) -> dict[str, int]:
        accumulator = self.engine.accumulator
        return {
            "batches": len(accumulator.incomplete),
            "buffered_bytes": accumulator.used,
            "topics": len(accumulator.topics),
            **self.engine.counts,
        }


class ProducerCalls:
    """The calls of both producers. `ProducerCore` implements and documents them."""

    _core: ProducerCore

    send_arrow = Call(ProducerCore.send_arrow)
    send_batches = Call(ProducerCore.send_batches)
    flush = Call(ProducerCore.flush)
    partitions_for = Call(ProducerCore.partitions_for)
    begin_transaction = Call(ProducerCore.begin_transaction)
    commit_transaction = Call(ProducerCore.commit_transaction)
    abort_transaction = Call(ProducerCore.abort_transaction)
    send_offsets = Call(ProducerCore.send_offsets)
    resume = Call(ProducerCore.resume)

    @property
    def settings(self) -> ProducerSettings:
        return self._core.settings

    def metrics(self) -> dict[str, int]:
        """Current counters."""
        return self._core.metrics()

    def transaction_handle(self) -> Handle:
        """The transaction in progress, for `join` in other processes; `to_text()` makes it a string.

        Each process writes to its own partitions, and flushes before this producer commits.
        """
        return self._core.transactions.handle()


def settings_of(
    given: Mapping[str, object] | str | ProducerSettings | None, keywords: dict[str, Any]
) -> ProducerSettings:
    return given if isinstance(given, ProducerSettings) else ProducerSettings.parse(given, **keywords)


def handle_of(given: Handle | str, keywords: dict[str, Any]) -> tuple[Handle, dict[str, Any]]:
    """The handle of a transaction to join, and the settings of the joining producer."""
    handle = Handle.from_text(given) if isinstance(given, str) else given
    servers = {} if "bootstrap_servers" in keywords else {"bootstrap_servers": handle.bootstrap_servers}
    return handle, {**servers, **keywords, "transactional_id": handle.transactional_id}


def timeout_on_leaving(kind: type[BaseException] | None) -> float | None:
    """How long the end of a `with` block waits for deliveries, by the exception of the block.

    Ctrl-C and a cancellation end it at once. `sys.exit()` does not: what was sent is delivered first.
    """
    is_hasty = kind is not None and issubclass(kind, KeyboardInterrupt | asyncio.CancelledError)
    return 0.0 if is_hasty else None
