"""`AsyncConsumer`: its engine runs on the user's event loop. `core.py` contains the calls."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from ottla.client.calls import AwaitedCalls, OnLoop, complete
from ottla.client.config import ConsumerSettings
from ottla.client.consumer.core import CLOSE_SECONDS, ConsumerCalls, ConsumerCore, settings_of
from ottla.client.consumer.engine import Engine
from ottla.client.consumer.record_source import K, V
from ottla.client.errors import Closed
from ottla.client.ports import Ports
from ottla.detached import cannot_await
from ottla.ports import Clock, Network, Random
from ottla.records.consumer_record import ConsumerRecord

log = logging.getLogger(__name__)


class _TaskCaller:
    """The task that uses a consumer, on the loop of the engine."""

    def __init__(self, loop: OnLoop) -> None:
        self.is_closing = False  # polls end
        self._loop = loop
        self._woken = asyncio.Event()
        self._user: asyncio.Task[Any] | None = None  # the task that is in a call
        self._is_free = asyncio.Event()  # set when a call of another task has ended
        self._is_listening = False  # a listener runs
        self.wake = self._woken.set
        self.clear_wake = self._woken.clear

    def begin_use(self) -> bool:
        task = asyncio.current_task()
        if self._user not in (None, task) and not self._is_listening:
            raise RuntimeError(
                "Only one task at a time may use a consumer. Other tasks may only call wakeup() and close()."
            )
        is_outermost = self._user is None
        if is_outermost:  # a task that a listener began may outlive the poll: it is never the user
            self._user = task
        return is_outermost

    def end_use(self) -> None:
        self._user = None
        self._is_free.set()

    async def end_use_of_others(self, alert: Callable[[], None], seconds: float) -> None:
        """Interrupt the call of another task, wait for its end if there is time, and begin a use by this
        task.
        """
        if self._user not in (None, asyncio.current_task()) and not self._is_listening:
            self._is_free.clear()
            alert()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_free.wait()
        self._user = asyncio.current_task()

    def check_process(self) -> None:
        return  # a loop of the user's own does not run in a forked child

    def check_may_poll(self) -> None:
        if self.is_closing and not self._is_listening:
            raise Closed("The consumer was closed while it was in use.")

    async def wait_for_wake(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def call_listener(self, call: Callable[[], object]) -> None:
        """Call a listener, which may also use the consumer in tasks of its own (`asyncio.wait_for`)."""
        self._is_listening = True
        try:
            await self._loop.result_of(call())
        finally:
            self._is_listening = False

    def make_room(self, engine: Engine) -> None:
        engine.wake()


class AsyncConsumer(ConsumerCalls[K, V], AwaitedCalls):
    """Reads records on the running event loop. For one task at a time, except `wakeup`."""

    def __init__(
        self,
        settings: Mapping[str, object] | str | ConsumerSettings | None = None,
        /,
        *,
        topics: Collection[str] | str | None = None,
        pattern: str | re.Pattern[str] | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        random: Random | None = None,
        **keywords: Any,
    ) -> None:
        """Takes the arguments of `Consumer`. Needs a running loop."""
        parsed = settings_of(settings, keywords)
        asyncio.get_running_loop()
        self._ending: asyncio.Future[None] | None = None
        loop = OnLoop()
        self._caller = _TaskCaller(loop)
        self._core = ConsumerCore(parsed, loop, self._caller)
        subscribes = topics is not None or pattern is not None
        complete(self._core.start(Ports(clock, network, random), subscribes=subscribes))
        if subscribes:
            try:
                self._core.join_group(topics, pattern)
            except BaseException:  # a pattern that cannot be compiled, for instance: leave no tasks behind
                self._core.is_closed = True
                self._ending = asyncio.ensure_future(self._end_engine(1.0))
                raise

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate over all records, without end. The position follows the record that the user's loop body
        has.
        """
        return self.records()

    async def records(self, idle_timeout: float | None = None) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate; with `idle_timeout`, until no record has arrived for this many seconds."""
        core = self._core
        while True:
            iteration = await core.wait_for(core.source.take_chunk, idle_timeout)
            if iteration is None:
                return
            for record in iteration.records:
                yield record
            core.source.finish_chunk(iteration)

    async def batches(
        self, max_records: int | None = None, idle_timeout: float | None = None
    ) -> AsyncIterator[list[ConsumerRecord[K, V]]]:
        """Iterate over lists of records as they arrive, not over single ones."""
        limit = self.settings.max_poll_records if max_records is None else max_records
        take = partial(self._core.source.take, limit)
        while records := await self._core.wait_for(take, idle_timeout):
            yield records

    async def arrow(self, max_rows: int = 65_536, idle_timeout: float | None = None) -> AsyncIterator[Any]:
        """As `Consumer.arrow`."""
        from ottla.client.consumer.arrow import take_batch

        take = partial(take_batch, self._core.source, max_rows)
        while (batch := await self._core.wait_for(take, idle_timeout)) is not None:
            yield batch

    async def close(self, timeout: float = CLOSE_SECONDS, *, leave_group: bool | None = None) -> None:
        """Close, like `Consumer.close`. The poll of another task raises Closed.

        If it is cancelled, connections and tasks still end; another call waits for that.
        """
        core = self._core
        if self._ending is not None:
            await asyncio.shield(self._ending)
        if core.is_closed or core.is_closing:
            return
        core.is_closing = self._caller.is_closing = True
        core.engine.alert()  # a listener may have called this: the poll that called it ends
        clock = core.engine.cluster.clock.monotonic
        deadline = clock() + timeout
        try:
            await self._caller.end_use_of_others(core.engine.alert, timeout)
            core.source.end_iteration()
            await core.leave(deadline, leave_group=leave_group)
        finally:
            core.is_closed = True
            self._ending = asyncio.ensure_future(self._end_engine(max(deadline - clock(), 1.0)))
            await asyncio.shield(self._ending)

    async def _end_engine(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._core.engine.close()
        except TimeoutError:
            log.warning("The brokers did not answer in time while the consumer closed.")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        core = self._core
        if kind is not None and not core.is_closed:
            core.source.end_iteration(again=True)  # the record in hand was not processed
        if cannot_await(kind):
            core.is_closed = True
        else:
            await self.close()
