"""Work that goes on when whoever waits for it goes away.

asyncio reports what a task raised where nobody asked for it, and so finds what was forgotten. But work that
has to end may do so when its client is gone, or its replica was given up, and then nobody is left to ask. The
rule: such work is begun here, and looked at when it ends; whoever still waits gets its outcome all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

_T = TypeVar("_T")


def outliving(work: Awaitable[_T]) -> asyncio.Future[_T]:
    """Begin work that is not cancelled with its waiter; its result is ignored once nobody waits for it."""
    return asyncio.shield(looked_at(asyncio.ensure_future(work)))


def looked_at(work: asyncio.Future[_T]) -> asyncio.Future[_T]:
    """The same, and nothing is reported if it fails when nobody waits."""
    work.add_done_callback(_look)
    return work


def _look(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()


def cannot_await(kind: type[BaseException] | None) -> bool:
    """Whether the exception that leaves an `async with` block is the end of a coroutine that no task runs.

    A coroutine that is closed, because its loop has ended, must not wait for anything. An async generator
    that is closed may: there a task waits for its end.
    """
    if kind is not GeneratorExit:
        return False
    try:
        return asyncio.current_task() is None
    except RuntimeError:  # no loop runs
        return True
