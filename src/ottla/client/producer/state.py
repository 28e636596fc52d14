"""Whether a producer may send, and the callers that wait for its memory."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.core.accumulator import Accumulator
from ottla.client.errors import Closed, FatalError
from ottla.client.producer.transactions import TransactionRunner


class ProducerState:
    """Whether a producer is open and usable. Call `update_fast` after any change."""

    def __init__(self, accumulator: Accumulator, *, may_be_fast: bool) -> None:
        self.fatal: Exception | None = None
        self.is_leaving = False
        """Whether `close` is in progress."""
        self.is_closed = False
        self.transactions: TransactionRunner | None = None
        self._accumulator = accumulator
        self._may_be_fast = may_be_fast

    def check_open(self) -> None:
        if self.is_closed or self.is_leaving:
            raise Closed("The producer is closed.")
        if self.fatal is not None:
            raise FatalError(f"The producer has failed: {self.fatal} Create another one.") from self.fatal

    def fail(self, error: Exception) -> None:
        """The producer can no longer send. The first error is kept."""
        self.fatal = self.fatal or error

    def update_fast(self) -> None:
        """Decide whether the accumulator's `send` may append a record without calling Python code."""
        is_taking = self.transactions is None or self.transactions.is_taking
        is_usable = self.fatal is None and not self.is_closed and not self.is_leaving
        self._accumulator.is_fast = self._may_be_fast and is_taking and is_usable


class MemoryWaiters:
    """The callers that wait for memory in the accumulator: until half of it is free."""

    def __init__(self, accumulator: Accumulator, wake: Callable[[], object]) -> None:
        self._accumulator = accumulator
        self._wake = wake
        self._waiting: dict[Callable[[], object], None] = {}

    def __bool__(self) -> bool:
        """Whether anyone waits: then everything is sent."""
        return bool(self._waiting)

    def want(self, notify: Callable[[], object]) -> None:
        """Call `notify` once memory is free."""
        self._waiting[notify] = None
        if not self.notify_if_free():
            self._wake()

    def forget(self, notify: Callable[[], object]) -> None:
        """Do not call `notify` any more: it was called, or nobody waits for it."""
        self._waiting.pop(notify, None)

    def notify_if_free(self) -> bool:
        """Notify the waiters if memory is free; return whether it is."""
        is_free = bool(self._accumulator.used <= self._accumulator.buffer_memory // 2)
        if is_free:
            self.notify()
        return is_free

    def notify(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for notify in waiting:
            notify()
