"""The producers that users see: `Producer`, which blocks, and `AsyncProducer`, which is awaited.

Both put interceptors, serializers and the partitioner before one engine (`producing.py`). A record that needs
none of them goes from `send` straight into the accumulator, compiled: `Producer.send` is that very function.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from ottla.client.background import Background, wait_in_slices
from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import NEEDS_TOPIC, Batch, Delivery, DeliveryReport
from ottla.client.core.partitioners import partitioner_of
from ottla.client.core.transactions import Handle
from ottla.client.errors import AbortableError, BufferExhausted, ConfigError, SerializationError, TimedOut
from ottla.client.producing import Engine
from ottla.client.serializers import Serialize, serializer_of
from ottla.client.transacting import TransactionRunner
from ottla.client.values import GroupMetadata, OffsetAndMetadata
from ottla.host import HostClock, HostNetwork, HostRandom
from ottla.ports import Clock, Network, Random

if TYPE_CHECKING:
    from ottla.client.arrow import TableDelivery
    from ottla.client.core.accumulator import PartitionQueue
    from ottla.records.builder import BatchBuilder

log = logging.getLogger(__name__)

Headers: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]
OffsetsOrConsumer: TypeAlias = Any
"""A mapping of TopicPartition to OffsetAndMetadata, or a consumer."""
OnDelivery: TypeAlias = Callable[[DeliveryReport], object]
_ROOM_WAIT_SECONDS = 0.1


class ProducerRecord(NamedTuple):
    """A record as interceptors see it, before it is serialized."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | None = None


class _Ready(NamedTuple):
    """A record as the accumulator takes it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    partition: int
    timestamp: int
    callback: OnDelivery | None


class _Chain:
    """What a record passes on its way to the accumulator."""

    def __init__(self, settings: ProducerSettings, random: Any) -> None:
        self.key_serializer = serializer_of(settings.key_serializer, "key.serializer")
        self.value_serializer = serializer_of(settings.value_serializer, "value.serializer")
        self.partitioner = partitioner_of(settings.partitioner_class, random)
        self.interceptors = [one() if isinstance(one, type) else one for one in settings.interceptor_classes]

    @property
    def is_empty(self) -> bool:
        """Whether bytes pass as they are."""
        steps = (self.key_serializer, self.value_serializer, self.partitioner)
        return not self.interceptors and all(step is None for step in steps)

    def prepare(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> _Ready:
        for interceptor in self.interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                log.exception("An interceptor failed; the record is sent as it was before it.")
        if self.interceptors:
            on_delivery = self._acknowledging(on_delivery)
        if not isinstance(record.topic, str) or not record.topic:
            raise ValueError("A record needs the name of a topic.")
        if record.partition is not None and record.partition < 0:
            raise ValueError(f"There is no partition {record.partition}.")
        return _Ready(
            record.topic,
            _bytes_of("key", record.topic, record.key, self.key_serializer),
            _bytes_of("value", record.topic, record.value, self.value_serializer),
            _headers_of(record.headers),
            -1 if record.partition is None else record.partition,
            -1 if record.timestamp is None else record.timestamp,
            on_delivery,
        )

    def _acknowledging(self, on_delivery: OnDelivery | None) -> OnDelivery:
        def tell(report: DeliveryReport) -> None:
            for interceptor in self.interceptors:
                heard = getattr(interceptor, "on_acknowledgement", None)
                if heard is not None:
                    try:
                        heard(report)
                    except Exception:
                        log.exception("An interceptor failed.")
            if on_delivery is not None:
                on_delivery(report)

        return tell

    def close(self) -> None:
        for one in (*self.interceptors, self.partitioner):
            close = getattr(one, "close", None)
            if callable(close):
                with contextlib.suppress(Exception):
                    close()


def _bytes_of(part: str, topic: str, given: Any, serializer: Serialize | None) -> bytes | None:
    if serializer is not None and given is not None:
        try:
            given = serializer(topic, given)
        except SerializationError:
            raise
        except Exception as error:
            raise SerializationError(f"The {part} for {topic} cannot be serialized: {error!r}") from error
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise SerializationError(
        f"A {part} for {topic} is a {type(given).__name__}: give bytes or str, or set {part}_serializer."
    )


def _headers_of(given: Headers | None) -> list[tuple[str, bytes | None]] | None:
    if not given:
        return None
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(name, _bytes_of("header", name, value, None)) for name, value in pairs]


class _ProducerBase:
    """What both producers have in common."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        handle: Handle | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        random: Random | None = None,
        **hooks: Any,
    ) -> None:
        clock, network, random = clock or HostClock(), network or HostNetwork(), random or HostRandom()
        self._settings = settings
        self._clock = clock
        for warning in settings.warnings:
            log.warning("%s", warning)
        self._chain = _Chain(settings, random)
        self._engine = Engine(
            settings, clock=clock, network=network, random=random, lock=threading.Lock(), **hooks
        )
        self._engine.may_be_fast = self._chain.is_empty
        if handle is not None and self._engine.transactions is not None:
            self._engine.transactions.join(handle)
        self._engine.update_fast()

    @property
    def settings(self) -> ProducerSettings:
        return self._settings

    @property
    def _runner(self) -> TransactionRunner:
        if self._engine.transactions is None:
            raise ConfigError("Transactions need a transactional.id: set it when the producer is made.")
        return self._engine.transactions

    def _check(self) -> None:
        self._engine.check_open()
        if self._engine.transactions is not None:
            self._engine.transactions.transactions.check_may_send()

    def _ready(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> _Ready:
        self._check()
        record = ProducerRecord(topic, value, key, headers, partition, timestamp)
        return self._chain.prepare(record, on_delivery)

    def _append(self, ready: _Ready) -> Any:
        accumulator = self._engine.accumulator
        partition = ready.partition
        if partition < 0 and self._chain.partitioner is not None:
            queues = accumulator.topics.get(ready.topic)
            if queues is None:
                return NEEDS_TOPIC
            partition = self._chain.partitioner(ready.topic, ready.key, ready.value, queues.view)
            if not 0 <= partition < len(queues.queues):
                raise ValueError(f"The partitioner chose partition {partition}, which {ready.topic} has not.")
        return accumulator.append(
            ready.topic, ready.key, ready.value, ready.headers, partition, ready.timestamp, ready.callback
        )

    def _no_room(self) -> BufferExhausted:
        return BufferExhausted(
            f"buffer.memory ({self._settings.buffer_memory} bytes) stayed full for max.block.ms "
            f"({self._settings.max_block_ms} ms): brokers take less than is sent."
        )

    def metrics(self) -> dict[str, int]:
        """Counts of this moment."""
        accumulator = self._engine.accumulator
        return {
            "batches": len(accumulator.incomplete),
            "buffered_bytes": accumulator.used,
            "topics": len(accumulator.topics),
            **self._engine.counts,
        }


def _settings_of(
    given: Mapping[str, object] | str | ProducerSettings | None, keywords: dict[str, Any]
) -> ProducerSettings:
    return given if isinstance(given, ProducerSettings) else ProducerSettings.parse(given, **keywords)


def _handle_of(given: Handle | str, keywords: dict[str, Any]) -> tuple[Handle, dict[str, Any]]:
    handle = Handle.from_text(given) if isinstance(given, str) else given
    servers = {} if "bootstrap_servers" in keywords else {"bootstrap_servers": handle.bootstrap_servers}
    return handle, {**servers, **keywords, "transactional_id": handle.transactional_id}


def _group_of(group: GroupMetadata | str) -> GroupMetadata:
    return GroupMetadata(group) if isinstance(group, str) else group


class Producer(_ProducerBase):
    """A producer that blocks where it must, and does its work in a thread of its own.

    `Producer("localhost:9092", linger_ms=20)` or `Producer({"bootstrap.servers": "localhost:9092"})`. Several
    threads may use it at once. Callbacks run in the producer's thread: they are short, and wait for nothing.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | str | ProducerSettings | None = None,
        /,
        *,
        _handle: Handle | None = None,
        **keywords: Any,
    ) -> None:
        self._background = Background("producer", on_fork=self._forked)
        self._room = threading.Event()
        super().__init__(
            _settings_of(settings, keywords),
            handle=_handle,
            schedule=self._background.soon,
            fallback=self._send_slowly,
            block=self._block,
        )
        # The compiled function itself, so that a record costs one call.
        self.send = self._engine.accumulator.send  # type: ignore[method-assign]

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
                work = self._engine.topic(ready.topic, ready.partition, max(left, 0.0) * 1000)
                self._background.run(work)
            elif left <= 0 or self._background.is_inside:
                raise self._no_room()
            else:
                self._room.clear()
                loop.call_soon_threadsafe(self._engine.want_room, self._room.set)
                self._room.wait(min(left, _ROOM_WAIT_SECONDS))
                self._check()

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

    def _add(self, queue: PartitionQueue, builder: BatchBuilder) -> Batch:
        """Hand over a whole batch; waits for room."""
        deadline = self._clock.monotonic() + self._settings.max_block_ms / 1000
        while (batch := self._engine.accumulator.add(queue, builder)) is None:
            left = deadline - self._clock.monotonic()
            if left <= 0 or self._background.is_inside:
                raise self._no_room()
            self._room.clear()
            self._background.loop.call_soon_threadsafe(self._engine.want_room, self._room.set)
            self._room.wait(min(left, _ROOM_WAIT_SECONDS))
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
        self._background.run(self._runner.commit(self._settings.max_block_ms))

    def abort_transaction(self) -> None:
        self._background.run(self._runner.abort(self._settings.max_block_ms))

    def send_offsets(self, offsets: OffsetsOrConsumer, group: GroupMetadata | str | None = None) -> None:
        """Commit a consumer's offsets with the transaction: `send_offsets(consumer)` takes its positions."""
        if group is None:
            consumer = offsets
            offsets = {one: OffsetAndMetadata(consumer.position(one)) for one in consumer.assignment}
            group = consumer.group_metadata()
        work = self._runner.send_offsets(offsets, _group_of(group), self._settings.max_block_ms)
        self._background.run(work)

    def transaction_handle(self) -> Handle:
        """The transaction under way, for `Producer.join` in other processes; `to_text()` makes it a text.

        Each process writes to partitions of its own and flushes before this producer commits.
        """
        return self._runner.handle()

    @classmethod
    def join(cls, handle: Handle | str, /, **keywords: Any) -> Self:
        """A producer that writes within the transaction of another, which alone commits or aborts it."""
        given, settings = _handle_of(handle, keywords)
        return cls(None, _handle=given, **settings)

    # Life

    def close(self, timeout: float | None = None) -> None:
        """Flush for up to `timeout` seconds (by default until all is acknowledged or given up), and leave.

        Records that are left are reported as failed. A joined producer that lost a record raises
        `AbortableError`, since the transaction must not be committed then.
        """
        if self._background.is_forked:
            return
        failed = None
        try:
            if not self._engine.is_closed:
                self._background.run(self._engine.close(timeout))
                failed = _joined_failure(self._engine)
        finally:
            self._background.stop()
            self._chain.close()
        if failed is not None:
            raise failed

    def _forked(self) -> None:
        self._engine.accumulator.is_fast = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            self.close()
        else:
            self.close(timeout=0)  # Ctrl-C and the like: at once


def _refuse_to_wait(batch: Batch, timeout: float | None) -> bool:
    raise RuntimeError("With the async producer a delivery is awaited: `report = await delivery`.")


def _joined_failure(engine: Engine) -> AbortableError | None:
    runner = engine.transactions
    if runner is None or not runner.is_joined or not runner.drops_unsent:
        return None
    return AbortableError(f"A record of the shared transaction was not written: {runner.transactions.error}")


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


class AsyncProducer(_ProducerBase):
    """The producer on the running event loop: `async with AsyncProducer("localhost:9092") as producer:`."""

    def __init__(
        self,
        settings: Mapping[str, object] | str | ProducerSettings | None = None,
        /,
        *,
        _handle: Handle | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        random: Random | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(
            _settings_of(settings, keywords),
            handle=_handle,
            clock=clock,
            network=network,
            random=random,
            schedule=lambda call: asyncio.get_running_loop().call_soon(call),
            fallback=lambda *_: None,
            block=self._refuse_to_block,
        )

    @staticmethod
    def _refuse_to_block(delivery: Delivery, timeout: float | None) -> None:
        raise RuntimeError("With the async producer a delivery is awaited: `report = await delivery`.")

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Hand a record over: waits for room and metadata only. Then `await` the delivery it returns."""
        accumulator = self._engine.accumulator
        delivery = accumulator.send(topic, value, key, headers, partition, timestamp, on_delivery)
        if delivery is not None:
            return delivery  # type: ignore[no-any-return]
        ready = self._ready(topic, value, key, headers, partition, timestamp, on_delivery)
        deadline = self._clock.monotonic() + self._settings.max_block_ms / 1000
        while True:
            result = self._append(ready)
            if isinstance(result, Delivery):
                return result
            left = deadline - self._clock.monotonic()
            if result == NEEDS_TOPIC:
                await self._engine.topic(ready.topic, ready.partition, max(left, 0.0) * 1000)
            elif left <= 0:
                raise self._no_room()
            else:
                room = asyncio.Event()
                self._engine.want_room(room.set)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _ROOM_WAIT_SECONDS)):
                        await room.wait()
                self._check()

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
        """As `Producer.send_arrow`; `await` the delivery for the brokers' answers."""
        from ottla.client.arrow import TableDelivery, built_batches, check_chain

        self._check()
        check_chain(self._chain.partitioner, partition)
        accumulator = self._engine.accumulator
        queues = accumulator.topics.get(topic)
        if queues is None:
            queues = await self._engine.topic(topic, -1, self._settings.max_block_ms)
        delivery = TableDelivery(topic, _refuse_to_wait, self._engine.batch_done, self._clock.monotonic)
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
            delivery.batches.append(await self._add(queue, builder))
            await asyncio.sleep(0)  # others have their turn between batches
        return delivery

    async def send_batches(
        self, topic: str, batches: Iterable[tuple[int, bytes | memoryview]]
    ) -> TableDelivery:
        """As `Producer.send_batches`; `await` the delivery for the brokers' answers."""
        from ottla.client.arrow import TableDelivery, adopted

        self._check()
        queues = self._engine.accumulator.topics.get(topic)
        delivery = TableDelivery(topic, _refuse_to_wait, self._engine.batch_done, self._clock.monotonic)
        for partition, data in batches:
            if queues is None or partition >= len(queues.queues):
                queues = await self._engine.topic(topic, partition, self._settings.max_block_ms)
            delivery.batches.append(await self._add(queues.queues[partition], adopted(data)))
            await asyncio.sleep(0)
        return delivery

    async def _add(self, queue: PartitionQueue, builder: BatchBuilder) -> Batch:
        """Hand over a whole batch; waits for room."""
        deadline = self._clock.monotonic() + self._settings.max_block_ms / 1000
        while (batch := self._engine.accumulator.add(queue, builder)) is None:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise self._no_room()
            room = asyncio.Event()
            self._engine.want_room(room.set)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _ROOM_WAIT_SECONDS)):
                    await room.wait()
            self._check()
        return batch

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything that was handed over so far, and wait until the brokers have answered."""
        try:
            async with asyncio.timeout(timeout):
                await self._engine.flush()
        except TimeoutError as error:
            raise TimedOut(f"Not all records were acknowledged within {timeout:g} s.") from error

    async def partitions_for(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len((await self._engine.topic(topic, 0, self._settings.max_block_ms)).queues)

    def transaction(self) -> AsyncTransaction:
        """`async with producer.transaction():` commits at its end, and aborts if an exception leaves it."""
        return AsyncTransaction(self)

    async def begin_transaction(self) -> None:
        self._engine.check_open()
        await self._runner.begin(self._settings.max_block_ms)

    async def commit_transaction(self) -> None:
        await self._runner.commit(self._settings.max_block_ms)

    async def abort_transaction(self) -> None:
        await self._runner.abort(self._settings.max_block_ms)

    async def send_offsets(
        self, offsets: OffsetsOrConsumer, group: GroupMetadata | str | None = None
    ) -> None:
        """Commit a consumer's offsets with the transaction: `send_offsets(consumer)` takes its positions."""
        if group is None:
            consumer = offsets
            offsets = {one: OffsetAndMetadata(await consumer.position(one)) for one in consumer.assignment}
            group = consumer.group_metadata()
        await self._runner.send_offsets(offsets, _group_of(group), self._settings.max_block_ms)

    def transaction_handle(self) -> Handle:
        """See `Producer.transaction_handle`."""
        return self._runner.handle()

    @classmethod
    def join(cls, handle: Handle | str, /, **keywords: Any) -> Self:
        """See `Producer.join`."""
        given, settings = _handle_of(handle, keywords)
        return cls(None, _handle=given, **settings)

    async def close(self, timeout: float | None = None) -> None:
        """See `Producer.close`."""
        try:
            await self._engine.close(timeout)
        finally:
            self._chain.close()
        failed = _joined_failure(self._engine)
        if failed is not None:
            raise failed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(None if kind is None or issubclass(kind, Exception) else 0)


class AsyncTransaction:
    """One transaction of an `AsyncProducer`, as a context manager."""

    def __init__(self, producer: AsyncProducer) -> None:
        self._producer = producer
        self.send = producer.send
        self.send_offsets = producer.send_offsets

    def handle(self) -> Handle:
        """See `Producer.transaction_handle`."""
        return self._producer.transaction_handle()

    async def __aenter__(self) -> AsyncTransaction:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                await self._producer.commit_transaction()
            except AbortableError:
                await self._producer.abort_transaction()
                raise
            return
        try:
            await self._producer.abort_transaction()
        except Exception as failure:  # noqa: BLE001
            log.warning("The transaction could not be aborted: %s", failure)
