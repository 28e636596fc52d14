"""The files of a log: segments and producer snapshots, from their creation to their removal.

The rule: a step that fails leaves the log with the files it had, and after a stop at any moment a load can
open the files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.flush_state import FlushState
from ottla.log.open_files import OpenFiles
from ottla.log.producer_snapshots import Snapshots
from ottla.log.producer_state import ProducerStates
from ottla.log.segment import CLEANED, COMPACTED_MARK, DELETED, SWAP, Segment
from ottla.log.segments import Segments, SegmentsInconsistent
from ottla.ports import OUT_OF_RESOURCES, Clock, Disk, Random

logger = logging.getLogger("ottla.log")


class _Deletion(NamedTuple):
    """A file, or the files of a segment, renamed to `.deleted`."""

    due_ms: int
    segment: Segment | None
    path: str


class LogFiles:
    """See the module. `on_failure` is called when the files on disk no longer match `segments`."""

    __slots__ = (
        "_clock",
        "_deletions",
        "_disk",
        "_flush_state",
        "_on_failure",
        "_open_files",
        "_random",
        "config",
        "directory",
        "segments",
        "snapshots",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: str,
        config: LogConfig,
        segments: Segments,
        snapshots: Snapshots,
        flush_state: FlushState,
        *,
        deleted: Iterable[Segment],
        random: Random | None,
        open_files: OpenFiles | None,
        on_failure: Callable[[OSError], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self.directory = directory
        self.config = config
        self.segments = segments
        self.snapshots = snapshots
        self._flush_state = flush_state
        self._random = random
        self._open_files = open_files
        self._on_failure = on_failure
        self._deletions: list[_Deletion] = []
        for segment in segments:
            if segment is not segments.active:
                segment.open_files = open_files
        for segment in deleted:
            self._schedule_deletion(segment)

    # ---- new segments

    def roll(self, base_offset: int, producers: ProducerStates) -> Segment:
        """Begin a segment, with a snapshot of `producers`. If that fails, the active one stays active."""
        old = self.segments.active
        if old.base_offset == base_offset:
            if old.size_bytes:
                raise ValueError(
                    f"{self.directory} already contains a segment with base offset {base_offset}"
                )
            return self._replace_empty(old)
        old.become_inactive()
        segment = self._create(base_offset)
        reached = producers.end_offset
        producers.end_offset = base_offset
        try:
            self.snapshots.take(producers)
        except Exception:
            producers.end_offset = reached
            segment.remove()
            raise
        producers.end_offset = max(reached, base_offset)
        self.segments.add(segment)
        self._flush_state.add_rolled(old)
        old.open_files = self._open_files
        old.touch()
        return segment

    def _create(self, base_offset: int) -> Segment:
        return Segment.create(
            self._disk,
            self.directory,
            base_offset,
            self.config,
            now_ms=self._clock.now_ms(),
            jitter_ms=draw_jitter_ms(self.config, self._random),
        )

    def _replace_empty(self, old: Segment) -> Segment:
        """Create an empty segment again that must be rolled: an index without room for entries is always
        full."""
        segment = self.create_substitute(old.base_offset)
        self.segments.add(segment)
        self._schedule_deletion(old)  # not removed at once: a running flush may sync it
        return segment

    # ---- compaction

    def replace(self, new: list[Segment], old: list[Segment]) -> None:
        """Replace segments by the compacted ones that were made from them.

        All new ones are renamed to .swap first, from the last to the first: whenever this stops, a load finds
        either all old or all new segments. The directory is synced before an old segment is renamed, and
        again before a new one gets its final name, since a file system may lose any rename that is not
        synced. A load completes the last renames.
        """
        new = sorted(new, key=lambda segment: segment.base_offset)
        old = sorted(
            (segment for segment in old if segment in self.segments), key=lambda segment: segment.base_offset
        )
        try:
            for segment in reversed(new):
                if segment.suffix == CLEANED:
                    segment.rename(suffix=SWAP)
            self._disk.open(f"{self.directory}/{COMPACTED_MARK}", create=True).close()
            self._disk.sync_directory(self.directory)
        except Exception:
            # Otherwise a load would complete the replacement, even if the old segments have changed since.
            for segment in new:
                segment.remove()
            raise
        try:
            self._exchange(new, old)
        except OSError as error:
            self._on_failure(error)  # some old segments are deleted, and a load replaces them by the new ones
            raise
        except Exception as error:
            failure = SegmentsInconsistent(self.directory, error)
            self._on_failure(failure)
            raise failure from error

    def _exchange(self, new: list[Segment], old: list[Segment]) -> None:
        new_bases = {segment.base_offset for segment in new}
        for segment in old:
            self.segments.remove(segment)
            self._flush_state.remove_rolled(segment)
            segment.rename(suffix=DELETED)
            self._schedule_deletion(segment)
            if segment.base_offset not in new_bases:
                self._delete_snapshot(segment.base_offset)
        try:
            self._disk.sync_directory(self.directory)
        except OSError as error:
            if error.errno not in OUT_OF_RESOURCES:
                raise
            logger.warning("%s: replaced segments without syncing the directory: %s", self.directory, error)
        for segment in new:
            segment.rename(suffix="")
            self.segments.add(segment)
            segment.open_files = self._open_files
            segment.touch()

    # ---- truncation

    def truncate_to(self, offset: int) -> int:
        """Drop every batch that reaches `offset` or beyond; the offset after the last batch that stays.

        May be called again if it fails.
        """
        # From the last to the first: if the file system keeps the order of renames, a crash leaves no hole.
        self.delete([segment for segment in self.segments if segment.base_offset > offset][::-1])
        active = self.segments.active
        active.stay_open()
        self._flush_state.remove_rolled(active)
        active.truncate_to(offset, self._clock.now_ms())
        self.segments.forget_positions()
        return active.read_next_offset()

    def create_substitute(self, base_offset: int) -> Segment:
        """An empty segment for `substitute`. If that fails, nothing has changed."""
        same_names = [segment for segment in self.segments if segment.base_offset == base_offset]
        for segment in same_names:
            self._mark_deleted(segment)
        try:
            return self._create(base_offset)
        except Exception:
            for segment in same_names:
                self._unmark_deleted(segment)
            raise

    def substitute(self, segment: Segment) -> None:
        """Replace all segments by this one, and delete all snapshots. May be called again if it fails."""
        self.delete([other for other in self.segments if other is not segment])
        if segment not in self.segments:
            self.segments.add(segment)
        for offset in list(self.snapshots.offsets):
            self.snapshots.remove(offset)

    # ---- deletion

    def delete(self, segments: list[Segment]) -> None:
        """Take segments out of the log; their files are removed after file.delete.delay.ms."""
        for segment in segments:
            if segment.suffix != DELETED:
                self._mark_deleted(segment)
            self.segments.remove(segment)
            self._flush_state.remove_rolled(segment)
            self._schedule_deletion(segment)
            self._delete_snapshot(segment.base_offset)

    def _mark_deleted(self, segment: Segment) -> None:
        """Rename all files of a segment for deletion, or none."""
        try:
            segment.rename(suffix=DELETED)
        except Exception:
            self._unmark_deleted(segment)
            raise

    def _unmark_deleted(self, segment: Segment) -> None:
        try:
            segment.rename(suffix="")
        except OSError as error:
            self._on_failure(error)

    def _schedule_deletion(self, segment: Segment) -> None:
        due_ms = self._clock.now_ms() + self.config.file_delete_delay_ms
        self._deletions.append(_Deletion(due_ms, segment, ""))

    def _delete_snapshot(self, offset: int) -> None:
        path = self.snapshots.mark_deleted(offset)
        if path is not None:
            due_ms = self._clock.now_ms() + self.config.file_delete_delay_ms
            self._deletions.append(_Deletion(due_ms, None, path))

    def delete_due(self, now_ms: int) -> int | None:
        """Remove files whose delay has passed; return when the next one is due, None if there is none."""
        if self._flush_state.is_flushing:
            return min((deletion.due_ms for deletion in self._deletions), default=None)
        kept = []
        for deletion in self._deletions:
            if deletion.due_ms > now_ms:
                kept.append(deletion)
            elif deletion.segment is not None:
                deletion.segment.remove()
            else:
                self._disk.remove(deletion.path)
        self._deletions = kept
        return min((deletion.due_ms for deletion in kept), default=None)

    # ---- all files

    def rename_directory(self, path: str) -> None:
        """Rename the log's directory. Open files stay open."""
        self._disk.rename(self.directory, path)
        self.directory = path
        self.snapshots.directory = path
        for segment in self.segments:
            segment.rename(directory=path)
        moved = []
        for deletion in self._deletions:
            if deletion.segment is not None:
                deletion.segment.rename(directory=path)
                moved.append(deletion)
            else:
                moved.append(deletion._replace(path=f"{path}/{deletion.path.rpartition('/')[2]}"))
        self._deletions = moved

    def complete(self) -> None:
        """Write out the indexes of segments that lack them, so that the next load needs no scan."""
        for segment in self.segments:
            if segment is self.segments.active or not segment.is_complete:
                segment.close()

    def close(self) -> None:
        """Release descriptors and mappings; what is on disk stays as it is."""
        for segment in self.segments:
            segment.close_handles()
        for deletion in self._deletions:
            if deletion.segment is not None:
                deletion.segment.close_handles()


def draw_jitter_ms(config: LogConfig, random: Random | None) -> int:
    """A share of segment.jitter.ms, so that not all logs roll at once."""
    bound = min(config.segment_jitter_ms, config.segment_ms)
    return random.below(bound) if random is not None and bound > 0 else 0
