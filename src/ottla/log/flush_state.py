"""What of a log is on stable storage, and what the next flush must cover.

The rules: the recovery point moves only after a flush has returned without an error. A truncation lowers it,
also for the flushes that are running: they may not cover what is written after the truncation.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.log.flush import Flush
from ottla.log.leader_epochs import EpochCache, write_checkpoint
from ottla.log.producer_snapshots import Snapshots
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.ports import Clock, Disk

_OFFSET_MAX = 2**63 - 1


class FlushState:
    """The recovery point of a log, its running flushes, and the rolled segments that wait for one."""

    __slots__ = (
        "_clock",
        "_disk",
        "_epochs",
        "_rolled",
        "_rolled_flushing",
        "_running",
        "_segments",
        "_snapshots",
        "_truncated_to",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        segments: Segments,
        snapshots: Snapshots,
        epochs: EpochCache,
        *,
        recovery_point: int,
        rolled: Iterable[Segment],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._segments = segments
        self._snapshots = snapshots
        self._epochs = epochs
        self.recovery_point = recovery_point
        self.last_flush_ms = clock.now_ms()
        self._rolled = list(rolled)  # inactive segments whose index files are not synced yet
        self._rolled_flushing: list[Segment] = []  # those that a running flush covers
        self._running = 0
        self._truncated_to = _OFFSET_MAX  # the lowest truncation since the oldest running flush began

    @property
    def is_flushing(self) -> bool:
        """Whether a flush runs off the loop."""
        return self._running > 0

    @property
    def has_rolled(self) -> bool:
        """Whether rolled segments wait for a flush."""
        return bool(self._rolled)

    def unflushed_segments(self, log_end_offset: int) -> int:
        """How many segments, beside the active one, have something that is not flushed."""
        return len({*self._rolled, *self._segments.covering(self.recovery_point, log_end_offset)})

    @property
    def scan_offset(self) -> int:
        """Where a scan begins after an unclean stop: the recovery point, unless the indexes of segments below
        it are not on stable storage yet."""
        rolled = [segment.base_offset for segment in (*self._rolled_flushing, *self._rolled)]
        return min(self.recovery_point, *rolled) if rolled else self.recovery_point

    # ---- changes of the log

    def add_rolled(self, segment: Segment) -> None:
        """The segment is no longer active: its index files must be synced."""
        self._rolled.append(segment)
        segment.is_unsynced = True

    def remove_rolled(self, segment: Segment) -> None:
        """The segment is deleted, or active again."""
        if segment in self._rolled:
            self._rolled.remove(segment)

    def truncate_to(self, offset: int) -> None:
        """What is written from `offset` on needs a flush, and no running flush covers it."""
        self.recovery_point = min(self.recovery_point, offset)
        if self._running:
            self._truncated_to = min(self._truncated_to, offset)

    # ---- flushes

    def prepare(self, offset: int, directory: str) -> Flush | None:
        """A flush of everything below `offset`; None if there is nothing to flush."""
        if offset <= self.recovery_point and not self._rolled:
            return None
        active = self._segments.active
        data = self._segments.covering(self.recovery_point, offset) if offset > self.recovery_point else []
        for segment in data:
            if segment is not active:
                segment.trim()
        files = [active.file] if active in data else []
        rolled = self._rolled
        # Inactive segments by path: there may be more of them than files can be open.
        paths = [segment.path for segment in data if segment is not active]
        snapshots = self._snapshots.unsynced
        paths += map(self._snapshots.path_of, snapshots)
        for segment in rolled:
            paths.extend(segment.paths[1:])
        has_epochs = self._epochs.is_changed
        if has_epochs:
            # Not before: a scan finds the epochs of unflushed batches again.
            paths.append(write_checkpoint(self._disk, directory, self._epochs))
        has_new_files = bool(paths) or any(segment.base_offset >= self.recovery_point for segment in data)
        self._snapshots.unsynced = []
        self._rolled_flushing += rolled
        self._rolled = []
        self._running += 1
        return Flush(
            self._disk,
            offset,
            files,
            paths,
            directory if has_new_files else None,
            rolled=rolled,
            snapshots=snapshots,
            has_epochs=has_epochs,
        )

    def prepare_truncation(self, directory: str) -> Flush:
        """A flush that makes a truncation durable. Before it, a power loss may bring back truncated records,
        before or among those that were written since."""
        return Flush(self._disk, self.recovery_point, [self._segments.active.file], [], directory)

    def complete(self, flush: Flush, log_end_offset: int) -> None:
        """`flush.run` has returned: what it covered needs no scan after an unclean stop."""
        self._running -= 1
        # The flush may not cover what was written after a truncation in the meantime.
        offset = min(flush.offset, self._truncated_to, log_end_offset)
        self._end(flush)
        for segment in flush.rolled:
            segment.is_unsynced = segment in self._rolled  # it was truncated and rolled again
        if not self._running:
            self._truncated_to = _OFFSET_MAX
        self.recovery_point = max(self.recovery_point, offset)
        self.last_flush_ms = self._clock.now_ms()

    def postpone(self, flush: Flush) -> None:
        """`flush.run` has raised NotOpened: the next flush does all of it again."""
        self._running -= 1
        inactive = set(self._segments) - {self._segments.active}
        self._rolled = [segment for segment in flush.rolled if segment in inactive] + self._rolled
        self._snapshots.unsynced = [*flush.snapshots, *self._snapshots.unsynced]
        self._epochs.is_changed |= flush.has_epochs
        self._end(flush)

    def _end(self, flush: Flush) -> None:
        """Forget a flush. The segments of other running flushes still hold back the scan offset."""
        ended = set(flush.rolled)
        self._rolled_flushing = [segment for segment in self._rolled_flushing if segment not in ended]
