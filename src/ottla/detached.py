"""Work that continues after its waiter has been cancelled.

asyncio reports the exception of a task that nobody awaited, which finds forgotten errors. But some work must
complete even if its client disconnects or its replica moves away, and then nobody awaits it. Rule: such work
is started here, and its exception is marked as retrieved; a waiter that is still there receives it all the
same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

_T = TypeVar("_T")


def detach(work: Awaitable[_T]) -> asyncio.Future[_T]:
    """Start work that is not cancelled with its waiter; without waiters its result is ignored."""
    return asyncio.shield(mark_retrieved(asyncio.ensure_future(work)))


def mark_retrieved(work: asyncio.Future[_T]) -> asyncio.Future[_T]:
    """Keep asyncio from reporting an exception of this future that nobody retrieves."""
    work.add_done_callback(_retrieve)
    return work


def _retrieve(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()


def cannot_await(kind: type[BaseException] | None) -> bool:
    """Whether an `async with` block ends because its coroutine was closed without a task.

    A coroutine that is closed because its loop has ended must not await anything. An async generator that is
    closed may, since a task waits for its end.
    """
    if kind is not GeneratorExit:
        return False
    try:
        return asyncio.current_task() is None
    except RuntimeError:  # no running loop
        return True
