"""The segments of a log in order, and look-ups in them.

A look-up reads the index, then walks headers. The latest results are cached, since a consumer fetches next
from the offset where its last response ended. Rule: whatever moves bytes (roll, truncation, compaction,
deletion) goes through this class, which then drops the cached positions.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ottla.log.segment import Segment
from ottla.log.timestamp_search import BatchSearch, TimestampOffset
from ottla.log.transactions import AbortedTransaction
from ottla.records.batch import NO_TIMESTAMP

_POSITIONS_KEPT = 64
_COLD_SEGMENTS_KEPT = 4


class SegmentsInconsistent(OSError):
    """An unexpected error interrupted a change of segments: those in memory are not those on disk.

    Nothing on disk is lost. The log is not served until a restart loads it again.
    """

    def __init__(self, directory: str, cause: Exception) -> None:
        super().__init__(
            errno.EIO,
            f"Replacing segments failed halfway ({cause!r}). Restart the node to load the log again",
            directory,
        )


class Slice(NamedTuple):
    """Where the bytes of a read are: from `position` up to `end`, both on batch boundaries."""

    segment: Segment
    position: int
    end: int


class Segments:
    """Segments by base offset. There is always at least one once a log is open."""

    __slots__ = ("_bases", "_cold", "_items", "_positions")

    def __init__(self) -> None:
        self._items: list[Segment] = []
        self._bases: list[int] = []
        self._positions: dict[int, tuple[Segment, int]] = {}
        self._cold: list[Segment] = []  # inactive segments whose indexes are loaded

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Segment]:
        return iter(list(self._items))

    def __getitem__(self, number: int) -> Segment:
        return self._items[number]

    def __contains__(self, segment: object) -> bool:
        return segment in self._items

    @property
    def active(self) -> Segment:
        return self._items[-1]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._items)

    # ---- changes

    def add(self, segment: Segment) -> None:
        """Insert it by base offset; one with the same base offset is removed."""
        place = bisect_right(self._bases, segment.base_offset)
        if place and self._bases[place - 1] == segment.base_offset:
            self._drop(place - 1)
            place -= 1
        self._items.insert(place, segment)
        self._bases.insert(place, segment.base_offset)
        self.forget_positions()

    def remove(self, segment: Segment) -> None:
        self._drop(self._items.index(segment))
        self.forget_positions()

    def _drop(self, place: int) -> None:
        segment = self._items.pop(place)
        del self._bases[place]
        if segment in self._cold:
            self._cold.remove(segment)

    def forget_positions(self) -> None:
        self._positions.clear()

    # ---- by offset

    def floor(self, offset: int) -> Segment | None:
        """The segment that would hold `offset`."""
        place = bisect_right(self._bases, offset)
        return self._items[place - 1] if place else None

    def after(self, segment: Segment) -> Segment | None:
        place = bisect_right(self._bases, segment.base_offset)
        return self._items[place] if place < len(self._items) else None

    def covering(self, first_offset: int, end_offset: int) -> list[Segment]:
        """The segments that may hold offsets of [first, end)."""
        start = max(bisect_right(self._bases, first_offset) - 1, 0)
        stop = bisect_right(self._bases, end_offset - 1)
        return self._items[start:stop]

    def find(self, offset: int) -> tuple[Segment, int] | None:
        """Segment and position of the first batch whose last offset is at least `offset`."""
        kept = self._positions.get(offset)
        if kept is not None:
            return kept
        place = max(bisect_right(self._bases, offset) - 1, 0)
        while place < len(self._items):
            segment = self._items[place]
            position = segment.position_of(offset)
            if place + 1 < len(self._items):
                self._keep_loaded(segment)
            if position is not None:
                self.remember(offset, segment, position)
                return segment, position
            place += 1
        return None

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """Cache where the first batch at or after `offset` begins, or will begin once it is appended."""
        positions = self._positions
        if len(positions) >= _POSITIONS_KEPT:
            del positions[next(iter(positions))]
        positions[offset] = segment, position

    def _keep_loaded(self, segment: Segment) -> None:
        """Keep the indexes of the inactive segments loaded that were read last, and release others."""
        segment.touch()
        if segment in self._cold:
            return
        self._cold.append(segment)
        if len(self._cold) > _COLD_SEGMENTS_KEPT:
            old = self._cold.pop(0)
            old.offset_index.release()
            old.time_index.release()

    def slice(self, offset: int, limit_offset: int, end_offset: int) -> Slice | None:
        """What one segment has from `offset` on, below `limit_offset`, in a log that ends at `end_offset`."""
        found = self._positions.get(offset) or self.find(offset)
        if found is None:
            return None
        segment, position = found
        if limit_offset >= end_offset:
            end = segment.size_bytes
            if segment is self._items[-1] and end_offset not in self._positions:
                self.remember(end_offset, segment, end)  # where the reader will continue
            return Slice(segment, position, end)
        limit = self._positions.get(limit_offset) or self.find(limit_offset)
        if limit is None or limit[0].base_offset > segment.base_offset:
            return Slice(segment, position, segment.size_bytes)
        return Slice(segment, position, limit[1] if limit[0] is segment else position)

    # ---- by time

    def offset_for_timestamp(self, timestamp: int, first_offset: int) -> TimestampOffset | None:
        """The first record from `first_offset` on whose timestamp is at least `timestamp`."""
        search = self.batch_for_timestamp(timestamp, first_offset)
        while search is not None:
            found = search.find()
            if found is not None:
                return found
            search = self.batch_for_timestamp(timestamp, search.header.last_offset + 1)
        return None

    def batch_for_timestamp(self, timestamp: int, first_offset: int) -> BatchSearch | None:
        """The first batch from `first_offset` on that may hold such a record. If it does not, call this again
        with the offset after it."""
        for segment in self._items:
            if segment.largest_timestamp >= timestamp:
                start = max(_start_of_search(segment, timestamp), first_offset)
                position = segment.position_of(start)
                return self._batch_since(segment, position, timestamp, first_offset)
        return None

    def batch_of_max_timestamp(self) -> BatchSearch | None:
        """The first batch with the largest timestamp of all."""
        segment = max(self._items, key=lambda candidate: candidate.max_timestamp)
        timestamp = segment.max_timestamp
        if timestamp == NO_TIMESTAMP:
            return None
        position = segment.position_of(segment.offset_of_max_timestamp)
        return self._batch_since(segment, position, timestamp, 0)

    def _batch_since(
        self, segment: Segment, position: int | None, timestamp: int, first_offset: int
    ) -> BatchSearch | None:
        if position is not None:
            for at, header in segment.headers(position):
                if header.max_timestamp >= timestamp and header.last_offset >= first_offset:
                    data = segment.read_at(at, header.length_bytes)
                    return BatchSearch(header, data, timestamp, first_offset)
        return None

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of all."""
        search = self.batch_of_max_timestamp()
        return None if search is None else search.find()

    # ---- by transaction

    def aborted_transactions(
        self, segment: Segment | None, first_offset: int, upper_bound_offset: int
    ) -> list[AbortedTransaction]:
        """Aborted transactions that touch [first, upper), looking from `segment` on."""
        found: list[AbortedTransaction] = []
        while segment is not None:
            entries, is_complete = segment.aborted_index.collect(first_offset, upper_bound_offset)
            found.extend(entries)
            if is_complete:
                break
            segment = self.after(segment)
        return found

    def upper_bound_offset(self, segment: Segment, end_position: int, end_offset: int) -> int:
        """An offset above every batch before `end_position`: quick to find, and close enough."""
        bound = segment.offset_index.offset_at_or_after_position(end_position)
        if bound is not None:
            return bound
        following = self.after(segment)
        return following.base_offset if following is not None else end_offset


def _start_of_search(segment: Segment, timestamp: int) -> int:
    """An offset before which all records are older than `timestamp`. The time index is checked."""
    largest, offset = segment.time_index.lookup(timestamp)
    if largest < 0:
        return segment.base_offset
    position = segment.position_of(offset)
    if position is not None and segment.header_at(position).max_timestamp == largest:
        return offset
    segment.rebuild_indexes()
    return segment.time_index.lookup(timestamp)[1]
