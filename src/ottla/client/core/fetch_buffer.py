"""The buffer of fetched records.

Rule: one piece belongs to one partition and one `stamp` of it; a piece with an older stamp is dropped unread.
The loop adds pieces and the user's thread takes records: the queue is a deque, and every counter has one
writer, so neither waits for the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Protocol

from ottla.client.core.positions import PartitionState

_HEAD = Struct(">qiib")  # base offset, length, leader epoch, magic
_LAST_OFFSET_DELTA = Struct(">i")
_LENGTH_END = 12  # what the length field does not count
_HEADER_V2 = 61


class Reader(Protocol):
    """Decodes the records of one piece as they are taken."""

    next_offset: int
    exhausted: bool
    ended_early: bool
    last_leader_epoch: int | None

    def take(self, count: int) -> list[Any]: ...


def whole_batches(records: memoryview, stop: int | None = None) -> tuple[int, int, int | None]:
    """(bytes of the whole batches, the offset after them, the leader epoch of the last); offset -1: none.

    Batches that begin at or after `stop` are omitted, but their presence is noted.
    """
    position, total = 0, len(records)
    next_offset = -1
    epoch: int | None = None
    while position + _HEAD.size <= total:
        base, length, leader_epoch, magic = _HEAD.unpack_from(records, position)
        end = position + _LENGTH_END + length
        if stop is not None and base >= stop:
            next_offset = max(next_offset, stop)
            break
        if end > total or length <= 0:
            break
        if magic >= 2:
            if length + _LENGTH_END < _HEADER_V2:
                break
            next_offset = base + _LAST_OFFSET_DELTA.unpack_from(records, position + 23)[0] + 1
            epoch = leader_epoch if leader_epoch >= 0 else None
        else:
            next_offset, epoch = base + 1, None
        position = end
    return position, next_offset, epoch


class CompletedFetch:
    """The result of one fetch for one partition."""

    __slots__ = ("aborted", "epoch", "next_offset", "reader", "records", "size", "stamp", "state")

    def __init__(
        self,
        state: PartitionState,
        records: memoryview,
        next_offset: int,
        epoch: int | None,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.state = state
        self.stamp = state.stamp
        self.records = records
        self.size = len(records)
        self.next_offset = next_offset
        self.epoch = epoch
        self.aborted = aborted
        self.reader: Reader | None = None


class Buffer:
    """The pieces of all partitions, in order of arrival."""

    def __init__(self, open_reader: Callable[[CompletedFetch, int], Reader]) -> None:
        self._open = open_reader
        self.ready: deque[CompletedFetch] = deque()
        self._parked: list[CompletedFetch] = []  # of paused partitions, which wait beside the others
        self._bytes_parked = 0  # counted by the user's thread, or while that waits
        self.bytes_arrived = 0
        self.bytes_taken = 0

    @property
    def bytes_buffered(self) -> int:
        return self.bytes_arrived - self.bytes_taken

    @property
    def bytes_ready(self) -> int:
        """The bytes that the user can take: without paused partitions, which must not hold up the others."""
        return self.bytes_buffered - self._bytes_parked

    def put(self, fetch: CompletedFetch) -> None:
        """Called on the loop."""
        fetch.state.arrived += 1
        self.bytes_arrived += fetch.size
        self.ready.append(fetch)

    def take(
        self, count: int, *, hold: bool = False, collect: Callable[[Any, int], Any] | None = None
    ) -> tuple[CompletedFetch, Any] | None:
        """Take up to `count` records of one partition and move its position past them; None if empty.

        With `hold` the records count as buffered until `release` or `give_back`. `collect` takes them from
        the reader in its own way, and returns their number.
        """
        ready = self.ready
        while ready:
            fetch = ready[0]
            state = fetch.state
            if fetch.stamp != state.stamp:
                ready.popleft()
                self.bytes_taken += fetch.size
                continue
            if state.paused:
                self._park(ready.popleft())
                continue
            reader = fetch.reader
            if reader is None:
                reader = fetch.reader = self._open(fetch, state.position)
            records = reader.take(count) if collect is None else collect(reader, count)
            if reader.last_leader_epoch is not None:
                state.position_epoch = reader.last_leader_epoch
            if not reader.exhausted:
                state.position = reader.next_offset
            else:
                ready.popleft()
                state.position = max(reader.next_offset, fetch.next_offset)
                if fetch.epoch is not None:  # of the last batch, which may have had nothing for the user
                    state.position_epoch = fetch.epoch
                self.bytes_taken += fetch.size
                if not hold or not records:
                    state.taken += 1  # after the position: the loop may set that once nothing is buffered
            if records:
                return fetch, records
        return None

    def release(self, fetch: CompletedFetch) -> None:
        """The user has processed everything taken with `hold`."""
        if fetch.reader is not None and fetch.reader.exhausted and fetch.stamp == fetch.state.stamp:
            fetch.state.taken += 1

    def give_back(self, fetch: CompletedFetch, last: Any, rest: Sequence[Any]) -> None:
        """Return `rest`, which followed the record `last`, if any, in one take with `hold`."""
        state = fetch.state
        if fetch.stamp != state.stamp:
            return  # given back to the group, or sought: the position is another already
        if not rest:
            self.release(fetch)
            return
        if fetch.reader is not None and fetch.reader.exhausted:
            self.ready.appendleft(fetch)
            self.bytes_taken -= fetch.size
        fetch.reader = None  # it is read again from the position on
        state.position = rest[0].offset
        state.position_epoch = None if last is None else last.leader_epoch

    def take_fetch(self) -> tuple[CompletedFetch, int] | None:
        """Take a whole piece as bytes, with the offset to read from; moves the position past it."""
        ready = self.ready
        while ready:
            fetch = ready.popleft()
            state = fetch.state
            if fetch.stamp != state.stamp:
                self.bytes_taken += fetch.size
            elif state.paused:
                self._park(fetch)
            else:
                position, state.position = state.position, fetch.next_offset
                state.position_epoch = fetch.epoch
                self.bytes_taken += fetch.size
                state.taken += 1
                return fetch, position
        return None

    def _park(self, fetch: CompletedFetch) -> None:
        if fetch.reader is None and 2 * fetch.size < memoryview(fetch.records.obj).nbytes:
            fetch.records = memoryview(bytes(fetch.records))  # a view keeps the whole answer alive
        self._parked.append(fetch)
        self._bytes_parked += fetch.size

    def park(self) -> None:
        """Set the pieces of paused partitions aside. The user's thread waits."""
        for fetch in [fetch for fetch in self.ready if fetch.state.paused]:
            self.ready.remove(fetch)
            self._park(fetch)

    def unpark(self) -> None:
        """Partitions may have been resumed: queue their fetches again. The user's thread waits."""
        parked, self._parked = self._parked, []
        for fetch in reversed(parked):
            is_valid = fetch.stamp == fetch.state.stamp
            if is_valid and fetch.state.paused:
                self._parked.insert(0, fetch)
                continue
            self._bytes_parked -= fetch.size
            if is_valid:
                self.ready.appendleft(fetch)
            else:
                self.bytes_taken += fetch.size

    def drop_stale(self) -> None:
        """Drop pieces whose partition was revoked or sought. The user's thread waits."""
        self.unpark()
        for fetch in [fetch for fetch in self.ready if fetch.stamp != fetch.state.stamp]:
            self.ready.remove(fetch)
            self.bytes_taken += fetch.size
