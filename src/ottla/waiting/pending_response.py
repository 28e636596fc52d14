"""A response that is not there yet: what a request returns that has to wait.

Rule: a `PendingResponse` is completed exactly once, by whichever comes first: its condition, its deadline or
the end of its connection. That stops its timer, removes its callbacks from every watch list and calls its
release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.waiting.watch_list import WatchList
from ottla.wire.errors import KafkaError


class Timer(Protocol):
    """A timer of the event loop."""

    def cancel(self) -> None: ...


class PendingResponse:
    """See the module. `on_error` makes the response out of an error, where one can occur."""

    __slots__ = (
        "_lists",
        "_on_error",
        "_release",
        "_ticket",
        "_watched",
        "is_completed",
        "on_completed",
        "response",
        "timer",
    )

    def __init__(self, on_error: Callable[[KafkaError], object] | None = None) -> None:
        self.response: Any = None
        self.is_completed = False
        self.on_completed: Callable[[], None] | None = None
        self.timer: Timer | None = None
        self._on_error = on_error
        self._release: Callable[[], None] | None = None
        self._watched: list[tuple[WatchList, int]] | None = None
        self._lists: Sequence[WatchList] | None = None
        self._ticket = 0

    def watch(self, changes: WatchList, watcher: Callable[[], bool]) -> None:
        """Have `watcher` called at each change until the response is completed."""
        if self._watched is None:
            self._watched = []
        self._watched.append((changes, changes.add(watcher)))

    def watch_all(self, lists: Sequence[WatchList], watcher: Callable[[], bool]) -> None:
        """The same for many changes, once: in few steps for each."""
        assert self._lists is None, "it watches many already"
        self._lists = lists
        self._ticket = id(watcher)
        for changes in lists:
            changes.watchers[self._ticket] = watcher

    def when_released(self, release: Callable[[], None]) -> None:
        """Call `release` once the response is completed or abandoned."""
        self._release = release

    def response_or_self(self) -> Any:
        """What a handler returns: the response if it is there already."""
        return self.response if self.is_completed else self

    def complete(self, response: object) -> None:
        """Give the response; None closes the connection without one."""
        on_completed = self.on_completed
        if self._finish():
            self.response = response
            if on_completed is not None:
                on_completed()

    def complete_with(self, response: object) -> None:
        """The same with a response that may be a `PendingResponse` itself."""
        if not isinstance(response, PendingResponse):
            self.complete(response)
        elif response.is_completed:
            self.complete(response.response)
        else:
            response.on_completed = lambda: self.complete(response.response)

    def fail(self, error: KafkaError) -> None:
        """Complete it with the response that reports an error."""
        if not self.is_completed:
            assert self._on_error is not None, "whoever can fail a response says how"
            self.complete(self._on_error(error))

    def abandon(self) -> None:
        """Complete it without a response: its connection is closed."""
        self._finish()

    def _finish(self) -> bool:
        if self.is_completed:
            return False
        self.is_completed = True
        self.on_completed = None  # it may hold this response: only the collector would free them
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self._watched is not None:
            for changes, ticket in self._watched:
                changes.remove(ticket)
            self._watched = None
        if self._lists is not None:
            ticket = self._ticket
            for changes in self._lists:
                changes.watchers.pop(ticket, None)
            self._lists = None
        if self._release is not None:
            release, self._release = self._release, None
            release()
        return True
