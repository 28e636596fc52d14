"""The files of a log: which segments it has, and what becomes of them as files.

New segments, segments that compaction puts in the place of others, segments on their way out, the epoch
checkpoint, snapshots, flushes and the end of it all. What the bytes mean is `log.py`'s matter. Rule: a step
that fails leaves the log with the files it had, and a stop at any moment leaves what a load understands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from ottla.log.config import LogConfig
from ottla.log.flush import Flush, NotOpened
from ottla.log.leader_epochs import CHECKPOINT_NAME, EpochCache
from ottla.log.open_files import OpenFiles
from ottla.log.producer_snapshots import SNAPSHOT_SUFFIX, Snapshots
from ottla.log.producer_state import ProducerStates
from ottla.log.recovery import Loaded
from ottla.log.segment import CLEANED, COMPACTED_MARK, DELETED, SWAP, Segment
from ottla.log.segments import Segments, SegmentsInconsistent
from ottla.ports import OUT_OF_RESOURCES, Clock, Disk, Random
from ottla.wire.errors import KafkaStorageError

logger = logging.getLogger("ottla.log")

_OFFSET_MAX = 2**63 - 1


class _Deletion(NamedTuple):
    due_ms: int
    segment: Segment | None
    path: str


class LogFiles:
    """The part of a `Log` that deals with files; see the module."""

    __slots__ = (
        "_are_epochs_new",
        "_clock",
        "_data_end",
        "_deletions",
        "_disk",
        "_flushing",
        "_open_files",
        "_random",
        "_roll_ms",
        "_rolled",
        "_rolled_flushing",
        "_rules",
        "_segment_bytes",
        "_snapshots",
        "_truncated_to",
        "_unmade_cut",
        "config",
        "cuts_pending",
        "directory",
        "epochs",
        "failure",
        "high_watermark",
        "is_closed",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
        "recovery_point",
        "segments",
        "size_bytes",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: str,
        config: LogConfig,
        loaded: Loaded,
        *,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        random: Random | None,
        open_files: OpenFiles | None = None,
    ) -> None:
        self._disk = disk
        self._open_files = open_files
        self._clock = clock
        self._random = random
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.segments: Segments = loaded.segments
        self.epochs: EpochCache = loaded.epochs
        self.producers: ProducerStates = loaded.producers
        self._snapshots: Snapshots = loaded.snapshots
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.high_watermark = loaded.log_start_offset
        self.size_bytes = loaded.segments.size_bytes
        self.last_flush_ms = clock.now_ms()
        self.failure: OSError | None = None
        """Why nothing may be appended or flushed any more."""
        self.is_closed = False  # or about to be: nothing may be appended
        self._deletions: list[_Deletion] = []
        self._rolled = list(loaded.recovered)  # inactive segments whose index files are not synced yet
        self._rolled_flushing: list[Segment] = []  # those that a flush under way is about
        self._flushing = 0
        self._truncated_to = _OFFSET_MAX  # how far down, since the flush under way began
        self._are_epochs_new = loaded.are_epochs_new
        self.cuts_pending = 0
        """Truncations that are not on stable storage yet: nothing may be appended behind them."""
        self._unmade_cut: Callable[[], None] | None = None  # what a truncation that failed has left to do
        self._data_end = (-1, -1)
        """(the offset after the last batch, the end of the log) of the last truncation that left them apart:
        the records between them had been compacted away."""
        self.reconfigure(config)
        for segment in self.segments:
            if segment is not self.segments.active:
                segment.open_files = open_files
        for segment in loaded.doomed:
            self._schedule_deletion(segment)

    def __repr__(self) -> str:
        return f"Log({self.name}, start={self.log_start_offset}, end={self.log_end_offset})"

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def active_segment(self) -> Segment:
        return self.segments.active

    def reconfigure(self, config: LogConfig) -> None:
        """Go by new settings from now on."""
        self.config = config
        self._rules = config.produce_rules(self.name)
        self._segment_bytes = config.segment_bytes
        self._roll_ms = config.roll_ms

    # ---- failures and epochs

    def fail(self, error: OSError) -> None:
        """Take no more appends or flushes. A failed fsync ends here: a second one would lie."""
        self.failure = error

    def _refuse(self) -> NoReturn:
        if self.failure is None:
            raise KafkaStorageError(f"The log of {self.name} is closed.")
        raise KafkaStorageError(
            f"The log of {self.name} is closed to writes since a disk error: {self.failure}."
        )

    def _refuse_behind_cut(self) -> NoReturn:
        raise KafkaStorageError(f"The log of {self.name} takes records again when its truncation is flushed.")

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """A leader of `epoch` writes from `start_offset` on."""
        if self.epochs.assign(epoch, start_offset):
            self._are_epochs_new = True

    def copy_epochs(self, epochs: EpochCache) -> None:
        """Know the leader epochs that another copy of this log knows, also those without a record yet."""
        if self.epochs.entries != epochs.entries:
            self.epochs = EpochCache(list(epochs.entries))
            self._are_epochs_new = True

    def _write_epochs(self, *, sync: bool = False) -> str:
        """Write the epoch checkpoint; its path, to be synced.

        It waits for a flush: of what is not flushed a scan finds the epochs again.
        """
        path = f"{self.directory}/{CHECKPOINT_NAME}"
        self._disk.replace(path, self.epochs.to_text().encode(), sync=sync)
        self._are_epochs_new = False
        return path

    # ---- segments

    @property
    def data_end_offset(self) -> int:
        """The offset after the last batch: the log's end, unless a truncation ended where no batch is."""
        after_last, end_offset = self._data_end
        return after_last if end_offset == self.log_end_offset else self.log_end_offset

    def roll(self, base_offset: int | None = None) -> Segment:
        """Begin a segment, by default at the offset after the last batch. If that fails, the old one goes on.

        A copy of a compacted log gets batches with gaps between them. A gap always lies within a segment:
        then a segment that begins behind the end of the one before it shows that a power loss took that end.
        """
        base_offset = max(base_offset or 0, self.data_end_offset)
        old = self.segments.active
        if old.base_offset == base_offset:
            if old.size_bytes:
                raise ValueError(f"{self.name} has a segment of offset {base_offset} already")
            return self._replace_empty(old)
        old.become_inactive()
        segment = self._create_segment(base_offset)
        reached = self.producers.end_offset
        self.producers.end_offset = base_offset
        try:
            self._snapshots.take(self.producers)
        except Exception:
            self.producers.end_offset = reached
            segment.remove()
            raise
        self.producers.end_offset = max(reached, base_offset)
        self.segments.add(segment)
        self._rolled.append(old)
        old.is_unsynced = True
        old.open_files = self._open_files
        old.touch()
        return segment

    def _create_segment(self, base_offset: int) -> Segment:
        return Segment.create(
            self._disk,
            self.directory,
            base_offset,
            self.config,
            now_ms=self._clock.now_ms(),
            jitter_ms=draw_jitter_ms(self.config, self._random),
        )

    def _replace_empty(self, old: Segment) -> Segment:
        """An empty segment that is to be rolled (an index of no entries is always full) starts over."""
        old.close_handles()
        segment = self._create_segment(old.base_offset)
        self.segments.add(segment)
        return segment

    def replace_segments(self, new: list[Segment], old: list[Segment]) -> None:
        """Put compacted segments in the place of those they were made from.

        All new ones are named .swap first, from the last to the first: whenever this stops, a load finds
        either all of the old or all of the new. The names are synced before an old segment is renamed, and
        again before a new one gets its final name, since a file system may lose any of the renames that are
        not synced. A load completes the last ones.
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
            # Otherwise a load would complete the exchange, whatever became of the old segments since.
            for segment in new:
                segment.remove()
            raise
        try:
            self._exchange(new, old)
        except OSError as error:
            self.fail(error)  # some of the old are gone, and a load puts the new in their place
            raise
        except Exception as error:
            failure = SegmentsInconsistent(self.directory, error)
            self.fail(failure)
            raise failure from error

    def _exchange(self, new: list[Segment], old: list[Segment]) -> None:
        new_bases = {segment.base_offset for segment in new}
        for segment in old:
            self.segments.remove(segment)
            self.size_bytes -= segment.size_bytes
            if segment in self._rolled:
                self._rolled.remove(segment)
            segment.rename(suffix=DELETED)
            self._schedule_deletion(segment)
            if segment.base_offset not in new_bases:
                self._doom_snapshot(segment.base_offset)
        try:
            self._disk.sync_directory(self.directory)
        except OSError as error:
            if error.errno not in OUT_OF_RESOURCES:
                raise
            logger.warning("%s: exchanged segments without a sync of their names: %s", self.name, error)
        for segment in new:
            segment.rename(suffix="")
            self.segments.add(segment)
            self.size_bytes += segment.size_bytes
            segment.open_files = self._open_files
            segment.touch()

    def _delete_segments(self, doomed: list[Segment]) -> None:
        """Take segments out of the log; their files go after file.delete.delay.ms."""
        for segment in doomed:
            if segment.suffix != DELETED:
                self._mark_deleted(segment)
            self.segments.remove(segment)
            self.size_bytes -= segment.size_bytes
            if segment in self._rolled:
                self._rolled.remove(segment)
            self._schedule_deletion(segment)
            self._doom_snapshot(segment.base_offset)

    def _mark_deleted(self, segment: Segment) -> None:
        """Rename all files of a segment, or none."""
        try:
            segment.rename(suffix=DELETED)
        except Exception:
            try:
                segment.rename(suffix="")
            except OSError as error:
                self.fail(error)
            raise

    def _schedule_deletion(self, segment: Segment) -> None:
        due_ms = self._clock.now_ms() + self.config.file_delete_delay_ms
        self._deletions.append(_Deletion(due_ms, segment, ""))

    def _doom_snapshot(self, offset: int) -> None:
        path = self._snapshots.mark_deleted(offset)
        if path is not None:
            self._deletions.append(
                _Deletion(self._clock.now_ms() + self.config.file_delete_delay_ms, None, path)
            )

    def delete_due(self, now_ms: int) -> int | None:
        """Remove files whose delay is over; when the next one is due, None if there is none."""
        if self._flushing:
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

    # ---- flushing

    @property
    def is_flushing(self) -> bool:
        """Whether a flush is under way, off the loop."""
        return self._flushing > 0

    @property
    def is_flush_due(self) -> bool:
        """Whether flush.messages asks for a flush before the last append is acknowledged."""
        flush_messages = self.config.flush_messages
        return (
            self.log_end_offset - self.recovery_point >= flush_messages
            and self.data_end_offset - self.recovery_point >= flush_messages
        )

    def is_timed_flush_due(self, now_ms: int) -> bool:
        """Whether flush.ms asks for a flush."""
        return (
            self.recovery_point < self.data_end_offset and now_ms - self.last_flush_ms >= self.config.flush_ms
        )

    @property
    def is_background_flush_due(self) -> bool:
        """Whether rolled segments wait to be flushed: `flush(active_segment.base_offset)` does it."""
        return bool(self._rolled) or self.recovery_point < self.segments.active.base_offset

    @property
    def unflushed_segments(self) -> int:
        """How many segments there are beside the active one of which something is to be flushed."""
        return len({*self._rolled, *self.segments.covering(self.recovery_point, self.log_end_offset)})

    def prepare_flush(self, offset: int | None = None) -> Flush | None:
        """What must reach the disk so that everything below `offset` (the end) is safe; None: nothing."""
        if self.failure is not None:
            self._refuse()
        # Not to the log's end if no batch is there: the next segment begins at the offset after the last one.
        offset = self.data_end_offset if offset is None else min(offset, self.data_end_offset)
        if offset <= self.recovery_point and not self._rolled:
            return None
        active = self.segments.active
        data = self.segments.covering(self.recovery_point, offset) if offset > self.recovery_point else []
        for segment in data:
            if segment is not active:
                segment.trim()
        files = [active.file] if active in data else []
        rolled = self._rolled
        # Of those that were left, there may be more than files can be open.
        paths = [segment.path for segment in data if segment is not active]
        paths += self._snapshots.unsynced
        for segment in rolled:
            paths.extend(segment.paths[1:])
        if self._are_epochs_new:
            paths.append(self._write_epochs())
        has_new_files = bool(paths) or any(segment.base_offset >= self.recovery_point for segment in data)
        self._snapshots.unsynced = []
        self._rolled_flushing += rolled
        self._rolled = []
        self._flushing += 1
        return Flush(self._disk, offset, files, paths, self.directory if has_new_files else None, rolled)

    @property
    def scan_offset(self) -> int:
        """From where on a scan is needed after an unclean stop: the recovery point, unless the indexes of
        segments below it are not on stable storage yet."""
        rolled = [segment.base_offset for segment in (*self._rolled_flushing, *self._rolled)]
        return min(self.recovery_point, *rolled) if rolled else self.recovery_point

    def prepare_cut_sync(self) -> Flush:
        """What makes a cut last. Until it does, a power loss may bring back what was cut, before or among
        what was written since."""
        return Flush(self._disk, self.recovery_point, [self.segments.active.file], [], self.directory)

    def complete_flush(self, flush: Flush) -> None:
        """`flush.run` has come back: what it covered needs no scan after an unclean stop."""
        self._flushing -= 1
        # What was written in place of what was cut off meanwhile, the flush may not have seen.
        offset = min(flush.offset, self._truncated_to, self.log_end_offset)
        self._forget_rolled(flush)
        for segment in flush.rolled:
            segment.is_unsynced = segment in self._rolled  # it was truncated and rolled again
        if not self._flushing:
            self._truncated_to = _OFFSET_MAX
        self.recovery_point = max(self.recovery_point, offset)
        self.last_flush_ms = self._clock.now_ms()

    def postpone_flush(self, flush: Flush) -> None:
        """`flush.run` has raised NotOpened: the next flush does all of it again."""
        self._flushing -= 1
        present = set(self.segments) - {self.segments.active}
        self._rolled = [segment for segment in flush.rolled if segment in present] + self._rolled
        names = [path.rpartition("/")[2] for path in flush.paths]
        snapshots = [f"{self.directory}/{name}" for name in names if name.endswith(SNAPSHOT_SUFFIX)]
        self._snapshots.unsynced = snapshots + self._snapshots.unsynced
        self._are_epochs_new = self._are_epochs_new or CHECKPOINT_NAME in names
        self._forget_rolled(flush)

    def _forget_rolled(self, flush: Flush) -> None:
        """A flush has ended. The segments of others that are under way still hold back the scan offset."""
        ended = set(flush.rolled)
        self._rolled_flushing = [segment for segment in self._rolled_flushing if segment not in ended]

    def flush(self, offset: int | None = None) -> None:
        """Bring everything below `offset` (the end) to stable storage. Blocks."""
        flush = self.prepare_flush(offset)
        if flush is None:
            return
        try:
            flush.run()
        except NotOpened:
            self.postpone_flush(flush)
            raise
        except OSError as error:
            self.fail(error)
            raise
        self.complete_flush(flush)

    # ---- the end

    def rename_directory(self, path: str) -> None:
        """Move the log to another name. Open files stay open."""
        self._disk.rename(self.directory, path)
        self.directory = path
        self._snapshots.unsynced = [
            f"{path}/{unsynced.rpartition('/')[2]}" for unsynced in self._snapshots.unsynced
        ]
        self._snapshots.directory = path
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

    def close(self, *, clean: bool = True) -> None:
        """Give back files and mappings. A clean close leaves all that saves the next load a scan.

        Flush before: what is written here are copies of what the batches say, and is not waited for.
        """
        self.is_closed = True
        if clean and self.failure is None:
            if self._are_epochs_new:
                self._write_epochs(sync=True)
            if self.log_end_offset > self.segments[0].base_offset:
                self._snapshots.take(self.producers)
            for segment in self.segments:
                if segment is self.segments.active or not segment.is_complete:
                    segment.close()
        for segment in self.segments:
            segment.close_handles()
        for deletion in self._deletions:
            if deletion.segment is not None:
                deletion.segment.close_handles()


def draw_jitter_ms(config: LogConfig, random: Random | None) -> int:
    """A share of segment.jitter.ms, so that not all logs roll at once."""
    bound = min(config.segment_jitter_ms, config.segment_ms)
    return random.below(bound) if random is not None and bound > 0 else 0
