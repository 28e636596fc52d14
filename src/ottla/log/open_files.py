"""The files of inactive segments that are open: a bounded number for all logs of a node.

A rolled segment is not written any more and seldom read. Beyond the limit, the least recently used one closes
its descriptors, and opens them again when it is read. The rule: only the event loop opens and closes here.
Threads that load logs use segments that are not listed here yet, and threads that close logs at the end run
after `close`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.segment import Segment


class OpenFiles:
    """The inactive segments of a node that have open files, the most recently used at the end."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._segments: dict[Segment, None] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._segments)

    def use(self, segment: Segment) -> None:
        """It has just been read, or rolled."""
        if self._is_closed:
            return
        segments = self._segments
        segments.pop(segment, None)
        segments[segment] = None
        if len(segments) > self.limit:
            self._park_oldest()

    def _park_oldest(self) -> None:
        """Prefer a flushed segment: while no descriptor is open, the system may forget that it failed to
        write a file, and then the fsync does not report it."""
        for is_unsynced in (False, True):
            for segment in self._segments:
                if segment.is_unsynced is is_unsynced and segment.park():
                    del self._segments[segment]
                    return

    def forget(self, segment: Segment) -> None:
        """Its files are closed."""
        if not self._is_closed:
            self._segments.pop(segment, None)

    def close(self) -> None:
        """Stop tracking: all logs are about to be closed, off the loop."""
        self._is_closed = True
        self._segments = {}
