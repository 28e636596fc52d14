"""The `-delete` directories of a node, until their delay is over.

Readers may still be using the files of a log that is no longer served, so they are removed later, by
`LogRemoval`.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.log.log import Log
from ottla.ports import Clock


class PendingDeletion(NamedTuple):
    """A `-delete` directory, and the log whose files are still open in it."""

    due_ms: int
    path: str
    log: Log | None


class PendingDeletions:
    """See the module."""

    def __init__(self, clock: Clock, delay_ms: int) -> None:
        self._clock = clock
        self._delay_ms = delay_ms
        self._items: list[PendingDeletion] = []

    @property
    def delay_ms(self) -> int:
        return self._delay_ms

    @property
    def paths(self) -> list[str]:
        return [item.path for item in self._items]

    def add(self, path: str, log: Log | None = None) -> None:
        self._items.append(PendingDeletion(self._clock.now_ms() + self._delay_ms, path, log))

    def take_due(self, now_ms: int) -> list[PendingDeletion]:
        """Take those whose delay has passed."""
        due = [item for item in self._items if item.due_ms <= now_ms]
        self._items = [item for item in self._items if item.due_ms > now_ms]
        return due

    def next_due_ms(self) -> int | None:
        return min((item.due_ms for item in self._items), default=None)

    def forget_under(self, prefix: str) -> None:
        """Their disk failed: the next start finds them."""
        self._items = [item for item in self._items if not item.path.startswith(prefix)]

    def close(self) -> None:
        """Close the files; the next start removes them."""
        for item in self._items:
            if item.log is not None:
                item.log.close(clean=False)
