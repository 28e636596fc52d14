"""The producer that is awaited: the engine runs on the loop of its user, and nothing here blocks it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import NEEDS_TOPIC, Batch, Delivery
from ottla.client.core.transactions import Handle
from ottla.client.errors import AbortableError, TimedOut
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
from ottla.detached import cannot_await
from ottla.ports import Clock, Network, Random

if TYPE_CHECKING:
    from ottla.client.arrow import TableDelivery
    from ottla.client.core.accumulator import PartitionQueue
    from ottla.records.builder import BatchBuilder

log = logging.getLogger(__name__)


class AsyncProducer(ProducerBase):
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
            settings_of(settings, keywords),
            handle=_handle,
            clock=clock,
            network=network,
            random=random,
            schedule=lambda call: asyncio.get_running_loop().call_soon(call),
            fallback=lambda *_: None,
            block=self._refuse_to_block,
        )
        if network is None:  # a simulated program ends where its world says, and that is no loss
            exit_hooks.watch(self._engine)

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
                    async with asyncio.timeout(min(left, ROOM_WAIT_SECONDS)):
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
                async with asyncio.timeout(min(left, ROOM_WAIT_SECONDS)):
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
        self._engine.check_open()
        await self._runner.commit(self._settings.max_block_ms)

    async def abort_transaction(self) -> None:
        self._engine.check_open()
        await self._runner.abort(self._settings.max_block_ms)

    async def send_offsets(
        self, offsets: OffsetsOrConsumer, group: GroupMetadata | str | None = None
    ) -> None:
        """Commit a consumer's offsets with the transaction: `send_offsets(consumer)` takes its positions."""
        if group is None:
            consumer = offsets
            offsets = {one: OffsetAndMetadata(await consumer.position(one)) for one in consumer.assignment}
            group = consumer.group_metadata()
        await self._runner.send_offsets(offsets, group_of(group), self._settings.max_block_ms)

    async def resume(self, topic: str, partition: int, sequence: int) -> None:
        """See `Producer.resume`."""
        await self._engine.resume(topic, partition, sequence)

    def transaction_handle(self) -> Handle:
        """See `Producer.transaction_handle`."""
        return self._runner.handle()

    @classmethod
    def join(cls, handle: Handle | str, /, **keywords: Any) -> Self:
        """See `Producer.join`."""
        given, settings = handle_of(handle, keywords)
        return cls(None, _handle=given, **settings)

    async def close(self, timeout: float | None = None) -> None:
        """See `Producer.close`."""
        try:
            await self._engine.close(timeout)
        finally:
            self._chain.close()
        failed = joined_failure(self._engine)
        if failed is not None:
            raise failed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if cannot_await(kind):
            self._engine.abandon()
        else:
            await self.close(timeout_on_leaving(kind))


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


def _refuse_to_wait(batch: Batch, timeout: float | None) -> bool:
    raise RuntimeError("With the async producer a delivery is awaited: `report = await delivery`.")
