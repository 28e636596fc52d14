"""What the active controller knows about brokers that is in no record: when each was last heard, how far it
has read the metadata log, and at which offset it may shut down.

It is lost with the controller: the next one starts with a full session for every broker. Times are in
milliseconds of a monotonic clock.
"""

from __future__ import annotations

from enum import Enum


class BrokerState(Enum):
    """The state of a broker for the controller."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


class Heartbeat:
    """The entry of one broker."""

    __slots__ = ("fenced", "metadata_offset", "shutdown_offset")

    def __init__(self, fenced: bool) -> None:
        self.fenced = fenced
        self.metadata_offset = -1
        self.shutdown_offset = -1  # the last record of its controlled shutdown, -1 if it is in none

    @property
    def state(self) -> BrokerState:
        if self.shutdown_offset >= 0:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if self.fenced else BrokerState.UNFENCED


class Heartbeats:
    """Entries by broker id, and the time of the last contact by (broker id, broker epoch)."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.brokers: dict[int, Heartbeat] = {}
        self.contacts: dict[tuple[int, int], int] = {}

    def register(self, broker_id: int, fenced: bool) -> None:
        """A record says that this broker is registered, fenced or not."""
        entry = self.brokers.get(broker_id)
        if entry is None:
            self.brokers[broker_id] = Heartbeat(fenced)
        else:
            offset = entry.metadata_offset if entry.fenced != fenced else -1
            self.touch(broker_id, fenced, offset)

    def remove(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)

    def touch(self, broker_id: int, fenced: bool, metadata_offset: int) -> None:
        entry = self.brokers[broker_id]
        entry.fenced = fenced
        entry.metadata_offset = metadata_offset
        if fenced:
            entry.shutdown_offset = -1

    def contact(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """The broker was heard now."""
        self.contacts[broker_id, epoch] = now_ms

    def excuse(self, late_ms: int, now_ms: int) -> None:
        """Extend all sessions: the controller was stalled, and the brokers were not silent."""
        for key, last_ms in self.contacts.items():
            self.contacts[key] = min(last_ms + late_ms, now_ms)

    def end_session(self, broker_id: int, epoch: int) -> None:
        """The broker has shut down: end its session."""
        self.contacts.pop((broker_id, epoch), None)

    def has_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        last = self.contacts.get((broker_id, epoch))
        return last is not None and last + self.session_timeout_ms >= now_ms

    def find_expired(self, now_ms: int) -> tuple[int, int] | None:
        """The id and epoch of a broker whose session has expired."""
        for key, last in self.contacts.items():
            if last + self.session_timeout_ms < now_ms:
                return key
        return None

    def lowest_active_offset(self) -> int | None:
        """The lowest offset that every active broker has read; None if none is active."""
        offsets = [e.metadata_offset for e in self.brokers.values() if e.state is BrokerState.UNFENCED]
        return min(offsets, default=None)
