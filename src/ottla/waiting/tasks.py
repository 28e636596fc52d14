"""Pending responses that tasks complete, and tasks that wait for pending responses."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.waiting.pending_response import PendingResponse


async def completion_of(pending: PendingResponse) -> Any:
    """The response once it is completed; None if it is abandoned. A task that stops waiting abandons it."""
    if not pending.is_completed:
        done = asyncio.Event()
        pending.on_completed = done.set
        try:
            await done.wait()
        finally:
            pending.abandon()
    return pending.response


def response_of_task(task: asyncio.Future[Any]) -> PendingResponse:
    """A response that a task or future completes. A failed task completes it with None and reports to the
    loop.
    """
    pending = PendingResponse()

    def cancel() -> None:
        task.cancel()

    def on_done(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            pending.complete(None)
            return
        error = done.exception()
        if error is None:
            pending.complete(done.result())
            return
        done.get_loop().call_exception_handler(
            {"message": "Unexpected error in a request", "exception": error}
        )
        pending.complete(None)

    pending.when_released(cancel)
    task.add_done_callback(on_done)
    return pending
