"""The blocking producer.

Rule: a record that needs no preparation goes from `send` straight into the accumulator: `Producer.send` is
then that compiled function itself. `core.py` contains the other calls.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from ottla.client.calls import BlockingCalls, FromThread, complete
from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import Batch, Delivery
from ottla.client.core.transactions import Handle
from ottla.client.errors import Closed, TimedOut
from ottla.client.net.background import Background, wait_in_slices
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
from ottla.ports import Clock

log = logging.getLogger(__name__)


class _ThreadCaller:
    """The user's threads; the engine runs in the background."""

    def __init__(self, background: Background, clock: Clock) -> None:
        self.lock = threading.RLock()
        self._background = background
        self._clock = clock
        self._has_room = threading.Event()
        self.schedule = background.soon

    @property
    def is_inside(self) -> bool:
        return self._background.is_inside

    def check_process(self) -> None:
        self._background.loop  # noqa: B018 - raises Forked, which says what to do

    def check_may_wait(self, need: str) -> None:
        """Raise in a finalizer or a signal handler that interrupted a send: that send holds the lock that the
        wait needs.
        """
        if self.lock._is_owned():  # type: ignore[attr-defined]
            raise RuntimeError(
                "A finalizer or signal handler sent a record during another send, and would wait for "
                f"{need} forever. Send it from another thread."
            )

    async def wait_for_room(self, engine: Engine, seconds: float) -> None:
        self._has_room.clear()
        self._background.soon(engine.memory.want, self._has_room.set)
        self._has_room.wait(seconds)

    def wait_for_batch(self, batch: Batch, timeout: float | None) -> bool:
        if self.is_inside:
            raise RuntimeError(
                "A producer callback cannot wait for a table: it would block the thread that sends it."
            )
        self.check_process()
        done = threading.Event()
        batch.on_done(done.set)
        return wait_in_slices(done.wait, timeout)

    def wait_for_delivery(self, delivery: Delivery, timeout: float | None) -> None:
        if self.is_inside:
            raise RuntimeError(
                "A producer callback cannot wait for a delivery: it would block the thread that sends the "
                "record."
            )
        self.check_process()
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        while not delivery.done():
            done = threading.Event()
            delivery.batch.on_done(done.set)
            left = None if deadline is None else max(deadline - self._clock.monotonic(), 0.0)
            if not wait_in_slices(done.wait, left) and not delivery.done():
                raise TimedOut(f"The record was not acknowledged within {timeout:g} s.")


class Producer(ProducerCalls, BlockingCalls):
    """The blocking producer, with a background thread.

    `Producer("localhost:9092", linger_ms=20)` or `Producer({"bootstrap.servers": "localhost:9092"})`.
    Thread-safe. Callbacks run in the background thread: they must be short and must not wait. A program that
    ends without `close` still delivers what it has sent (see `exit_hooks.py`).
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
        self._background = Background("producer", on_fork=self._forked, on_end=self._thread_ended)
        self._failed_before_exit: int | None = None
        ports = Ports()
        self._caller = _ThreadCaller(self._background, ports.clock)
        self._core = ProducerCore(
            parsed,
            FromThread(self._background),
            self._caller,
            ports,
            fallback=self._send_prepared,
            handle=_handle,
        )
        # The compiled function itself, so that a record costs one call.
        self.send = self._core.engine.accumulator.send  # type: ignore[method-assign]
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
        """Append a record, and return without waiting for the broker.

        It waits, for at most `max.block.ms`, only if it must: for the topic's metadata the first time, and
        for memory when `buffer.memory` is used up. `delivery.result()` waits for the broker; `on_delivery` is
        called with the report.
        """
        return self._send_prepared(topic, value, key, headers, partition, timestamp, on_delivery)

    def _send_prepared(self, *arguments: Any) -> Delivery:
        core = self._core
        _ = self._background.loop  # raises Forked in a forked child
        record = core.prepare(*arguments)
        result = core.append(record)
        if not isinstance(result, Delivery):
            result = complete(core.append_when_possible(record, result))
        if core.engine.state.is_closed and not result.done():  # another thread has closed it just now
            core.engine.state.check_open()
        return result

    def transaction(self) -> Transaction:
        """`with producer.transaction():` commits at its end, or aborts if the block raises."""
        return Transaction(self)

    @classmethod
    def join(cls, handle: Handle | str, /, **keywords: Any) -> Self:
        """Create a producer that writes within another's transaction, which alone commits or aborts it."""
        given, settings = handle_of(handle, keywords)
        return cls(None, _handle=given, **settings)

    def close(self, timeout: float | None = None) -> None:
        """Flush for up to `timeout` seconds (by default until every record is acknowledged or failed), and
        disconnect.

        Remaining records are reported as failed. A joined producer that lost a record raises
        `AbortableError`, since the transaction must not be committed then.
        """
        if self._background.is_forked:
            return
        if self._background.is_inside:
            raise RuntimeError(
                "A callback of the producer cannot close it: nothing would send what is left. Have another "
                "thread close it."
            )
        exit_hooks.forget(self)
        core = self._core
        is_open = not core.engine.state.is_closed
        try:
            if is_open:
                self._background.run(core.engine.close(timeout))
        except Closed:
            if not core.engine.state.is_closed:
                raise
            # Another thread has closed it meanwhile.
        finally:
            self._background.stop()
            core.preparation.close()
        if is_open:
            core.check_joined()

    def flush_at_exit(self) -> None:
        """The program ends, and other threads may still send: see `exit_hooks.py`."""
        runner = self._core.engine.transactions
        is_promised = runner is None or runner.is_joined  # else an abort takes it back
        if self._has_loop and is_promised and self._core.engine.accumulator.incomplete:
            failed_before = self._core.engine.counts["records_failed"]
            try:
                self.flush(exit_hooks.seconds_left(self.settings.delivery_timeout_ms))
            except TimedOut:
                self._failed_before_exit = failed_before  # `close_at_exit` counts from there
                return
            self._warn_of_loss(failed_before)

    def close_at_exit(self) -> None:
        """The program ends: deliver what was sent, and log what could not be delivered."""
        if not self._has_loop:
            return
        failed_before = self._failed_before_exit
        if failed_before is None:
            failed_before = self._core.engine.counts["records_failed"]
        seconds = exit_hooks.seconds_left(self.settings.delivery_timeout_ms)
        runner = self._core.engine.transactions
        if runner is not None and not runner.is_joined:
            seconds = min(seconds, exit_hooks.ABORT_SECONDS_MAX)
            if runner.is_taking:
                log.warning(
                    "The program ended during the transaction of %s; aborting it.", runner.transactional_id
                )
        try:
            self.close(seconds)
        finally:
            self._warn_of_loss(failed_before)

    @property
    def _has_loop(self) -> bool:
        return (
            not self._background.is_forked
            and self._background.is_running
            and not self._core.engine.state.is_closed
        )

    def _warn_of_loss(self, failed_before: int) -> None:
        count = self._core.engine.counts["records_failed"] - failed_before
        if count:
            reason = self._core.engine.cluster.last_error
            log.warning(
                "The program ended without closing its producer; %d records were not delivered%s.",
                count,
                f": {reason}" if reason is not None else "",
            )

    def _forked(self) -> None:
        core = getattr(self, "_core", None)  # there is none where a serializer could not be used
        if core is not None:
            core.engine.accumulator.is_fast = False

    def _thread_ended(self) -> None:
        self._core.engine.abandon()

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
        complete(self._producer._core.end_transaction(kind))
