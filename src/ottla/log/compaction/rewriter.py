"""The half of the cleaner that blocks: reading segments, judging batches, writing `.cleaned` segments.

All of it runs off the event loop, as generators that stop after every chunk, so that the loop can throttle
and abort them. The rule: it reads inactive segments through its own file handles and writes only files that
are not part of the log yet, so it shares no state with the loop and cannot harm the log.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from ottla.log.compaction.rules import LastRecords, TransactionTracker, judge
from ottla.log.config import LogConfig
from ottla.log.segment import CLEANED, Segment
from ottla.log.transactions import AbortedTransaction
from ottla.ports import Buffer, Disk
from ottla.records.batch import BatchHeader, iterate_headers
from ottla.records.compaction import KeyMap, Rules, compact_batch
from ottla.records.control import ControlType, control_type
from ottla.records.record import read_batch
from ottla.wire.errors import KafkaError

_T = TypeVar("_T")
Steps: TypeAlias = Generator[int, None, _T]
"""Work in small steps. Each says how many bytes it read and wrote."""

_SLICE_BYTES = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class CleaningReport:
    """What one cleaning did."""

    name: str
    first_dirty_offset: int
    end_offset: int
    seconds: float = 0.0
    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0


@dataclass(slots=True, kw_only=True)
class Compaction:
    """The settings of one cleaning, and its state from segment to segment."""

    disk: Disk
    config: LogConfig
    chunk_bytes: int
    key_map: KeyMap
    report: CleaningReport
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    legacy_horizon_ms: int
    """Old formats cannot carry a delete horizon: their tombstones stay in segments younger than this."""
    tracker: TransactionTracker = field(default_factory=TransactionTracker)

    def map_segment(self, segment: Segment, tracker: TransactionTracker) -> Steps[bool]:
        """Add the keys of a dirty segment to the map; False if it is full."""
        start_offset = self.first_dirty_offset
        reader = self._reader_of(segment)
        try:
            begin = _position_of(reader, start_offset)
            if begin is None:
                return True
            for start, chunk in reader.chunks(begin, size=self.chunk_bytes):
                for position, header in iterate_headers(chunk):
                    try:
                        if not self._map_batch(chunk, position, header, tracker):
                            return False
                    except KafkaError as error:
                        raise reader.damaged(start + position, str(error), header.base_offset) from error
                self.report.map_bytes_read += len(chunk)
                yield len(chunk)
            return True
        finally:
            reader.close_handles()

    def _map_batch(
        self, chunk: bytes, position: int, header: BatchHeader, tracker: TransactionTracker
    ) -> bool:
        if header.is_control:
            tracker.is_marker_idle(header, _control_kind(chunk, position, header))
        elif not tracker.is_aborted(header):
            return self.key_map.add(chunk, position, header, self.first_dirty_offset)
        if header.last_offset >= self.first_dirty_offset:
            self.key_map.pass_over(header.last_offset)
        return True

    def copy_segments(
        self, sources: list[tuple[Segment, list[AbortedTransaction]]], last: LastRecords
    ) -> Steps[Segment]:
        """A `.cleaned` segment with the records of the sources that stay, synced. No file remains if that
        fails."""
        first = sources[0][0]
        cleaned = Segment.create(
            self.disk, first.directory, first.base_offset, self.config, now_ms=self.now_ms, suffix=CLEANED
        )
        is_done = False
        try:
            for segment, aborted in sources:
                self.tracker.expect(aborted)
                yield from self._copy_segment(cleaned, segment, last)
            cleaned.become_inactive()
            cleaned.sync()
            # Retention and the tombstones of old formats depend on the age of the file.
            self.disk.set_modified_ms(cleaned.path, sources[-1][0].modified_ms)
            is_done = True
        finally:
            if not is_done:
                cleaned.remove()
        return cleaned

    def _copy_segment(self, cleaned: Segment, segment: Segment, last: LastRecords) -> Steps[None]:
        keep_legacy_tombstones = segment.modified_ms > self.legacy_horizon_ms
        rules = Rules(self.now_ms, self.config.delete_retention_ms, keep_legacy_tombstones)
        reader = self._reader_of(segment)
        try:
            for start, chunk in reader.chunks(size=self.chunk_bytes):
                pieces = self._copy_chunk(reader, start, chunk, rules, last)
                written = sum(map(len, pieces))
                if pieces:
                    cleaned.append_batches(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                for transaction in self.tracker.retained:
                    cleaned.aborted_index.append(transaction)
                self.tracker.retained.clear()
                self.report.bytes_read += len(chunk)
                self.report.bytes_written += written
                yield len(chunk) + written
        finally:
            reader.close_handles()

    def _copy_chunk(
        self, reader: Segment, start: int, chunk: bytes, rules: Rules, last: LastRecords
    ) -> list[Buffer]:
        """The batches that stay. Unchanged batches that follow each other are one piece."""
        pieces: list[Buffer] = []
        report = self.report
        whole_from = whole_to = 0
        for position, header in iterate_headers(chunk):
            try:
                kind = _control_kind(chunk, position, header) if header.is_control else None
                verdict = judge(header, kind, self.tracker, last, self.end_offset, self.now_ms)
                kept = compact_batch(chunk, position, header, self.key_map, verdict, rules)
            except KafkaError as error:
                raise reader.damaged(start + position, str(error), header.base_offset) from error
            report.records_read += kept.records_read
            report.records_kept += kept.records_kept
            report.records_without_key += kept.records_without_key
            end = position + header.length_bytes
            if isinstance(kept.batch, memoryview):
                whole_to = end
                continue
            if whole_from < whole_to:
                pieces.append(memoryview(chunk)[whole_from:whole_to])
            whole_from = whole_to = end
            if kept.batch is not None:
                pieces.append(kept.batch)
        if whole_from < whole_to:
            pieces.append(memoryview(chunk)[whole_from:whole_to])
        return pieces

    def _reader_of(self, segment: Segment) -> Segment:
        """The same files through other handles: the log may close its own in the meantime."""
        reader = Segment.open_existing(
            self.disk, segment.directory, segment.base_offset, self.config, suffix=segment.suffix
        )
        reader.size_bytes = min(reader.size_bytes, segment.size_bytes)
        return reader


def _position_of(reader: Segment, offset: int) -> int | None:
    """Where the first batch begins whose last offset is at least `offset`.

    The index would be quicker. But a wrong entry would rebuild it, and its file must not shrink here,
    because the log has mapped it.
    """
    if offset <= reader.base_offset:
        return 0
    return next((position for position, header in reader.headers() if header.last_offset >= offset), None)


def advance(steps: Steps[_T]) -> tuple[int, list[_T]]:
    """Run steps for one slice: (bytes read and written, a list with the result if they are done)."""
    total = 0
    while total < _SLICE_BYTES:
        try:
            total += next(steps)
        except StopIteration as stop:
            return total, [stop.value]
    return total, []


def _control_kind(buffer: Buffer, position: int, header: BatchHeader) -> ControlType | None:
    """What the first control record of a batch is; None if compaction has emptied the batch."""
    records = read_batch(buffer, position, header)
    return control_type(records[0].key) if records else None
