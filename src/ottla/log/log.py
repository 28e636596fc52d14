"""One partition on disk: appends, reads, offsets and truncations.

`Log` owns the parts: `Segments` finds batches, `LogFiles` creates, replaces and removes files, `FlushState`
knows what is on stable storage, `ProducerStates` and `EpochCache` know what the batches say.

The order of an append is the rule that keeps this right: decide (validate, check the producer), make what the
batch needs (epoch entry, new segment, transaction index), write it, and only then move the offsets and the
producers. So an append that fails leaves the log as it was, and no state is ahead of the file.

The order of the offsets: log start <= last stable offset <= high watermark <= end. Nothing at or above the
high watermark is ever deleted for its age or size.

A `Log` belongs to one event loop. These methods block and may run on a thread: `open`, `Flush.run`, `close`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from ottla.log import retention
from ottla.log.config import LogConfig
from ottla.log.file_slice import FileSlice
from ottla.log.files import LogFiles, draw_jitter_ms
from ottla.log.flush import Flush, NotOpened
from ottla.log.flush_state import FlushState
from ottla.log.index import RELATIVE_OFFSET_MAX
from ottla.log.leader_epochs import EpochCache, write_checkpoint
from ottla.log.open_files import OpenFiles
from ottla.log.producer_state import ProducerStates, VerificationGuard
from ottla.log.recovery import Loaded, Loader, Progress, marker_of, rebuild_producers
from ottla.log.replicated_batches import GivenBatch, check_given, runs_of
from ottla.log.segment import Segment
from ottla.log.timestamp_search import BatchSearch, TimestampOffset
from ottla.log.transactions import AbortedTransaction, CompletedTransaction, Marker
from ottla.ports import Buffer, Clock, Disk, Random
from ottla.rare_paths import rarely
from ottla.records.batch import BatchHeader
from ottla.records.plain_batch import PlainCheck
from ottla.records.validate import (
    BYTES_AT_ONCE,
    NO_LIMIT,
    Origin,
    ProduceRules,
    ValidBatch,
    assign,
    validate,
)
from ottla.wire.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge

logger = logging.getLogger("ottla.log")

_EPOCH_MAX = 2**31 - 1


class UnexpectedAppendOffset(ValueError):
    """Batches for a follower begin before the end of its log."""


class Appended(NamedTuple):
    """What an append did."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    max_timestamp: int
    duplicate: bool
    size_bytes: int
    record_count: int


class LogRead(NamedTuple):
    records: bytes
    offset: int
    segment_base_offset: int
    position: int


class CheckedBatch(NamedTuple):
    """A batch that was validated by these rules."""

    rules: ProduceRules
    batch: ValidBatch


class Log:
    """See the module. Only its methods change its attributes."""

    __slots__ = (
        "_clock",
        "_data_end",
        "_disk",
        "_files",
        "_flush_state",
        "_roll_ms",
        "_rules",
        "_segment_bytes",
        "_unfinished_truncation",
        "config",
        "epochs",
        "failure",
        "flush_messages",
        "high_watermark",
        "is_closed",
        "log_end_offset",
        "log_start_offset",
        "name",
        "partition",
        "plain_check",
        "producers",
        "segments",
        "topic",
        "topic_id",
        "truncations_pending",
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
        self._clock = clock
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.name = f"{topic}-{partition}"
        self.segments = loaded.segments
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.failure: OSError | None = None
        """Why appends and flushes are refused."""
        self.is_closed = False
        """Whether it is closed or about to be: appends are refused."""
        self.truncations_pending = 0
        """How many truncations are not on stable storage yet: until they are, appends are refused."""
        self._unfinished_truncation: Callable[[], None] | None = None  # one that failed halfway
        self._data_end = (-1, -1)
        """(the offset after the last batch, the end of the log) of the last truncation that left them apart:
        the records between them had been compacted away."""
        self._flush_state = FlushState(
            disk,
            clock,
            loaded.segments,
            loaded.snapshots,
            loaded.epochs,
            recovery_point=loaded.recovery_point,
            rolled=loaded.recovered,
        )
        self._files = LogFiles(
            disk,
            clock,
            directory,
            config,
            loaded.segments,
            loaded.snapshots,
            self._flush_state,
            deleted=loaded.deleted,
            random=random,
            open_files=open_files,
            on_failure=self.fail,
        )
        self.reconfigure(config)

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        directory: str,
        config: LogConfig,
        *,
        topic: str,
        partition: int,
        topic_id: bytes | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_offset: int = 0,
        is_contiguous: bool = True,
        keeps_dropped: bool = False,
        clean: bool = False,
        progress: Progress | None = None,
        random: Random | None = None,
        open_files: OpenFiles | None = None,
        producer_id_expiration_ms: int = 86_400_000,
        verify_transactions: bool = False,
    ) -> Log:
        """Load the log in `directory`, or create it. Blocks, after an unclean stop for long."""
        name = f"{topic}-{partition}"
        producers = ProducerStates(name, expiration_ms=producer_id_expiration_ms, verify=verify_transactions)
        loader = Loader(
            disk,
            clock,
            directory,
            config,
            producers,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cleaned_offset=cleaned_offset,
            is_contiguous=is_contiguous,
            keeps_dropped=keeps_dropped,
            clean=clean,
            progress=progress,
            jitter_ms=draw_jitter_ms(config, random),
        )
        loaded = loader.load()
        log = cls(
            disk,
            clock,
            directory,
            config,
            loaded,
            topic=topic,
            partition=partition,
            topic_id=topic_id,
            random=random,
            open_files=open_files,
        )
        if loaded.has_gaps:
            log.flush()  # from now on the gaps lie below the recovery point
        return log

    def __repr__(self) -> str:
        return f"Log({self.name}, start={self.log_start_offset}, end={self.log_end_offset})"

    @property
    def directory(self) -> str:
        return self._files.directory

    @property
    def active_segment(self) -> Segment:
        return self.segments.active

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def reconfigure(self, config: LogConfig) -> None:
        """Use new settings from now on."""
        self.config = config
        self._files.config = config
        self._rules = config.produce_rules(self.name)
        self.plain_check = PlainCheck(self._rules)
        self._segment_bytes = config.segment_bytes
        self._roll_ms = config.roll_ms
        self.flush_messages = config.flush_messages

    def fail(self, error: OSError) -> None:
        """Refuse appends and flushes from now on. After a failed fsync a second one could report success for
        data that was lost."""
        self.failure = error

    def _refuse(self) -> NoReturn:
        if self.failure is None:
            raise KafkaStorageError(f"The log of {self.name} is closed.")
        raise KafkaStorageError(f"The log of {self.name} rejects writes after a disk error: {self.failure}.")

    def _refuse_while_truncating(self) -> NoReturn:
        raise KafkaStorageError(f"The log of {self.name} rejects appends until its truncation is flushed.")

    # ---- appending

    def append(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: VerificationGuard | None = None,
        checked: CheckedBatch | None = None,
    ) -> Appended:
        """Append as the leader: validate the batch, assign its offsets, and write it.

        A Raft leader has assigned offsets and epoch already, and may pass several batches. TakesLong: a
        client's batch is too large to be validated here; run `check` on another thread, and pass what it
        returns as `checked`.
        """
        if self.failure is not None or self.is_closed:
            self._refuse()
        if self.truncations_pending:
            self._refuse_while_truncating()
        if origin is Origin.RAFT_LEADER:
            return self._append_given(records, leader_epoch, origin)
        if checked is not None and checked.rules is self._rules:
            batch = checked.batch
        else:
            bytes_at_once = BYTES_AT_ONCE if origin is Origin.CLIENT else NO_LIMIT
            batch = validate(records, self._rules, now_ms, origin, bytes_at_once)
        header = batch.header
        first_offset = self.log_end_offset
        marker = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = marker_of(batch.buffer, 0, header)
            earlier = self.producers.check(
                header,
                first_offset,
                origin,
                marker=marker,
                guard=guard,
                transaction_version=transaction_version,
            )
            if earlier is not None:
                # A retry: the client gets the same response as the first time.
                return Appended(
                    earlier.first_offset,
                    earlier.last_offset,
                    earlier.timestamp,
                    self.log_start_offset,
                    earlier.timestamp,
                    True,
                    0,
                    0,
                )
        assign(batch, first_offset, leader_epoch)
        if leader_epoch != self.epochs.latest_epoch and leader_epoch >= 0:
            self.epochs.assign(leader_epoch, first_offset)
        last_offset = first_offset + header.last_offset_delta
        buffer = batch.buffer
        self._write(buffer, header, first_offset, last_offset, batch.max_timestamp, now_ms, marker)
        facts = (
            first_offset,
            last_offset,
            batch.log_append_time,
            self.log_start_offset,
            batch.max_timestamp,
            False,
            len(buffer),
            batch.record_count,
        )
        return tuple.__new__(Appended, facts)  # half the time of a call of the class

    def check(self, records: memoryview, now_ms: int) -> Callable[[], CheckedBatch]:
        """A function for another thread: it validates a client's batch as `append` would, and may raise the
        same.

        It validates the batch alone. `append` checks the state of the log, which may change in between.
        """
        rules = self._rules
        return lambda: CheckedBatch(rules, validate(records, rules, now_ms))

    def _write(
        self,
        buffer: Buffer,
        header: BatchHeader,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        marker: Marker | None,
    ) -> None:
        """Write one batch at the end, and update what depends on it."""
        size = len(buffer)
        segment = self.segments.active
        if segment.must_roll(size, last_offset, max_timestamp, now_ms, self._segment_bytes, self._roll_ms):
            segment = self._roll_for(size, first_offset, last_offset)
        if marker is not None:
            self._write_marker(segment, buffer, header, first_offset, max_timestamp, marker)
        else:
            try:
                segment.append(buffer, last_offset, max_timestamp)
            except OSError as error:
                self._check_torn(segment, error)
                raise
        self.log_end_offset = last_offset + 1
        producers = self.producers
        if header.producer_id >= 0 and marker is None:
            producers.apply(header, first_offset, max_timestamp)
        producers.end_offset = last_offset + 1

    def _roll_for(self, size: int, first_offset: int, last_offset: int) -> Segment:
        """A new segment for the next `size` bytes, of these offsets."""
        if size > self._segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {size} bytes in append to partition {self.name}, which exceeds the "
                f"maximum configured segment size of {self._segment_bytes}."
            )
        return self.roll(first_offset if self._is_far(last_offset) else None)

    def _is_far(self, last_offset: int) -> bool:
        """Whether this offset is too large for any segment that begins at the end of the log."""
        return last_offset - self.data_end_offset > RELATIVE_OFFSET_MAX

    def _write_marker(
        self,
        segment: Segment,
        buffer: Buffer,
        header: BatchHeader,
        offset: int,
        max_timestamp: int,
        marker: Marker,
    ) -> None:
        """Write a transaction marker, after its index entry: a reader that sees the marker needs the
        entry."""
        transactions = self.producers.transactions
        entry = self.producers.entries.get(header.producer_id)
        first_offset = entry.transaction_first_offset if entry is not None else None
        if marker.is_abort and first_offset is not None:
            ended = CompletedTransaction(header.producer_id, first_offset, offset, True)
            stable = transactions.last_stable_offset_after(ended)
            segment.aborted_index.append(AbortedTransaction(header.producer_id, first_offset, offset, stable))
        try:
            segment.append(buffer, offset + header.last_offset_delta, max_timestamp)
        except OSError as error:
            self._check_torn(segment, error)
            try:
                segment.aborted_index.truncate_to(offset)
            except OSError as second:
                self.fail(second)
            raise
        completed = self.producers.apply(header, offset, max_timestamp, marker)
        if completed is not None:
            transactions.complete(completed)

    def append_as_follower(self, records: memoryview, *, leader_epoch: int = _EPOCH_MAX) -> Appended:
        """Append the leader's batches with their offsets. Incomplete ones and those of a later epoch are
        skipped."""
        if self.failure is not None or self.is_closed:
            self._refuse()
        if self.truncations_pending:
            self._refuse_while_truncating()
        return self._append_given(records, leader_epoch, Origin.REPLICATION)

    def _append_given(self, records: memoryview, leader_epoch: int, origin: Origin) -> Appended:
        batches = check_given(records, leader_epoch, origin, self.name, self.config.max_message_bytes)
        if not batches:
            end = self.log_end_offset
            return Appended(end, end - 1, -1, self.log_start_offset, -1, False, 0, 0)
        first, last = batches[0][1], batches[-1][1]
        first_offset = first.base_offset if first.magic >= 2 else first.last_offset
        if first_offset < self.log_end_offset:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append to {self.name}. First offset {first_offset} is less than the "
                f"next offset {self.log_end_offset}."
            )
        epoch_before = self.epochs.latest_epoch
        for _, header in batches:
            self._take_epoch(header)
        now_ms = self._clock.now_ms()
        try:
            for run in runs_of(batches, self._segment_bytes):
                self._write_run(records, run, now_ms)
        except Exception:
            if self.epochs.latest_epoch != epoch_before:  # later epochs have no batch in this log
                self.epochs.truncate_from_end(self.log_end_offset)
            raise
        return Appended(
            first_offset,
            last.last_offset,
            -1,
            self.log_start_offset,
            max(header.max_timestamp for _, header in batches),
            False,
            sum(header.length_bytes for _, header in batches),
            sum(max(header.record_count, 1) for _, header in batches),
        )

    def _take_epoch(self, header: BatchHeader) -> None:
        """Assign the epoch of a batch. Old formats have none, which invalidates all entries."""
        if header.magic < 2:
            if self.epochs.entries:
                self.epochs.clear()
        elif header.partition_leader_epoch >= 0:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _write_run(self, records: memoryview, run: list[GivenBatch], now_ms: int) -> None:
        """Write batches that follow each other at once; a marker is a run of its own."""
        position, first = run[0]
        end_position, last = run[-1]
        buffer = records[position : end_position + last.length_bytes]
        max_timestamp = max(header.max_timestamp for _, header in run)
        if first.producer_id >= 0 and first.is_control:
            marker = marker_of(records, position, first)
            if marker is not None:
                self._write(
                    buffer, first, first.base_offset, first.last_offset, max_timestamp, now_ms, marker
                )
                return
        size = len(buffer)
        segment = self.segments.active
        if segment.must_roll(
            size, last.last_offset, max_timestamp, now_ms, self._segment_bytes, self._roll_ms
        ) or (segment.size_bytes and rarely("a follower begins a new segment early")):
            if len(run) > 1 and self._is_far(last.last_offset):
                # A segment may begin after a gap only if that offset is too large for the segment before it.
                for batch in run:
                    self._write_run(records, [batch], now_ms)
                return
            segment = self._roll_for(size, first.base_offset, last.last_offset)
        try:
            segment.append_batches(buffer)
        except OSError as error:
            self._check_torn(segment, error)
            raise
        self.log_end_offset = last.next_offset
        for _, header in run:
            if header.producer_id >= 0:
                self.producers.apply(header, header.base_offset, header.max_timestamp)
        self.producers.end_offset = last.next_offset

    def undo_write(self, segment: Segment) -> None:
        """Truncate what a failed write left."""
        try:
            segment.undo_write()
        except OSError as error:
            self._check_torn(segment, error)
            raise

    def _check_torn(self, segment: Segment, error: OSError) -> None:
        """After a failed write: if the partial batch could not be truncated, nothing may be appended after
        it."""
        if segment.is_torn:
            self.fail(error)

    def start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Called before a transaction's first append is verified with its coordinator; None if it is open
        already."""
        return self.producers.start_verification(
            producer_id,
            sequence,
            epoch,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=self._clock.now_ms(),
        )

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        return self.producers.has_ongoing_transaction(producer_id, epoch)

    # ---- reading

    def read(self, offset: int, max_bytes: int, *, limit_offset: int, at_least_one: bool = True) -> LogRead:
        """Batches of one segment, from the one that holds `offset` on, below `limit_offset`.

        The last batch may be incomplete, because of `max_bytes`. The first one is complete even if it is
        larger, or, unless `at_least_one`, missing.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            self._refuse_offset(offset)
        if offset >= limit_offset or offset == end_offset:
            return LogRead(b"", offset, -1, -1)
        found = self.segments.slice(offset, limit_offset, end_offset)
        if found is None:
            return LogRead(b"", offset, -1, -1)
        segment, position, end = found
        available = end - position
        length = available if available <= max_bytes else max_bytes
        data = segment.read_at(position, length) if length > 0 else b""
        if length < available:
            first_bytes = _first_batch_bytes(segment, position, data)
            if first_bytes > length:
                data = segment.read_at(position, min(first_bytes, available)) if at_least_one else b""
        return LogRead(data, offset, segment.base_offset, position)

    def locate(
        self, offset: int, max_bytes: int, *, limit_offset: int, at_least_one: bool = True
    ) -> FileSlice:
        """Like `read`, but returns a slice of the file instead of the bytes."""
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            self._refuse_offset(offset)
        if offset >= limit_offset or offset == end_offset:
            return FileSlice(self.segments.active.file, 0, 0, -1)
        found = self.segments.slice(offset, limit_offset, end_offset)
        if found is None:
            return FileSlice(self.segments.active.file, 0, 0, -1)
        segment, position, end = found
        available = end - position
        length = min(available, max(max_bytes, 0))
        if length < available:
            first_bytes = _first_batch_bytes(segment, position, b"")
            if first_bytes > length:
                length = min(first_bytes, available) if at_least_one else 0
        return FileSlice(segment.file, position, length, segment.base_offset)

    def _refuse_offset(self, offset: int) -> None:
        if offset < self.log_start_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.name}, but we only have log "
                f"segments starting from offset: {self.log_start_offset}."
            )
        raise OffsetOutOfRange(
            f"Received request for offset {offset} for partition {self.name}, but we only have log segments "
            f"upto {self.log_end_offset}."
        )

    def aborted_transactions(self, first_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch [first, upper)."""
        segment = self.segments.floor(first_offset) or self.segments[0]
        return self.segments.aborted_transactions(segment, first_offset, upper_bound_offset)

    def aborted_in(self, read: LogRead | FileSlice, offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that a read_committed consumer needs with this read."""
        length = read.length if isinstance(read, FileSlice) else len(read.records)
        segment = self.segments.floor(read.segment_base_offset) if read.segment_base_offset >= 0 else None
        if segment is None or not length:
            return []
        upper = self.segments.upper_bound_offset(segment, read.position + length, self.log_end_offset)
        return self.segments.aborted_transactions(segment, offset, upper)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is at least `timestamp`."""
        return self.segments.offset_for_timestamp(timestamp, self.log_start_offset)

    def batch_for_timestamp(self, timestamp: int, first_offset: int | None = None) -> BatchSearch | None:
        """The batch that may hold such a record: `BatchSearch.find` may be called on another thread."""
        start = self.log_start_offset if first_offset is None else first_offset
        return self.segments.batch_for_timestamp(timestamp, start)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        return self.segments.offset_of_max_timestamp()

    # ---- watermarks

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset whose transaction is open, or ended above the high watermark."""
        first = self.producers.transactions.first_unstable_offset
        return None if first is None else max(first, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """read_committed consumers may read up to here."""
        first = self.producers.transactions.first_unstable_offset
        high_watermark = self.high_watermark
        if first is None or first >= high_watermark:
            return high_watermark
        return max(first, self.log_start_offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Records below `offset` are replicated. The high watermark never decreases; says whether it
        moved."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.transactions.unreplicated:
            self.producers.transactions.forget_below(offset)
        return True

    def set_high_watermark(self, offset: int) -> int:
        """Set it to the value of a checkpoint or a leader, within the log's start and end. It may
        decrease."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.transactions.forget_below(self.high_watermark)
        return self.high_watermark

    def increase_log_start_offset(self, offset: int, reason: str) -> bool:
        """Readers no longer see records below `offset`; says whether it moved."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.name} since it is "
                f"larger than the high watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        logger.info(
            "%s: incremented log start offset from %d to %d: %s",
            self.name,
            self.log_start_offset,
            offset,
            reason,
        )
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.transactions.forget_below(offset)
        self.producers.end_offset = max(self.producers.end_offset, offset)
        return True

    # ---- leader epochs

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """A leader of `epoch` writes from `start_offset` on."""
        self.epochs.assign(epoch, start_offset)

    def copy_epochs(self, epochs: EpochCache) -> None:
        """Have the leader epochs of another copy of this log, also those without a record yet."""
        self.epochs.copy_from(epochs)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch up to `epoch`, where it ends); (-1, -1) if that is not known."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # ---- segments

    @property
    def data_end_offset(self) -> int:
        """The offset after the last batch: the log's end, unless a truncation ended where no batch is."""
        after_last, end_offset = self._data_end
        return after_last if end_offset == self.log_end_offset else self.log_end_offset

    def roll(self, base_offset: int | None = None) -> Segment:
        """Begin a segment, by default at the offset after the last batch. If that fails, the old one stays
        active.

        A copy of a compacted log gets batches with gaps between them. A gap is always inside a segment: so a
        segment that begins after the end of the one before it shows that a power loss destroyed that end.
        """
        return self._files.roll(max(base_offset or 0, self.data_end_offset), self.producers)

    def replace_segments(self, new: list[Segment], old: list[Segment]) -> None:
        """Replace segments by the compacted ones that were made from them."""
        self._files.replace(new, old)

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete segments below the log start, or beyond the limits of size and age; how many."""
        config = self.config
        deleted = self._delete_expired(retention.below_log_start(self.log_start_offset))
        if config.is_deleted:
            deleted += self._delete_expired(retention.above_size(config.retention_bytes, self.size_bytes))
            deleted += self._delete_expired(retention.above_age(config.retention_ms, now_ms))
        return deleted

    def _delete_expired(self, rule: retention.Rule) -> int:
        expired = retention.expired_segments(self.segments, rule, self.high_watermark, self.log_end_offset)
        if not expired:
            return 0
        last = expired[-1]
        if last is self.segments.active:
            self.roll(self.log_end_offset)  # a log always has a segment to append to
        following = self.segments.after(last)
        if following is not None:
            self.increase_log_start_offset(following.base_offset, rule.reason)
        logger.info("%s: deleting %d segments up to %s: %s", self.name, len(expired), last.path, rule.reason)
        self._files.delete(expired)
        return len(expired)

    def delete_due(self, now_ms: int) -> int | None:
        """Remove files whose delay has passed; return when the next one is due, None if there is none."""
        return self._files.delete_due(now_ms)

    def expire_producers(self, now_ms: int) -> None:
        self.producers.expire(now_ms)

    # ---- truncation

    def truncate_to(self, offset: int) -> bool:
        """Drop every batch that reaches `offset` or beyond; says whether there were any."""
        self.finish_truncation()
        if offset < 0:
            raise ValueError(f"Cannot truncate partition {self.name} to a negative offset ({offset}).")
        if offset >= self.log_end_offset:
            # An epoch that began at the end and wrote nothing may be one that no other replica knows.
            self.epochs.truncate_from_end(self.log_end_offset)
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
            # It may be parked. If it cannot be opened, the truncation fails before it changes anything.
            last.position_of(offset)
        unreplicated = self.producers.transactions.unreplicated
        self._truncate(lambda: self._drop_from(offset, unreplicated))
        return True

    def _truncate(self, step: Callable[[], None]) -> None:
        """Truncate. If that fails halfway, nothing is appended before `finish_truncation` has succeeded."""
        if self._unfinished_truncation is None:
            self.truncations_pending += 1
        self._unfinished_truncation = step
        step()
        self._unfinished_truncation = None
        self.truncations_pending -= 1

    def add_pending_truncation(self) -> None:
        """Refuse appends until `remove_pending_truncation`: a truncation is not on stable storage yet."""
        self.truncations_pending += 1

    def remove_pending_truncation(self) -> None:
        self.truncations_pending -= 1

    @property
    def is_truncation_unfinished(self) -> bool:
        """Whether a truncation failed halfway."""
        return self._unfinished_truncation is not None

    def finish_truncation(self) -> None:
        """Complete a truncation that failed halfway."""
        if self._unfinished_truncation is not None:
            self._truncate(self._unfinished_truncation)

    def _drop_from(self, offset: int, unreplicated: dict[int, int]) -> None:
        """May be called again if it fails."""
        # The offsets first: whatever happens to the files, no reader and no election sees truncated records.
        self._move_end(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.epochs.truncate_from_end(offset)
        # The batch that held the offset is dropped, including its flushed records below the offset.
        data_end_offset = self._files.truncate_to(offset)
        self._data_end = (data_end_offset, offset)
        self._flush_state.truncate_to(data_end_offset)
        self._reload_producers()
        self.producers.transactions.keep_unreplicated(unreplicated, offset)
        self.set_high_watermark(self.high_watermark)

    def _move_end(self, offset: int) -> None:
        self.log_end_offset = offset
        self._flush_state.truncate_to(offset)

    def _reload_producers(self) -> None:
        """Rebuild the producers as of the end of the log."""
        now_ms = self._clock.now_ms()
        snapshots = self._files.snapshots
        rebuild_producers(self.producers, snapshots, self.segments, self.log_end_offset, now_ms)
        if self.log_end_offset > self.segments[0].base_offset:
            try:
                snapshots.take(self.producers)
            except OSError as error:  # it would only save the next load a scan
                logger.warning("%s: could not write a producer snapshot: %s", self.name, error)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the next record gets `offset`."""
        self.finish_truncation()
        empty = self._files.create_substitute(offset)
        start_offset = offset if log_start_offset is None else log_start_offset
        self._truncate(lambda: self._start_over(empty, start_offset))

    def _start_over(self, empty: Segment, log_start_offset: int) -> None:
        """Drop everything but an empty segment. May be called again if it fails."""
        offset = empty.base_offset
        self._move_end(offset)
        self._data_end = (-1, -1)
        self.log_start_offset = log_start_offset
        self.high_watermark = offset
        self.epochs.clear()
        self._files.substitute(empty)
        self.producers.restore((), offset, self._clock.now_ms())
        self.set_high_watermark(offset)

    # ---- flushing

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on stable storage."""
        return self._flush_state.recovery_point

    @property
    def scan_offset(self) -> int:
        """Where a scan begins after an unclean stop: see `FlushState.scan_offset`."""
        return self._flush_state.scan_offset

    @property
    def is_flushing(self) -> bool:
        """Whether a flush runs off the loop."""
        return self._flush_state.is_flushing

    @property
    def is_flush_due(self) -> bool:
        """Whether flush.messages requires a flush before the last append is acknowledged."""
        flush_messages = self.flush_messages
        recovery_point = self._flush_state.recovery_point
        return (
            self.log_end_offset - recovery_point >= flush_messages
            and self.data_end_offset - recovery_point >= flush_messages
        )

    def is_timed_flush_due(self, now_ms: int) -> bool:
        """Whether flush.ms requires a flush."""
        state = self._flush_state
        return (
            state.recovery_point < self.data_end_offset
            and now_ms - state.last_flush_ms >= self.config.flush_ms
        )

    @property
    def is_background_flush_due(self) -> bool:
        """Whether rolled segments wait for a flush: `flush(active_segment.base_offset)`."""
        state = self._flush_state
        return state.has_rolled or state.recovery_point < self.segments.active.base_offset

    @property
    def unflushed_segments(self) -> int:
        """How many segments, beside the active one, have something that is not flushed."""
        return self._flush_state.unflushed_segments(self.log_end_offset)

    def prepare_flush(self, offset: int | None = None) -> Flush | None:
        """A flush of everything below `offset` (the end); None if there is nothing to flush."""
        if self.failure is not None:
            self._refuse()
        # Not to the log's end if no batch is there: the next segment begins at the offset after the last one.
        end = self.data_end_offset
        return self._flush_state.prepare(end if offset is None else min(offset, end), self.directory)

    def prepare_truncation_flush(self) -> Flush:
        """A flush after which no power loss brings back truncated records."""
        return self._flush_state.prepare_truncation(self.directory)

    def complete_flush(self, flush: Flush) -> None:
        """`flush.run` has returned: what it covered needs no scan after an unclean stop."""
        self._flush_state.complete(flush, self.log_end_offset)

    def postpone_flush(self, flush: Flush) -> None:
        """`flush.run` has raised NotOpened: the next flush does all of it again."""
        self._flush_state.postpone(flush)

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

    def stop_appends(self) -> None:
        """Refuse appends from now on: the log is about to be closed or replaced."""
        self.is_closed = True

    def rename_directory(self, path: str) -> None:
        """Rename the log's directory. Open files stay open."""
        self._files.rename_directory(path)

    def close(self, *, clean: bool = True) -> None:
        """Release files and mappings. After a clean close the next load needs no scan.

        Flush before: what this writes (indexes, snapshot) can be rebuilt from the batches, and is not synced.
        """
        self.is_closed = True
        if clean and self.failure is None:
            if self.epochs.is_changed:
                write_checkpoint(self._disk, self.directory, self.epochs, sync=True)
            if self.log_end_offset > self.segments[0].base_offset:
                self._files.snapshots.take(self.producers)
            self._files.complete()
        self._files.close()


def _first_batch_bytes(segment: Segment, position: int, data: bytes) -> int:
    """The size of the batch at `position`, of which `data` is the start."""
    prefix = data if len(data) >= 12 else segment.read_at(position, 12)
    return int.from_bytes(prefix[8:12], "big") + 12
