"""`Consumer`, the blocking consumer: reads topics, alone or as a member of a group.

The engine runs on a loop in a background thread, so heartbeats and fetches continue while user code works.
The user's thread takes records straight from the buffer. `core.py` contains the calls.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

from ottla.client.calls import BlockingCalls, FromThread, complete
from ottla.client.config import ConsumerSettings
from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.consumer.core import CLOSE_SECONDS, ConsumerCalls, ConsumerCore, settings_of
from ottla.client.consumer.engine import Engine
from ottla.client.consumer.record_source import K, V
from ottla.client.errors import Closed, TimedOut
from ottla.client.net.background import Background, Signal
from ottla.client.ports import Ports
from ottla.records.consumer_record import ConsumerRecord

__all__ = ["AsyncConsumer", "Consumer"]

log = logging.getLogger(__name__)


class _ThreadCaller:
    """The user's thread; the engine runs in the background."""

    def __init__(self, background: Background) -> None:
        self.has_ended = False  # the background thread: nothing is fetched any more
        self._background = background
        self._woken = Signal()
        self._user: int | None = None  # the thread that is in a call
        self.wake = self._woken.set
        self.clear_wake = self._woken.clear

    @property
    def is_in_call(self) -> bool:
        """Whether this thread is already in a call of the consumer."""
        return self._user == threading.get_ident()

    def begin_use(self) -> bool:
        thread = threading.get_ident()
        user = self._user
        if user is not None and user != thread:
            raise RuntimeError(
                "Only one thread at a time may use a consumer. Other threads may only call wakeup()."
            )
        if self._background.is_forked:
            self.check_process()
        self._user = thread
        return user is None

    def end_use(self) -> None:
        self._user = None

    def check_process(self) -> None:
        if self._background.is_forked:
            self._background.loop  # noqa: B018 - raises Forked, which says what to do

    def check_may_poll(self) -> None:
        if self.has_ended:
            raise Closed(
                "The consumer's thread has ended, for example by sys.exit() in an assignor; see the log. "
                "Close this consumer and create another one."
            )

    async def wait_for_wake(self, seconds: float) -> None:
        self._woken.wait(seconds)

    async def call_listener(self, call: Callable[[], object]) -> None:
        call()

    def make_room(self, engine: Engine) -> None:
        if engine.waits_for_user and not self.has_ended:
            self._background.soon(engine.wake)


class Consumer(ConsumerCalls[K, V], BlockingCalls):
    """Reads records. For one thread at a time; other threads may only call `wakeup`."""

    def __init__(
        self,
        settings: Mapping[str, object] | str | ConsumerSettings | None = None,
        /,
        *,
        topics: Collection[str] | str | None = None,
        pattern: str | re.Pattern[str] | None = None,
        **keywords: Any,
    ) -> None:
        """`settings`: bootstrap servers, or a mapping with dotted names; keywords are in snake_case."""
        parsed = settings_of(settings, keywords)
        self._background = Background("consumer", on_end=self._thread_ended)
        self._caller = _ThreadCaller(self._background)
        self._core = ConsumerCore(parsed, FromThread(self._background), self._caller)
        try:
            complete(self._core.start(Ports(), subscribes=False))
        except BaseException:  # settings that cannot be used, for instance: leave no thread behind
            self._background.stop()
            raise
        if topics is not None or pattern is not None:
            try:
                self.subscribe(topics, pattern=pattern)
            except BaseException:
                self.close()
                raise

    def _thread_ended(self) -> None:
        """Make polls raise Closed, those that wait and all later ones."""
        self._caller.has_ended = True
        engine = getattr(self._core, "engine", None)  # there is none if it could not start
        if engine is not None:
            engine.alert()

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Iterate over all records, without end. The position follows the record that the user's loop body
        has.
        """
        return self.records()

    def records(self, idle_timeout: float | None = None) -> Iterator[ConsumerRecord[K, V]]:
        """Iterate; with `idle_timeout`, until no record has arrived for this many seconds."""
        core = self._core
        while True:
            iteration = complete(core.wait_for(core.source.take_chunk, idle_timeout))
            if iteration is None:
                return
            yield from iteration.records
            core.source.finish_chunk(iteration)

    def batches(
        self, max_records: int | None = None, idle_timeout: float | None = None
    ) -> Iterator[list[ConsumerRecord[K, V]]]:
        """Iterate over lists of records as they arrive, not over single ones."""
        limit = self.settings.max_poll_records if max_records is None else max_records
        take = partial(self._core.source.take, limit)
        while records := complete(self._core.wait_for(take, idle_timeout)):
            yield records

    def arrow(self, max_rows: int = 65_536, idle_timeout: float | None = None) -> Iterator[Any]:
        """Iterate over Arrow record batches of up to `max_rows` fetched records; needs pyarrow.

        Keys and values are bytes: deserializers and interceptors are not called.
        """
        from ottla.client.consumer.arrow import take_batch

        take = partial(take_batch, self._core.source, max_rows)
        while (batch := complete(self._core.wait_for(take, idle_timeout))) is not None:
            yield batch

    def close(self, timeout: float = CLOSE_SECONDS, *, leave_group: bool | None = None) -> None:
        """Commit if the consumer commits automatically, leave the group, close connections: within `timeout`.

        A static member stays in its group until its session expires, unless `leave_group` says otherwise.
        """
        core = self._core
        if core.is_closed or (core.is_closing and self._caller.is_in_call):
            return
        if self._background.is_forked or self._caller.has_ended:
            core.is_closed = True  # the parent goes on with it, or there is nothing that could be closed
            return
        with core.use():
            core.is_closing = True
            clock = core.engine.cluster.clock.monotonic
            deadline = clock() + timeout
            try:
                complete(core.leave(deadline, leave_group=leave_group))
            finally:
                core.is_closed = True
                try:
                    self._background.run(core.engine.close(), max(deadline - clock(), 1.0))
                except TimedOut:
                    log.warning("The consumer's connections did not close in time.")
                finally:
                    self._background.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        core = self._core
        if kind is not None and not core.is_closed and not self._background.is_forked:
            core.source.end_iteration(again=True)  # the record in hand was not processed
        self.close()
