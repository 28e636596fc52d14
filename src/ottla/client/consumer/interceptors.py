"""Interceptors that come with the library.

A custom one is any object with `on_consume(records)`, which returns the records for the user, and optionally
`on_commit(offsets)`.
"""

from __future__ import annotations

from typing import Any

from ottla.host import HostClock
from ottla.ports import Clock


class DropOlder:
    """Drops records that are older than a time to live, by their timestamps.

    Positions advance past them, so they count as read. Records without a timestamp are kept.
    """

    def __init__(self, ttl_ms: int, clock: Clock | None = None) -> None:
        self.ttl_ms = ttl_ms
        self.dropped = 0
        self._clock: Clock = clock or HostClock()

    def on_consume(self, records: list[Any]) -> list[Any]:
        oldest = self._clock.now_ms() - self.ttl_ms
        young = [record for record in records if record.timestamp >= oldest or record.timestamp < 0]
        self.dropped += len(records) - len(young)
        return young
