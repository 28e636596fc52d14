"""The rules of compaction for one log: what is dirty, what may be cleaned, which records are dropped.

A log has a clean part, then a dirty part and, at its end, a part that is not cleaned: the active segment,
everything above the last stable offset, and what is younger than `min.compaction.lag.ms`. So every
transaction in a cleaning has ended, and the transaction index says how.

Nothing here reads or writes a file; `cleaner.py` applies these rules.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.log.transactions import AbortedTransaction
from ottla.records.batch import BatchHeader
from ottla.records.compaction import Verdict
from ottla.records.control import ControlType

_RELATIVE_OFFSET_MAX = 0x7FFF_FFFF


class Dirt(NamedTuple):
    """How dirty a log is: what one cleaning would do for it."""

    first_dirty_offset: int
    end_offset: int
    """Cleaning stops here: the base offset of the first segment that must not be cleaned."""
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """For how long `max.compaction.lag.ms` has been passed; 0 if it has not."""
    is_checkpoint_wrong: bool
    """The checkpoint did not fit the log, so cleaning starts over from the log's start."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.dirty_bytes

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        if self.overdue_ms > 0 and self.dirty_bytes > 0:
            return True
        return self.total_bytes > 0 and self.ratio > config.min_cleanable_dirty_ratio


def measure(log: Log, cleaned_offset: int | None, now_ms: int) -> Dirt:
    """How dirty `log` is, if it was cleaned up to `cleaned_offset` before."""
    first_dirty = log.log_start_offset if cleaned_offset is None else cleaned_offset
    is_wrong = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if is_wrong:
        first_dirty = log.log_start_offset
    uncleanable = max(first_dirty, _first_uncleanable_offset(log, first_dirty, now_ms))
    active = log.active_segment
    following = _inactive_from(log, uncleanable)
    end_offset = following[0].base_offset if following else active.base_offset
    dirty = log.segments.covering(min(first_dirty, end_offset), end_offset)
    clean = log.segments.covering(-1, first_dirty)
    return Dirt(
        first_dirty_offset=first_dirty,
        end_offset=end_offset,
        clean_bytes=sum(segment.size_bytes for segment in clean),
        dirty_bytes=sum(segment.size_bytes for segment in dirty),
        overdue_ms=_overdue_ms(log, first_dirty, now_ms),
        is_checkpoint_wrong=is_wrong,
    )


def _inactive_from(log: Log, offset: int) -> list[Segment]:
    """The segments before the active one, from the one that holds `offset` on."""
    active_base = log.active_segment.base_offset
    return [] if offset >= active_base else log.segments.covering(offset, active_base)


def _first_uncleanable_offset(log: Log, first_dirty: int, now_ms: int) -> int:
    bound = min(log.last_stable_offset, log.active_segment.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _inactive_from(log, first_dirty):
            if segment.largest_timestamp > now_ms - lag_ms:
                return min(bound, segment.base_offset)
    return bound


def _overdue_ms(log: Log, first_dirty: int, now_ms: int) -> int:
    clean_until_ms = now_ms - log.config.max_compaction_lag_ms
    if clean_until_ms <= 0:
        return 0
    stamps = (segment.first_batch_timestamp for segment in _inactive_from(log, first_dirty))
    earliest = min((stamp for stamp in stamps if stamp is not None and stamp > 0), default=clean_until_ms)
    return max(0, clean_until_ms - earliest)


def group_segments(segments: Sequence[Segment], config: LogConfig, end_offset: int) -> list[list[Segment]]:
    """Neighbours that fit into one segment together, so that segments do not shrink with every cleaning."""
    groups: list[list[Segment]] = []
    sizes = (0, 0, 0)
    limits = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
    for number, segment in enumerate(segments):
        added = (segment.size_bytes, segment.offset_index.size_bytes, segment.time_index.size_bytes)
        sums = tuple(map(sum, zip(sizes, added, strict=True)))
        last_offset = (segments[number + 1].base_offset if number + 1 < len(segments) else end_offset) - 1
        if (
            groups
            and all(size <= limit for size, limit in zip(sums, limits, strict=True))
            # An empty segment adds no offset: without this rule one would be left for every 2**31 offsets.
            and (not segment.size_bytes or last_offset - groups[-1][0].base_offset <= _RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(segment)
            sizes = (sums[0], sums[1], sums[2])
        else:
            groups.append([segment])
            sizes = added
    return groups


class TransactionTracker:
    """Tracks the transactions of a log while a cleaning reads it from its start."""

    __slots__ = ("_aborted", "_committed", "_upcoming", "retained")

    def __init__(self) -> None:
        self._upcoming: list[tuple[int, AbortedTransaction]] = []  # a heap, by first offset
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}  # producer id -> (which, has batches)
        self._committed: set[int] = set()
        self.retained: list[AbortedTransaction] = []
        """The entries for the transaction index of the cleaned segment; the caller removes them."""

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions of the next segment. Adding one twice is harmless."""
        for transaction in aborted:
            heapq.heappush(self._upcoming, (transaction.first_offset, transaction))

    def _reach(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            transaction = heapq.heappop(self._upcoming)[1]
            self._aborted.setdefault(transaction.producer_id, (transaction, False))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Track a batch of records; whether its transaction was aborted, so that it can be dropped."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (aborted[0], True)
        return True

    def is_marker_idle(self, header: BatchHeader, kind: ControlType | None) -> bool:
        """Track a control batch; whether no batch depends on it any more. No kind: it is empty."""
        self._reach(header.last_offset)
        if kind is None:
            return True
        if kind == ControlType.ABORT:
            transaction, has_batches = self._aborted.pop(header.producer_id, (None, False))
            if transaction is not None and has_batches:
                self.retained.append(transaction)
                return False
            return True
        if kind == ControlType.COMMIT:
            is_idle = header.producer_id not in self._committed
            self._committed.discard(header.producer_id)
            return is_idle
        return False


LastRecords = Mapping[int, tuple[int, int]]
"""Producer id -> (last offset of its records or -1, epoch), of the producers that are remembered."""


def last_records(log: Log) -> dict[int, tuple[int, int]]:
    return {
        producer_id: (entry.last_offset, entry.epoch) for producer_id, entry in log.producers.entries.items()
    }


def judge(
    header: BatchHeader,
    kind: ControlType | None,
    tracker: TransactionTracker,
    last: LastRecords,
    end_offset: int,
    now_ms: int,
) -> Verdict:
    """The verdict on a batch. `kind` is that of a control batch's record, None if it has none."""
    if header.is_control:
        is_idle = tracker.is_marker_idle(header, kind)
        horizon = header.delete_horizon_ms
        discard = is_idle and horizon is not None and horizon <= now_ms
    else:
        is_idle = False
        discard = tracker.is_aborted(header)
    return Verdict(
        discard_records=discard,
        # The last offset of the cleaned range must stay readable from the log.
        retain_empty=header.next_offset == end_offset or _is_last_of_producer(header, last),
        set_horizon=is_idle,
    )


def _is_last_of_producer(header: BatchHeader, last: LastRecords) -> bool:
    """The batch that holds an active producer's last sequence number, or else its last epoch."""
    found = last.get(header.producer_id) if header.has_producer_id else None
    if found is None:
        return False
    last_offset, epoch = found
    if last_offset >= 0:
        return header.last_offset == last_offset
    return header.is_control and header.producer_epoch == epoch
