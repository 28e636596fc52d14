"""Deletes expired offsets, empty groups without offsets, and offsets of deleted topics.

A partition can have a million offsets, so the work is done in slices: each is one decision, reads a bounded
number of offsets, writes a bounded batch, and starts a timer for the next. Rule: between two slices anything
may change, so a slice checks again what it is about to delete.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.coordinator.groups.offsets.records import NO_EXPIRY, OffsetRecord, times_of, tombstone
from ottla.coordinator.groups.offsets.store import Partitions
from ottla.coordinator.result import Record, Result, StartTimer

if TYPE_CHECKING:
    from ottla.controller.registrations import Topic
    from ottla.coordinator.groups.group import Group
    from ottla.coordinator.groups.shard import GroupShard

OFFSETS_PER_SLICE = 5_000
BYTES_PER_SLICE = 200_000
_OFFSETS_PER_STEP = 250
_RECORD_OVERHEAD_BYTES = 32
_OTHER_KEY_BYTES = 200

_Steps = Iterator[tuple[Result[None], int]]
"""A part of a cleanup, and how many offsets were read for it."""

SWEEP = "offset-expiry"


class Cleanup:
    """See the module."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._sweep: _Steps | None = None
        self._slice_number = 0
        self._deletion_number = 0

    # Expiry

    def next_sweep(self) -> StartTimer:
        """The timer of the next sweep, after `offsets.retention.check.interval.ms`."""
        return StartTimer(SWEEP, self._shard.settings.offsets.retention_check_interval_ms, self.sweep)

    def sweep(self) -> Result[None]:
        """One slice of the sweep: delete expired offsets and empty groups."""
        if self._sweep is None:
            self._sweep = self._expire()
        result, is_done = self._slice(self._sweep)
        if is_done:
            self._sweep = None
            result.timers.append(self.next_sweep())
        else:
            result.timers.append(StartTimer(SWEEP, 0, self.sweep))
        return result

    def _expire(self) -> _Steps:
        shard = self._shard
        for group_id, group in list(shard.groups.items()):
            removed = 0  # by this slice, whose records are not replayed yet
            slice_number = self._slice_number
            for expired, examined in self._expire_offsets(group_id, group):
                if self._slice_number != slice_number:
                    slice_number, removed = self._slice_number, 0
                removed += len(expired.records)
                yield expired, examined
            if self._slice_number != slice_number:
                removed = 0
            end: Result[None] = Result()
            if self._is_over(group_id, group, removed):
                shard.end_group(group, end)
            yield end, 1

    def _is_over(self, group_id: str, group: Group, removed: int) -> bool:
        if self._shard.groups.get(group_id) is not group or not group.is_empty:
            return False
        store = self._shard.offsets.store
        return store.count_of(group_id) == removed and not store.pending_of(group_id)

    def _expire_offsets(self, group_id: str, group: Group) -> _Steps:
        committed = self._shard.offsets.store.committed
        for topic in list(committed.get(group_id, ())):
            for places in self._steps_of(group_id, topic):
                since = group.offsets_expire_after()
                if since is None or self._shard.groups.get(group_id) is not group:
                    return
                if group.is_subscribed_to(topic):
                    break
                partitions = committed.get(group_id, {}).get(topic, {})
                expired = self._expired(group_id, topic, places, partitions, since)
                yield Result(records=expired), len(places)

    def _steps_of(self, group_id: str, topic: str) -> Iterator[list[int]]:
        """The partitions of a topic, as many at a time as one step reads."""
        partitions = list(self._shard.offsets.store.committed.get(group_id, {}).get(topic, ()))
        count = _offsets_per_step(group_id, topic)
        for start in range(0, len(partitions), count):
            yield partitions[start : start + count]

    def _expired(
        self,
        group_id: str,
        topic: str,
        places: list[int],
        partitions: Partitions,
        since: Callable[[int], int],
    ) -> list[Record]:
        now_ms = self._shard.clock.now_ms()
        retention_ms = self._shard.settings.offsets.retention_ms
        store = self._shard.offsets.store
        records: list[Record] = []
        for partition in places:
            value = partitions.get(partition)
            if value is None:
                continue
            commit_timestamp, expire_timestamp = times_of(value)
            if expire_timestamp != NO_EXPIRY:
                is_expired = now_ms >= expire_timestamp
            else:
                is_expired = now_ms - since(commit_timestamp) >= retention_ms
            if is_expired and not store.is_pending(group_id, topic, partition):
                records.append(tombstone(group_id, topic, partition))
        return records

    # Deleted topics

    def on_topics_deleted(self, topics: Iterable[Topic]) -> Result[None]:
        """Delete the offsets of deleted topics."""
        self._deletion_number += 1
        steps = self._offsets_of([(topic.name, topic.id) for topic in topics])
        return self._delete(("offsets-of-deleted-topics", self._deletion_number), steps)

    def _delete(self, key: Hashable, steps: _Steps) -> Result[None]:
        result, is_done = self._slice(steps)
        if not is_done:
            result.timers.append(StartTimer(key, 0, lambda: self._delete(key, steps)))
        return result

    def _offsets_of(self, topics: list[tuple[str, bytes]]) -> _Steps:
        store = self._shard.offsets.store
        for name, topic_id in topics:
            for group_id, partition in store.places_of_topic(name, topic_id):
                yield Result(records=[tombstone(group_id, name, partition)]), 1

    # Slices

    def _slice(self, steps: _Steps) -> tuple[Result[None], bool]:
        """(the next slice, whether it was the last)."""
        self._slice_number += 1
        result: Result[None] = Result()
        size = 0
        total = 0
        for found, examined in steps:
            result.add(found)
            size += sum(map(_size_of, found.records))
            total += examined
            if total >= OFFSETS_PER_SLICE or size >= BYTES_PER_SLICE:
                return result, False
        return result, True


def _size_of(record: Record) -> int:
    key_bytes = len(record.key_bytes) if isinstance(record, OffsetRecord) else _OTHER_KEY_BYTES
    return key_bytes + _RECORD_OVERHEAD_BYTES


def _offsets_per_step(group_id: str, topic: str) -> int:
    key_bytes_max = 4 * (len(group_id) + len(topic)) + _RECORD_OVERHEAD_BYTES
    return max(1, min(_OFFSETS_PER_STEP, BYTES_PER_SLICE // key_bytes_max))
