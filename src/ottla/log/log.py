"""One partition on disk: what is appended to it and read from it.

The order of an append is the rule that keeps this right: decide (validate, check the producer), make what the
batch needs (epoch entry, new segment, transaction index), write it, and only then move the offsets and the
producers. So an append that fails leaves the log as it was, and no state is ahead of the file.

A `Log` belongs to one event loop. Blocking work is cut out of it: `open`, `Flush.run`, `close`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.file_slice import FileSlice
from ottla.log.files import draw_jitter_ms
from ottla.log.index import RELATIVE_OFFSET_MAX
from ottla.log.open_files import OpenFiles
from ottla.log.producer_state import ProducerStates, VerificationGuard
from ottla.log.recovery import Loader, Progress, marker_of
from ottla.log.segment import Segment
from ottla.log.timestamp_search import BatchSearch, TimestampOffset
from ottla.log.transactions import AbortedTransaction, CompletedTransaction, Marker
from ottla.log.upkeep import LogUpkeep
from ottla.ports import Buffer, Clock, Disk, Random
from ottla.rare_paths import rarely
from ottla.records.batch import BASE_OFFSET_MAX, BatchHeader, check_crc, iterate_headers
from ottla.records.validate import (
    BYTES_AT_ONCE,
    NO_LIMIT,
    Origin,
    ProduceRules,
    ValidBatch,
    assign,
    validate,
)
from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
)

logger = logging.getLogger("ottla.log")

_EPOCH_MAX = 2**31 - 1


class UnexpectedAppendOffset(ValueError):
    """A follower was given batches that begin before the end of its log."""


class OffsetsOutOfOrder(ValueError):
    """Batches whose offsets do not grow."""


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
    """A batch that keeps to some rules."""

    rules: ProduceRules
    batch: ValidBatch


class Log(LogUpkeep):
    """See the module. Attributes are facts to read; only the methods change them."""

    __slots__ = ()

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
        """Load the log in `directory`, or make it. Blocks, after an unclean stop for long."""
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
            log.flush()  # from now on they lie below the recovery point
        return log

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
        """Append as the leader: the batch is checked, given its offsets, and written.

        A Raft leader has given offsets and epoch already, and may bring several batches. TakesLong: a
        client's batch is too large to be checked here; have `check` run on another thread, and bring what it
        returned.
        """
        if self.failure is not None or self.is_closed:
            self._refuse()
        if self.cuts_pending:
            self._refuse_behind_cut()
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
                # A retry: the client learns what it would have learned the first time.
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
            self.assign_epoch_start_offset(leader_epoch, first_offset)
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
        """Work for another thread: it checks a client's batch as `append` would. It may raise what that does.

        Whatever happens to the log meanwhile, `append` looks at it again: here only the batch is looked at.
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
        """Put one batch behind the others and bring all that follows from it up to date."""
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
        self.size_bytes += size
        self.log_end_offset = last_offset + 1
        producers = self.producers
        if header.producer_id >= 0 and marker is None:
            producers.apply(header, first_offset, max_timestamp)
        producers.end_offset = last_offset + 1

    def _roll_for(self, size: int, first_offset: int, last_offset: int) -> Segment:
        """A new segment, that takes the next `size` bytes, of these offsets."""
        if size > self._segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {size} bytes in append to partition {self.name}, which exceeds the "
                f"maximum configured segment size of {self._segment_bytes}."
            )
        return self.roll(first_offset if self._is_far(last_offset) else None)

    def _is_far(self, last_offset: int) -> bool:
        """Whether not even a segment that begins at the end of the log could take a batch of this offset."""
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
        """A transaction's end. Its index entry goes first: once the marker is there no reader may miss it."""
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
        """Append what the leader has, offsets and all. What is torn or of a later epoch is left out."""
        if self.failure is not None or self.is_closed:
            self._refuse()
        if self.cuts_pending:
            self._refuse_behind_cut()
        return self._append_given(records, leader_epoch, Origin.REPLICATION)

    def _append_given(self, records: memoryview, leader_epoch: int, origin: Origin) -> Appended:
        batches = self._check_given(records, leader_epoch, origin)
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
            for run in _runs(batches, self._segment_bytes):
                self._write_run(records, run, now_ms)
        except Exception:
            self._forget_unwritten_epochs(epoch_before)
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

    def _forget_unwritten_epochs(self, epoch_before: int) -> None:
        """An append failed: the epochs of the batches that were not written are no epochs of this log."""
        if self.epochs.latest_epoch != epoch_before and self.epochs.truncate_from_end(self.log_end_offset):
            self._are_epochs_new = True

    def _check_given(
        self, records: memoryview, leader_epoch: int, origin: Origin
    ) -> list[tuple[int, BatchHeader]]:
        """The whole batches, each with a sound checksum and offsets that grow."""
        batches = []
        previous = -1
        for position, header in iterate_headers(records):
            epoch = header.partition_leader_epoch
            if origin is Origin.RAFT_LEADER:
                if epoch != leader_epoch:
                    raise InvalidRecord(
                        f"Append from Raft leader did not set the batch epoch correctly, expected "
                        f"{leader_epoch} but the batch has {epoch}"
                    )
                if header.length_bytes > self.config.max_message_bytes:
                    raise MessageTooLarge(
                        f"The record batch size in the append to {self.name} is {header.length_bytes} bytes "
                        f"which exceeds the maximum configured value of {self.config.max_message_bytes}."
                    )
            elif epoch > leader_epoch:
                logger.info(
                    "%s: leaving out batches of epoch %d, above epoch %d", self.name, epoch, leader_epoch
                )
                break
            check_crc(records, position, header)
            if header.base_offset > BASE_OFFSET_MAX:
                raise CorruptMessage(f"A batch for {self.name} has the base offset {header.base_offset}.")
            if header.last_offset <= previous or header.base_offset <= previous:
                raise OffsetsOutOfOrder(
                    f"Out of order offsets found in append to {self.name}: {header.base_offset} after "
                    f"{previous}."
                )
            previous = header.last_offset
            batches.append((position, header))
        return batches

    def _take_epoch(self, header: BatchHeader) -> None:
        """Learn of a new epoch from a batch. Old formats have none: then nothing is known any more."""
        if header.magic < 2:
            if self.epochs.entries:
                self.epochs.clear()
                self._are_epochs_new = True
        elif header.partition_leader_epoch >= 0:
            self.assign_epoch_start_offset(header.partition_leader_epoch, header.base_offset)

    def _write_run(self, records: memoryview, run: list[tuple[int, BatchHeader]], now_ms: int) -> None:
        """One write for batches that follow each other; a marker is a run of its own."""
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
                # A segment may begin behind a gap only if its first batch is too far for the one before it.
                for batch in run:
                    self._write_run(records, [batch], now_ms)
                return
            segment = self._roll_for(size, first.base_offset, last.last_offset)
        try:
            segment.append_batches(buffer)
        except OSError as error:
            self._check_torn(segment, error)
            raise
        self.size_bytes += len(buffer)
        self.log_end_offset = last.next_offset
        for _, header in run:
            if header.producer_id >= 0:
                self.producers.apply(header, header.base_offset, header.max_timestamp)
        self.producers.end_offset = last.next_offset

    def _check_torn(self, segment: Segment, error: OSError) -> None:
        """After a failed write: if its remains could not be cut off, nothing may follow them."""
        if segment.is_torn:
            self.fail(error)

    def start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Before a transaction's first append is verified with its coordinator; None: it is open already."""
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
        """Batches from the one that holds `offset` on, below `limit_offset`, of one segment.

        `max_bytes` may cut the last batch. The first one comes whole even if it is larger, or, unless
        `at_least_one`, not at all.
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
        """Like `read`, but says where the bytes are."""
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
        """The aborted transactions that a read_committed reader of this answer must know."""
        length = read.length if isinstance(read, FileSlice) else len(read.records)
        segment = self.segments.floor(read.segment_base_offset) if read.segment_base_offset >= 0 else None
        if segment is None or not length:
            return []
        upper = self.segments.upper_bound_offset(segment, read.position + length, self.log_end_offset)
        return self.segments.aborted_transactions(segment, offset, upper)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at least as young as `timestamp`."""
        return self.segments.offset_for_timestamp(timestamp, self.log_start_offset)

    def batch_for_timestamp(self, timestamp: int, first_offset: int | None = None) -> BatchSearch | None:
        """Where to look for such a record: `BatchSearch.find` may be called on another thread."""
        start = self.log_start_offset if first_offset is None else first_offset
        return self.segments.batch_for_timestamp(timestamp, start)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        return self.segments.offset_of_max_timestamp()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch up to `epoch`, where it ends); (-1, -1) if that is not known."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)


def _runs(batches: list[tuple[int, BatchHeader]], bytes_max: int) -> list[list[tuple[int, BatchHeader]]]:
    """Batches that one write, into one segment, may take.

    A transaction marker goes alone, for the sake of its index entry.
    """
    runs: list[list[tuple[int, BatchHeader]]] = []
    is_open = False
    size = 0
    for item in batches:
        header = item[1]
        is_marker = header.producer_id >= 0 and header.is_control
        size += header.length_bytes
        if is_open and not is_marker and size <= bytes_max:
            runs[-1].append(item)
        else:
            runs.append([item])
            size = header.length_bytes
        is_open = not is_marker
    return runs


def _first_batch_bytes(segment: Segment, position: int, data: bytes) -> int:
    """The size of the batch at `position`, of which `data` is the start."""
    prefix = data if len(data) >= 12 else segment.read_at(position, 12)
    return int.from_bytes(prefix[8:12], "big") + 12
