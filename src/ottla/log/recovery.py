"""Loads a log from its directory. After an unclean stop it scans the segments that may be torn.

What was flushed is below the recovery point. Above it, the log ends at the first batch that is incomplete or
does not match its checksum. Below it, such a batch is damage: `LogDamaged` says where, and nothing is
truncated, because that would silently lose records. Indexes, snapshots and the epoch checkpoint are derived
from the batches: a missing or wrong one is rebuilt.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from ottla.log.aborted_check import contradiction
from ottla.log.config import LogConfig
from ottla.log.index import RELATIVE_OFFSET_MAX
from ottla.log.leader_epochs import CHECKPOINT_NAME, EpochCache
from ottla.log.producer_snapshots import SNAPSHOT_SUFFIX, Snapshots
from ottla.log.producer_state import ProducerStates
from ottla.log.segment import (
    ABORTED_INDEX_SUFFIX,
    CLEANED,
    DELETED,
    DROPPED,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP,
    TIME_INDEX_SUFFIX,
    LogDamaged,
    Segment,
    file_name,
)
from ottla.log.segments import Segments
from ottla.log.transactions import AbortedTransaction, CompletedTransaction, Marker, aborted_problem
from ottla.ports import Buffer, Clock, Disk
from ottla.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_crc,
    read_header,
)
from ottla.records.control import (
    PLAIN_MARKER_BYTES,
    ControlType,
    control_type,
    coordinator_epoch,
    plain_end_txn_marker,
)
from ottla.records.record import read_batch
from ottla.wire.errors import CorruptMessage, InvalidRecord

logger = logging.getLogger("ottla.log.recovery")

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the directory, the bytes scanned so far and the bytes to scan."""

_CHUNK_BYTES = 1024 * 1024
_PREFIX_BYTES = 17  # enough for length and format
_LENGTH_MIN = 14
_PLAIN_BATCH_BYTES = HEADER_BYTES + PLAIN_MARKER_BYTES
_PLAIN_ATTRIBUTES = CONTROL_BIT | TRANSACTIONAL_BIT
_NUMBERED = re.compile(r"(\d{20})(\.[a-z]+)(\.[a-z]+)?\Z")
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)
_RAFT_SNAPSHOT_DELETED = ".checkpoint.deleted"


class Loaded(NamedTuple):
    """The parts of a loaded log."""

    segments: Segments
    epochs: EpochCache
    producers: ProducerStates
    snapshots: Snapshots
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    deleted: list[Segment]
    """Segments after a torn one, renamed for deletion."""
    recovered: list[Segment]
    """Inactive segments whose indexes were rebuilt and are not on stable storage yet."""
    has_gaps: bool
    """Whether offsets are missing between scanned segments. Then flush the log before the first append."""


def marker_of(buffer: Buffer, position: int, header: BatchHeader) -> Marker | None:
    """The transaction marker in this control batch; None for an empty batch or another kind."""
    if header.length_bytes == _PLAIN_BATCH_BYTES and header.attributes == _PLAIN_ATTRIBUTES:
        plain = plain_end_txn_marker(buffer, position + HEADER_BYTES)
        if plain is not None and header.record_count == 1:
            is_commit, epoch = plain
            return Marker(not is_commit, epoch, header.base_timestamp)
    for record in read_batch(buffer, position, header):
        kind = control_type(record.key or b"")
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        return Marker(kind == ControlType.ABORT, coordinator_epoch(record.value or b""), record.timestamp)
    return None


def replay_batch(
    states: ProducerStates, header: BatchHeader, buffer: Buffer, position: int
) -> CompletedTransaction | None:
    """Apply a batch of the log to `states`."""
    completed = None
    if header.producer_id >= 0:
        marker = marker_of(buffer, position, header) if header.is_control else None
        completed = states.apply(header, header.base_offset, header.max_timestamp, marker)
    states.end_offset = header.next_offset
    return completed


class Loader:
    """Loads one log: see `load`, which blocks."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: str,
        config: LogConfig,
        producers: ProducerStates,
        *,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        progress: Progress | None,
        jitter_ms: int,
        cleaned_offset: int = 0,
        is_contiguous: bool = True,
        keeps_dropped: bool = False,
    ) -> None:
        """`is_contiguous`: above the recovery point every segment began where the one before it ended, so
        offsets that are missing between two of them were lost. Otherwise they count as compacted.

        `keeps_dropped`: segments after such a gap are renamed to `.dropped`, not deleted. The log has no
        recovery point: it was created just before a power loss, or copied here, compacted by other software.
        """
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._config = config
        self._producers = producers
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._cleaned_offset = cleaned_offset
        self._is_contiguous = is_contiguous
        self._keeps_dropped = keeps_dropped
        self._clean = clean
        self._progress = progress
        self._jitter_ms = jitter_ms
        self._segments = Segments()
        self._snapshots = Snapshots(disk, directory, ())
        self._epochs = EpochCache()
        self._deleted: list[Segment] = []
        self._without_indexes: set[int] = set()
        self._aborting: list[Segment] = []  # those with a .txnindex
        self._recovered: list[Segment] = []
        self._has_gaps = False
        self._is_replayed = False  # whether the producers are as the segment scanned last left them
        self._bytes_done = 0
        self._bytes_total = 0

    def load(self) -> Loaded:
        self._disk.make_directory(self._directory)
        self._finish_swaps()
        damaged = self._open_segments()
        damaged |= self._contradicted(damaged)
        self._load_epochs()
        is_untouched = self._clean and not damaged
        end_offset = self._scan(damaged)
        if end_offset < self._log_start_offset and len(self._segments):
            self._drop_all(end_offset)
        if not len(self._segments):
            self._create_first()
            end_offset = self._log_start_offset
        log_start_offset = max(self._log_start_offset, self._segments[0].base_offset)
        self._trim_epochs(end_offset)
        self._load_producers(end_offset)
        for segment in self._segments:
            if segment is not self._segments.active:
                segment.close_handles()
        point = end_offset if is_untouched else min(self._recovery_point, end_offset)
        return Loaded(
            self._segments,
            self._epochs,
            self._producers,
            self._snapshots,
            log_start_offset,
            end_offset,
            point,
            self._deleted,
            [segment for segment in self._recovered if segment is not self._segments.active],
            self._has_gaps,
        )

    # ---- the files

    def _names(self) -> Iterator[tuple[str, int, str, str]]:
        """(name, offset, kind, state) of the files that belong to segments and snapshots."""
        for name in self._disk.list(self._directory):
            match = _NUMBERED.match(name)
            if match:
                yield name, int(match[1]), match[2], match[3] or ""

    def _remove(self, name: str) -> None:
        self._disk.remove(f"{self._directory}/{name}")

    def _finish_swaps(self) -> None:
        """Remove the files of an interrupted compaction or deletion, or complete the compaction.

        Cleaned segments are renamed to .swap from the last to the first, so if a .cleaned one exists, the
        .swap ones at or after it are an incomplete result.
        """
        for name in self._disk.list(self._directory):
            is_unfinished = name.endswith((f"{SNAPSHOT_SUFFIX}.tmp", f"{CHECKPOINT_NAME}.tmp"))
            if is_unfinished or (name.endswith(DELETED) and not name.endswith(_RAFT_SNAPSHOT_DELETED)):
                self._remove(name)
        files = list(self._names())
        cleaned = [(name, offset) for name, offset, _, state in files if state == CLEANED]
        first_cleaned = min((offset for _, offset in cleaned), default=None)
        swaps = []
        for name, offset, kind, state in files:
            if state != SWAP:
                continue
            if first_cleaned is not None and offset >= first_cleaned:
                self._remove(name)
            else:
                swaps.append((name, offset, kind))
        if cleaned:
            self._disk.sync_directory(
                self._directory
            )  # or a power loss could keep a .swap without its .cleaned
        for name, _ in cleaned:
            self._remove(name)
        if swaps:
            self._complete_swaps(swaps)

    def _complete_swaps(self, swaps: list[tuple[str, int, str]]) -> None:
        ranges = []
        for _, offset, kind in swaps:
            if kind == LOG_SUFFIX:
                segment = Segment.open_existing(
                    self._disk, self._directory, offset, self._config, suffix=SWAP
                )
                ranges.append((offset, segment.read_next_offset()))
                segment.close_handles()
        if ranges:
            first, end = min(start for start, _ in ranges), max(end for _, end in ranges)
            for name, offset, _, state in list(self._names()):
                if state not in (SWAP, DROPPED) and first <= offset < end:
                    logger.info("removing %s/%s, which a compacted segment replaces", self._directory, name)
                    self._remove(name)
            # Or an old segment could come back next to the one that replaces it.
            self._disk.sync_directory(self._directory)
        for name, _, _ in swaps:
            path = f"{self._directory}/{name}"
            self._disk.rename(path, path.removesuffix(SWAP))

    def _open_segments(self) -> set[int]:
        """Open every segment; the base offsets of those whose `.txnindex` is damaged."""
        kinds: dict[int, set[str]] = {}
        for _, offset, kind, state in self._names():
            if not state:
                kinds.setdefault(offset, set()).add(kind)
        damaged = set()
        for offset, present in kinds.items():
            if LOG_SUFFIX not in present:
                for kind in sorted(present.intersection(_INDEX_SUFFIXES)):
                    logger.warning(
                        "%s/%s has no log file; removing it", self._directory, file_name(offset, kind)
                    )
                    self._remove(file_name(offset, kind))
                continue
            segment = Segment.open_existing(
                self._disk, self._directory, offset, self._config, jitter_ms=self._jitter_ms
            )
            self._segments.add(segment)
            if ABORTED_INDEX_SUFFIX in present:
                self._aborting.append(segment)
                problem = aborted_problem(bytes(segment.aborted_index.data), offset)
                if problem:
                    logger.warning("%s: %s; rebuilding it", segment.aborted_index.path, problem)
                    damaged.add(offset)
        self._snapshots = Snapshots(
            self._disk,
            self._directory,
            [offset for offset, present in kinds.items() if SNAPSHOT_SUFFIX in present],
        )
        self._without_indexes = {
            offset
            for offset, present in kinds.items()
            if LOG_SUFFIX in present and not present.issuperset((INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        }
        return damaged

    def _contradicted(self, damaged: set[int]) -> set[int]:
        """The other segments that are not scanned and whose `.txnindex` contradicts the log."""
        found = set()
        is_compacted = self._config.is_compacted or self._cleaned_offset > 0
        scanned = set(self._unflushed())
        for segment in self._aborting:
            if segment.base_offset in damaged or segment in scanned:
                continue
            problem = contradiction(self._segments, segment, is_compacted=is_compacted)
            if problem:
                logger.warning("%s: %s; rebuilding it", segment.aborted_index.path, problem)
                found.add(segment.base_offset)
        return found

    def _create_first(self) -> None:
        segment = Segment.create(
            self._disk,
            self._directory,
            self._log_start_offset,
            self._config,
            now_ms=self._clock.now_ms(),
            jitter_ms=self._jitter_ms,
        )
        self._segments.add(segment)

    # ---- scanning

    def _scan(self, damaged: set[int]) -> int:
        """Scan the segments that need it; the offset where the log ends."""
        segments = list(self._segments)
        if not segments:
            return self._log_start_offset
        unflushed = set(self._unflushed())
        if unflushed:
            # The checkpoint may be older than the last truncation; the scan finds these in the batches.
            first_offset = min(segment.base_offset for segment in unflushed)
            self._epochs.truncate_from_end(first_offset)
        # Records below the log start are deleted: losing them is no damage, even if they were flushed.
        flushed_end = self._recovery_point if self._recovery_point > self._log_start_offset else 0
        scanned = {segment for segment in segments if segment in unflushed or segment.base_offset in damaged}
        self._bytes_total = sum(segment.size_bytes for segment in scanned)
        end_offset = None
        for segment in segments:
            if segment not in scanned:
                self._complete_indexes(segment)
                self._is_replayed = False
                continue
            promised = flushed_end if segment in unflushed else 2**63 - 1
            end_offset, dropped = self._recover(segment, promised)
            self._recovered.append(segment)
            following = self._segments.after(segment)
            if following is None:
                continue
            segment.close_handles()
            if following.base_offset <= self._log_start_offset:
                # All of it was deleted, and a power loss brought some of it back: nothing after it is lost.
                self._is_replayed &= end_offset == following.base_offset
                continue
            if dropped:
                self._drop_from(following)
                break
            if segment in unflushed and self._is_loss(segment, end_offset, following):
                if self._keeps_dropped:
                    self._put_aside_from(following)
                else:
                    self._drop_from(following)
                break
        last = self._segments.active
        if end_offset is None or last not in scanned:
            end_offset = last.read_next_offset()
        if self._progress is not None and scanned:
            self._progress(self._directory, self._bytes_total, self._bytes_total)
        return end_offset

    def _is_loss(self, segment: Segment, end_offset: int, following: Segment) -> bool:
        """Whether a power loss destroyed the end of a segment, at a boundary of batches, or all of it.

        Then the segments after it are dropped: a log is a prefix of what was written. A copy of a compacted
        log has gaps inside its segments and none between them (`Log.roll`). Compaction leaves gaps between
        segments, but only below the recovery point. A log that other software wrote may have them anywhere,
        and so may a compacted one without a known recovery point.
        """
        if end_offset >= following.base_offset or segment.base_offset < self._cleaned_offset:
            return False
        if not self._is_contiguous or self._is_far(end_offset, following):
            logger.info(
                "%s: ends at offset %d and the next segment begins at %d: assuming compaction",
                segment.path,
                end_offset,
                following.base_offset,
            )
            self._has_gaps = True
            return False
        logger.warning(
            "%s: ends at offset %d and the next segment begins at %d: unflushed records between were lost",
            segment.path,
            end_offset,
            following.base_offset,
        )
        return True

    def _is_far(self, end_offset: int, following: Segment) -> bool:
        """Whether the first offset of a segment is too large for a segment that begins at `end_offset`."""
        try:
            first = following.header_at(0) if following.size_bytes else None
        except LogDamaged:
            return False
        return first is not None and first.last_offset - end_offset > RELATIVE_OFFSET_MAX

    def _unflushed(self) -> list[Segment]:
        """The segments that may be torn."""
        return [] if self._clean else self._segments.covering(self._recovery_point, 2**63 - 1)

    def _complete_indexes(self, segment: Segment) -> None:
        """Rebuild the indexes of a flushed segment if they are missing or look wrong."""
        problem = None
        if segment.base_offset in self._without_indexes and segment.size_bytes:
            problem = "an index file is missing"
        elif segment.offset_index.is_ragged or segment.time_index.is_ragged:
            problem = "an index file ends in the middle of an entry"
        elif segment.size_bytes > _CHUNK_BYTES and not segment.offset_index.size_bytes:
            problem = "its index is empty"
        elif segment is self._segments.active:
            problem = segment.offset_index.problem(segment.size_bytes) or segment.time_index.problem()
        if problem:
            logger.warning("%s: %s; rebuilding its indexes", segment.path, problem)
            segment.rebuild_indexes()
            segment.become_inactive()

    def _recover(self, segment: Segment, promised_offset: int) -> tuple[int, int]:
        """Scan one segment and rebuild its indexes: (the offset after its last batch, bytes truncated)."""
        if not self._is_replayed:
            self._rebuild_producers(segment.base_offset)
            self._is_replayed = True
        segment.aborted_index.clear()
        segment.reset_indexes()
        size = segment.size_bytes
        position, next_offset = 0, segment.base_offset
        cause = None
        for at, header, problem in self._sound_batches(segment):
            if header is None:
                cause = problem
            else:
                segment.index_scanned(at, header)
                position, next_offset = at + header.length_bytes, header.next_offset
        dropped = size - position
        if dropped:
            if next_offset < promised_offset:
                raise segment.damaged(position, f"{cause} The batch had been flushed.", next_offset)
            logger.warning(
                "%s: truncating %d bytes at %d, after offset %d: %s",
                segment.path,
                dropped,
                position,
                next_offset - 1,
                cause,
            )
        segment.size_bytes = position
        segment.is_torn = True
        segment.become_inactive()
        self._snapshots.take(self._producers)
        return next_offset, dropped

    def _sound_batches(self, segment: Segment) -> Iterator[tuple[int, BatchHeader | None, str | None]]:
        """(position, header, None) of each valid batch, then (position, None, why the next one is not
        valid)."""
        size = segment.size_bytes
        position, next_offset = 0, segment.base_offset
        data, start = b"", 0
        while position < size:
            at = position - start
            left = size - position
            needed = _PREFIX_BYTES
            if len(data) - at >= _PREFIX_BYTES:
                needed = int.from_bytes(data[at + 8 : at + 12], "big", signed=True) + LOG_OVERHEAD_BYTES
            if needed > left or needed < _PREFIX_BYTES:
                cause = "The batch is incomplete." if needed > left else f"Batch size {needed} is invalid."
                yield position, None, cause
                return
            if len(data) - at < needed:
                data, start = segment.file.pread(min(left, max(needed, _CHUNK_BYTES)), position), position
                if len(data) < needed:
                    raise segment.damaged(position, "The file became shorter while it was read.", next_offset)
                continue
            problem = self._problem(segment, data, at, next_offset)
            if problem:
                yield position, None, problem
                return
            header = read_header(data, at)
            self._replay(segment, position, header, data, at)
            yield position, header, None
            next_offset = header.next_offset
            position += needed
            self._report(needed)

    def _problem(self, segment: Segment, data: bytes, at: int, next_offset: int) -> str | None:
        """What is wrong with the complete batch at `at`, or None."""
        try:
            header = read_header(data, at)
            check_crc(data, at, header)
        except CorruptMessage as error:
            return str(error)
        if header.last_offset < next_offset or (header.magic == 2 and header.base_offset < next_offset):
            return f"The batch of offset {header.base_offset} follows offset {next_offset - 1}."
        if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return f"Offset {header.last_offset} is too far from the start of its segment."
        return None

    def _replay(self, segment: Segment, position: int, header: BatchHeader, data: bytes, at: int) -> None:
        """Update epochs, producers and aborted transactions for a scanned batch."""
        epoch = header.partition_leader_epoch
        if epoch > self._epochs.latest_epoch:
            self._epochs.assign(epoch, header.base_offset)
        try:
            completed = replay_batch(self._producers, header, data, at)
        except (CorruptMessage, InvalidRecord) as error:
            raise segment.damaged(position, str(error), header.base_offset) from None
        if completed is None:
            return
        transactions = self._producers.transactions
        if completed.is_aborted:
            stable = transactions.last_stable_offset_after(completed)
            segment.aborted_index.append(AbortedTransaction(*completed[:3], stable))
        transactions.complete(completed)

    def _report(self, count: int) -> None:
        before = self._bytes_done // _CHUNK_BYTES
        self._bytes_done += count
        if self._progress is not None and self._bytes_done // _CHUNK_BYTES != before:
            self._progress(self._directory, self._bytes_done, self._bytes_total)

    def _drop_from(self, segment: Segment | None) -> None:
        """Delete a segment and all after it."""
        while segment is not None:
            following = self._segments.after(segment)
            logger.warning("deleting %s, which follows the torn end of the log", segment.path)
            self._segments.remove(segment)
            segment.close_handles()
            segment.rename(suffix=DELETED)
            self._snapshots.remove(segment.base_offset)
            self._deleted.append(segment)
            segment = following

    def _put_aside_from(self, first: Segment) -> None:
        """Remove a segment and all after it from the log, and keep their files under another name."""
        segment: Segment | None = first
        while segment is not None:
            following = self._segments.after(segment)
            self._segments.remove(segment)
            segment.close_handles()
            segment.rename(suffix=DROPPED)
            self._snapshots.remove(segment.base_offset)
            segment = following
        logger.error(
            "%s: the segments from offset %d on are no longer part of the log, and are kept as *%s. No "
            "recovery point tells whether the records before them were lost or compacted away. If other "
            "software compacted this log, stop the node, remove that suffix from the names, and start it "
            "again. Otherwise delete these files.",
            self._directory,
            first.base_offset,
            DROPPED,
        )

    def _drop_all(self, end_offset: int) -> None:
        """Records below the log start are deleted, so a log that ends below it is empty."""
        logger.warning(
            "%s ends at offset %d, before its log start %d: starting with an empty log",
            self._directory,
            end_offset,
            self._log_start_offset,
        )
        self._drop_from(self._segments[0])
        self._is_replayed = False
        self._epochs.clear()
        for offset in list(self._snapshots.offsets):
            self._snapshots.remove(offset)

    # ---- epochs and producers

    def _load_epochs(self) -> None:
        """Read the checkpoint; rebuild a missing or damaged one from the batches."""
        path = f"{self._directory}/{CHECKPOINT_NAME}"
        problem = "it is missing"
        is_there = self._disk.exists(path)
        if is_there:
            try:
                self._epochs = EpochCache.from_text(self._disk.read(path).decode())
            except ValueError as error:
                problem = str(error)
            else:
                return
        self._epochs.is_changed = is_there or len(self._segments) > 0
        unflushed = set(self._unflushed())
        flushed = [segment for segment in self._segments if segment not in unflushed]
        if any(segment.size_bytes for segment in flushed):
            logger.warning("%s: %s; rebuilding it from the log", path, problem)
        for segment in flushed:
            for _, header in segment.headers():
                if header.partition_leader_epoch > self._epochs.latest_epoch:
                    self._epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _trim_epochs(self, end_offset: int) -> None:
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(self._log_start_offset)

    def _load_producers(self, end_offset: int) -> None:
        bases = [segment.base_offset for segment in self._segments]
        self._snapshots.remove_strays(bases)
        self._snapshots.remove_outside(bases[0], end_offset)
        if not self._is_replayed:
            self._rebuild_producers(end_offset)
        self._producers.end_offset = end_offset
        if end_offset > bases[0]:
            self._snapshots.take(self._producers)

    def _rebuild_producers(self, end_offset: int) -> None:
        rebuild_producers(self._producers, self._snapshots, self._segments, end_offset, self._clock.now_ms())


def rebuild_producers(
    states: ProducerStates,
    snapshots: Snapshots,
    segments: Segments,
    end_offset: int,
    now_ms: int,
) -> None:
    """Rebuild `states` as of `end_offset`: from the newest snapshot and the batches after it.

    Deleted records count as long as their segment, or the snapshot at the start of the first segment, exists:
    a producer that is forgotten too early gets an error, or a duplicate, with its next batch.
    """
    snapshots.restore(states, segments[0].base_offset, end_offset, now_ms)
    if states.end_offset < end_offset:
        for segment in segments.covering(states.end_offset, end_offset):
            position = segment.position_of(max(states.end_offset, segment.base_offset))
            if position is None:
                continue
            for at, header in segment.headers(position):
                if header.base_offset >= end_offset:
                    break
                body = segment.read_at(at, header.length_bytes) if header.is_control else b""
                try:
                    completed = replay_batch(states, header, body, 0)
                except (CorruptMessage, InvalidRecord) as error:  # of a marker: other batches are not decoded
                    raise segment.damaged(at, str(error), header.base_offset) from None
                if completed is not None:
                    states.transactions.complete(completed)
    states.end_offset = end_offset
