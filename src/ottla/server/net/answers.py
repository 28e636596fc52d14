"""Requests that wait: an answer that comes later, and the watch lists that bring it.

Rule: an `Answer` is settled exactly once, by whoever comes first: its condition, its deadline, or the end
of its connection. Whoever settles it runs `release`, which takes it off every list it stands on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Answer:
    """A response that is not there yet. The connection that owes it listens through `on_settled`."""

    __slots__ = ("_release", "is_settled", "on_settled", "response", "timer")

    def __init__(self, release: Callable[[], None] | None = None) -> None:
        self.response: Any = None
        self.is_settled = False
        self.on_settled: Callable[[], None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._release = release

    def when_released(self, release: Callable[[], None]) -> None:
        """Call `release` once the answer is settled or abandoned."""
        self._release = release

    def settle(self, response: Any) -> None:
        """Give the response; None closes the connection without one."""
        if self._finish():
            self.response = response
            if self.on_settled is not None:
                self.on_settled()

    def abandon(self) -> None:
        """Nobody waits any more: the connection is gone."""
        self._finish()

    def _finish(self) -> bool:
        if self.is_settled:
            return False
        self.is_settled = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self._release is not None:
            release, self._release = self._release, None
            release()
        return True


async def settled(answer: Answer) -> Any:
    """The response of an answer, once it is there; None if nobody waits for it any more. Who stops waiting
    abandons it."""
    if not answer.is_settled:
        done = asyncio.Event()
        answer.on_settled = done.set
        try:
            await done.wait()
        finally:
            answer.abandon()
    return answer.response


class WatchList:
    """Callbacks that want to know when something changed, for instance that a partition grew.

    A callback returns True when it is done with the list. Most lists are empty most of the time, so the
    owner checks `watchers` before it calls `notify`.
    """

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        self.watchers: dict[int, Callable[[], bool]] = {}

    def add(self, watcher: Callable[[], bool]) -> int:
        ticket = id(watcher)
        self.watchers[ticket] = watcher
        return ticket

    def remove(self, ticket: int) -> None:
        self.watchers.pop(ticket, None)

    def notify(self) -> None:
        for ticket, watcher in list(self.watchers.items()):
            if watcher():
                self.watchers.pop(ticket, None)


def _cancel(work: asyncio.Future[Any]) -> None:
    work.cancel()


def answer_of(work: asyncio.Future[Any]) -> Answer:
    """An answer that a task or future settles. A failed task settles it with None and tells the loop."""
    answer = Answer(lambda: _cancel(work))

    def on_done(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            answer.settle(None)
            return
        error = done.exception()
        if error is None:
            answer.settle(done.result())
            return
        done.get_loop().call_exception_handler(
            {"message": "Unexpected error in a request", "exception": error}
        )
        answer.settle(None)

    work.add_done_callback(on_done)
    return answer
