"""Callbacks that wait for a change, for instance for a partition to grow."""

from __future__ import annotations

from collections.abc import Callable


class WatcherFailed(Exception):
    """A callback raised its cause: a bug, and no error of whoever made the change."""


class WatchList:
    """A callback returns True when it needs no further calls.

    Most lists are empty most of the time, so the owner checks `watchers` before it calls `notify`.
    """

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        self.watchers: dict[int, Callable[[], bool]] = {}

    def add(self, watcher: Callable[[], bool]) -> int:
        """The ticket with which `remove` finds the callback."""
        ticket = id(watcher)
        self.watchers[ticket] = watcher
        return ticket

    def remove(self, ticket: int) -> None:
        self.watchers.pop(ticket, None)

    def notify(self) -> None:
        """Call all of them. One that fails is dropped; WatcherFailed is raised once all are called.

        Its own exception would look like one of the append before it, which would then be repeated.
        """
        failure: Exception | None = None
        for ticket, watcher in list(self.watchers.items()):
            try:
                if not watcher():
                    continue
            except Exception as error:  # noqa: BLE001 - see above
                failure = failure or error
            self.watchers.pop(ticket, None)
        if failure is not None:
            raise WatcherFailed(f"a callback failed: {failure!r}") from failure
