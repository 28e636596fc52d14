"""The asyncio producer: its engine runs on the user's event loop, and nothing here blocks.

`core.py` contains the calls that it shares with the blocking producer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from ottla.client.calls import AwaitedCalls, OnLoop
from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import Batch, Delivery
from ottla.client.core.transactions import Handle
from ottla.client.ports import Ports
from ottla.client.producer import exit_hooks
from ottla.client.producer.core import (
    ProducerCalls,
    ProducerCore,
    handle_of,
    settings_of,
    timeout_on_leaving,
)
from ottla.client.producer.engine import Engine
from ottla.client.producer.preparation import Headers, OnDelivery
from ottla.detached import cannot_await
from ottla.ports import Clock, Network, Random


class _LoopCaller:
    """The tasks that use a producer, on the loop of its engine."""

    is_inside = False

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def schedule(self, function: Callable[[], object]) -> object:
        return asyncio.get_running_loop().call_soon(function)

    def check_process(self) -> None:
        return  # a loop of the user's own does not run in a forked child

    def check_may_wait(self, need: str) -> None:
        return  # a finalizer or a signal handler cannot await a send

    async def wait_for_room(self, engine: Engine, seconds: float) -> None:
        has_room = asyncio.Event()
        engine.memory.want(has_room.set)
        try:
            async with asyncio.timeout(seconds):
                await has_room.wait()
        except TimeoutError:
            return
        finally:
            engine.memory.forget(has_room.set)

    def wait_for_batch(self, batch: Batch, timeout: float | None) -> bool:
        raise self._refusal()

    def wait_for_delivery(self, delivery: Delivery, timeout: float | None) -> None:
        raise self._refusal()

    @staticmethod
    def _refusal() -> RuntimeError:
        return RuntimeError("Deliveries of the async producer must be awaited: `report = await delivery`.")


class AsyncProducer(ProducerCalls, AwaitedCalls):
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
        self._core = ProducerCore(
            settings_of(settings, keywords),
            OnLoop(),
            _LoopCaller(),
            Ports(clock, network, random),
            fallback=lambda *_: None,
            handle=_handle,
        )
        if network is None:  # a simulated program ends where its world says, and that is no loss
            exit_hooks.watch(self._core.engine)

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
        """Append a record; waits only for memory and metadata. Then `await` the returned delivery."""
        core = self._core
        delivery = core.engine.accumulator.send(topic, value, key, headers, partition, timestamp, on_delivery)
        if delivery is not None:
            return delivery  # type: ignore[no-any-return]
        record = core.prepare(topic, value, key, headers, partition, timestamp, on_delivery)
        result = core.append(record)
        return result if isinstance(result, Delivery) else await core.append_when_possible(record, result)

    def transaction(self) -> AsyncTransaction:
        """`async with producer.transaction():` commits at its end, or aborts if the block raises."""
        return AsyncTransaction(self)

    @classmethod
    def join(cls, handle: Handle | str, /, **keywords: Any) -> Self:
        """See `Producer.join`."""
        given, settings = handle_of(handle, keywords)
        return cls(None, _handle=given, **settings)

    async def close(self, timeout: float | None = None) -> None:
        """See `Producer.close`."""
        try:
            await self._core.engine.close(timeout)
        finally:
            self._core.preparation.close()
        self._core.check_joined()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if cannot_await(kind):
            self._core.engine.abandon()
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
        if not cannot_await(kind):  # else it is left to its time-out
            await self._producer._core.end_transaction(kind)
