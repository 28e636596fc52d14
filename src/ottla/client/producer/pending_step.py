"""The step of a transaction whose result its caller does not have yet.

A step continues when its caller stops waiting because of `max.block.ms` or a cancellation: a commit is never
half done. As in Kafka's client, the same call may then be repeated, and joins the step or gets its result.
Any other call is rejected until a caller has the result, except an abort after a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.client.errors import Closed, TimedOut, TransactionStateError

ABORT = "abort_transaction"


class PendingStep:
    """At most one step of one producer."""

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        last_error: Callable[[], Exception | None],
    ) -> None:
        self._spawn = spawn
        self._last_error = last_error
        self._name = ""
        self._task: asyncio.Task[None] | None = None

    def is_pending(self, name: str) -> bool:
        """Whether no caller has the result of this step yet."""
        return self._task is not None and self._name == name

    def refuse(self, name: str) -> None:
        """Raise if another step must be called again before this one."""
        task = self._task
        if task is None or self._name == name:
            return
        has_failed = task.done() and not task.cancelled() and task.exception() is not None
        if has_failed and name == ABORT:
            self._task = None
            return
        raise TransactionStateError(
            f"{name} cannot be called: {self._name} timed out or was cancelled. Call {self._name} again for "
            "its result, or close the producer."
        )

    async def run(self, name: str, start: Callable[[], Coroutine[Any, Any, None]], timeout_ms: float) -> None:
        """Wait for the step of this name, which `start` begins unless it is in progress or done."""
        self.refuse(name)
        if self._task is None:
            self._name, self._task = name, self._spawn(start())
        task = self._task
        done, _ = await asyncio.wait([task], timeout=timeout_ms / 1000)
        if not done:
            last = self._last_error()
            raise TimedOut(
                f"{name} did not finish within max.block.ms ({timeout_ms:g} ms). Call it again to continue "
                f"waiting{f' ({last})' if last else ''}."
            )
        if self._task is task:
            self._task = None
        if task.cancelled():
            raise Closed(f"The producer was closed before {name} finished.")
        task.result()

    async def wait_until_done(self, timeout_ms: float) -> None:
        """Wait until the step in progress has ended, for a producer that is closing."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_ms / 1000)
