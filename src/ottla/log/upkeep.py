"""The watermarks of a log, and how it gets shorter: at its start by retention, at its end by truncation.

The order that always holds: log start <= last stable offset <= high watermark <= end. Nothing at or above the
high watermark is ever deleted for its age or size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.log.files import LogFiles
from ottla.log.recovery import rebuild_producers
from ottla.log.segment import Segment
from ottla.wire.errors import OffsetOutOfRange

logger = logging.getLogger("ottla.log")


class LogUpkeep(LogFiles):
    """The part of a `Log` that knows where it begins, ends and is safe to read; see the module."""

    __slots__ = ()

    # ---- watermarks

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset whose transaction is open, or ended above the high watermark."""
        first = self.producers.transactions.first_unstable_offset
        return None if first is None else max(first, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """Up to here read_committed readers may read."""
        first = self.producers.transactions.first_unstable_offset
        high_watermark = self.high_watermark
        if first is None or first >= high_watermark:
            return high_watermark
        return max(first, self.log_start_offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Records below `offset` are replicated. It never goes back; says whether it moved."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.transactions.unreplicated:
            self.producers.transactions.forget_below(offset)
        return True

    def set_high_watermark(self, offset: int) -> int:
        """What a checkpoint or a leader says it is; bounded by the log's start and end. May go back."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.transactions.forget_below(self.high_watermark)
        return self.high_watermark

    def increase_log_start_offset(self, offset: int, reason: str) -> bool:
        """Records below `offset` are gone for readers; says whether that is new."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.name} since it is "
                f"larger than the high watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        logger.info(
            "%s: log start offset moves from %d to %d: %s", self.name, self.log_start_offset, offset, reason
        )
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            self._are_epochs_new = True
        self.producers.transactions.forget_below(offset)
        self.producers.end_offset = max(self.producers.end_offset, offset)
        return True

    # ---- retention

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete what log start, size limit and age limit no longer keep; the count of segments."""
        deleted = self._delete_while(self._is_below_start, "its records are below the log start offset")
        if self.config.is_deleted:
            deleted += self._delete_oversize()
            deleted += self._delete_aged(now_ms)
        return deleted

    def _is_below_start(self, _segment: Segment, following: Segment | None) -> bool:
        return following is not None and following.base_offset <= self.log_start_offset

    def _delete_oversize(self) -> int:
        limit = self.config.retention_bytes
        if limit < 0 or self.size_bytes < limit:
            return 0
        surplus = self.size_bytes - limit

        def is_surplus(segment: Segment, _following: Segment | None) -> bool:
            nonlocal surplus
            if surplus < segment.size_bytes:
                return False
            surplus -= segment.size_bytes
            return True

        return self._delete_while(is_surplus, f"the log is larger than retention.bytes {limit}")

    def _delete_aged(self, now_ms: int) -> int:
        limit = self.config.retention_ms
        if limit < 0:
            return 0
        return self._delete_while(
            lambda segment, _following: now_ms - segment.largest_timestamp > limit,
            f"its records are older than retention.ms {limit}",
        )

    def _delete_while(self, is_deletable: Callable[[Segment, Segment | None], bool], reason: str) -> int:
        """Delete from the oldest segment on, never above the high watermark, never an empty active one."""
        doomed = []
        for segment in self.segments:
            following = self.segments.after(segment)
            upper_bound = following.base_offset if following is not None else self.log_end_offset
            if following is None and not segment.size_bytes:
                break
            if self.high_watermark < upper_bound or not is_deletable(segment, following):
                break
            doomed.append(segment)
        if not doomed:
            return 0
        if len(doomed) == len(self.segments):
            self.roll(self.log_end_offset)  # there must always be a segment to append to
        following = self.segments.after(doomed[-1])
        if following is not None:
            self.increase_log_start_offset(following.base_offset, reason)
        logger.info("%s: deleting %d segments up to %s: %s", self.name, len(doomed), doomed[-1].path, reason)
        self._delete_segments(doomed)
        return len(doomed)

    def expire_producers(self, now_ms: int) -> None:
        self.producers.expire(now_ms)

    # ---- truncation

    def truncate_to(self, offset: int) -> bool:
        """Drop every batch that reaches `offset` or beyond; says whether there were any."""
        self.redo_cut()
        if offset < 0:
            raise ValueError(f"Cannot truncate partition {self.name} to a negative offset ({offset}).")
        if offset >= self.log_end_offset:
            # An epoch that began at the end and wrote nothing may be one that no other replica knows.
            if self.epochs.truncate_from_end(self.log_end_offset):
                self._are_epochs_new = True
            return False
        if offset < self.high_watermark:
            logger.warning(
                "%s: truncating to %d, below the high watermark %d", self.name, offset, self.high_watermark
            )
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        last = self.segments.floor(offset)
        if last is not None:
            # It may be parked. If it cannot be opened, the truncation fails before its first change.
            last.position_of(offset)
        unreplicated = self.producers.transactions.unreplicated
        self._make_cut(lambda: self._drop_from(offset, unreplicated))
        return True

    def _make_cut(self, cut: Callable[[], None]) -> None:
        """Make a cut. If it fails in the middle, nothing is appended before `redo_cut` has completed it."""
        if self._unmade_cut is None:
            self.cuts_pending += 1
        self._unmade_cut = cut
        cut()
        self._unmade_cut = None
        self.cuts_pending -= 1

    @property
    def is_cut_unmade(self) -> bool:
        """Whether a truncation failed in the middle."""
        return self._unmade_cut is not None

    def redo_cut(self) -> None:
        """Make the rest of a truncation that failed in the middle."""
        if self._unmade_cut is not None:
            self._make_cut(self._unmade_cut)

    def _drop_from(self, offset: int, unreplicated: dict[int, int]) -> None:
        """Truncate. May be called again if it fails."""
        # The offsets first: whatever happens to the files, nobody reads or elects by what is to go.
        self._move_end(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        # From the last to the first: where names keep their order, a crash in between leaves no hole.
        self._delete_segments([segment for segment in self.segments if segment.base_offset > offset][::-1])
        active = self.segments.active
        active.stay_open()
        if active in self._rolled:
            self._rolled.remove(active)
        active.truncate_to(offset, self._clock.now_ms())
        self.size_bytes = self.segments.size_bytes
        self.segments.forget_positions()
        # A batch that held the offset is gone as a whole, and with it what was flushed of it.
        data_end_offset = active.read_next_offset()
        self._data_end = (data_end_offset, offset)
        self._unflush_from(data_end_offset)
        if self.epochs.truncate_from_end(offset):
            self._are_epochs_new = True
        self._reload_producers()
        self.producers.transactions.keep_unreplicated(unreplicated, offset)
        self.set_high_watermark(self.high_watermark)

    def _move_end(self, offset: int) -> None:
        self.log_end_offset = offset
        self._unflush_from(offset)

    def _unflush_from(self, offset: int) -> None:
        """What is written there from now on needs a flush, and none that is under way covers it."""
        self.recovery_point = min(self.recovery_point, offset)
        if self._flushing:
            self._truncated_to = min(self._truncated_to, offset)

    def _reload_producers(self) -> None:
        """The producers as of the end of the log."""
        now_ms = self._clock.now_ms()
        rebuild_producers(self.producers, self._snapshots, self.segments, self.log_end_offset, now_ms)
        if self.log_end_offset > self.segments[0].base_offset:
            try:
                self._snapshots.take(self.producers)
            except OSError as error:  # it would only save the next load a scan
                logger.warning("%s: no snapshot of producers was written: %s", self.name, error)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the next record gets `offset`."""
        self.redo_cut()
        in_the_way = [segment for segment in self.segments if segment.base_offset == offset]
        for segment in in_the_way:
            self._mark_deleted(segment)
        try:
            fresh = self._create_segment(offset)
        except Exception:
            for segment in in_the_way:
                segment.rename(suffix="")
            raise
        start_offset = offset if log_start_offset is None else log_start_offset
        self._make_cut(lambda: self._start_over(fresh, start_offset))

    def _start_over(self, fresh: Segment, log_start_offset: int) -> None:
        """Drop everything but an empty segment. May be called again if it fails."""
        offset = fresh.base_offset
        self._move_end(offset)
        self._data_end = (-1, -1)
        self.log_start_offset = log_start_offset
        self.high_watermark = offset
        self._delete_segments([segment for segment in self.segments if segment is not fresh])
        if fresh not in self.segments:
            self.segments.add(fresh)
        self.size_bytes = self.segments.size_bytes
        for snapshot in list(self._snapshots.offsets):
            self._snapshots.remove(snapshot)
        self.epochs.clear()
        self._are_epochs_new = True
        self.producers.restore((), offset, self._clock.now_ms())
        self.set_high_watermark(offset)
