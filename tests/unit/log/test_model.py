"""A log compared with a plain list of batches: appends, truncation, retention, rolls and stops."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.log.support import START_MS, Bench, append, batch, end_transaction, produced

from ottla.log.config import LogConfig
from ottla.records.batch import iterate_headers
from ottla.records.record import read_records

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=120, retention_bytes=1500, retention_ms=-1)
PRODUCERS = (1, 2)


@dataclass(frozen=True)
class Written:
    """One batch in the model."""

    first: int
    last: int
    size: int
    value: bytes | None  # None: a transaction marker
    timestamp: int
    producer_id: int = -1
    sequence: int = -1
    is_open: bool = False  # begins or continues a transaction


class LogMachine(RuleBasedStateMachine):
    """The rules change a log; the invariants compare it with the list."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.bench = Bench(self.path, CONFIG)
        self.batches: list[Written] = []
        self.start = 0
        self.end = 0
        self.flushed = 0
        self.number = 0

    @initialize()
    def open(self) -> None:
        self.log = self.bench.open()

    def teardown(self) -> None:
        self.bench.close()
        shutil.rmtree(self.path)

    # ---- what happens

    def write(
        self, count: int, timestamp: int, *, producer_id: int = -1, transactional: bool = False
    ) -> None:
        self.number += 1
        value = b"%d" % self.number
        sequence = -1
        if producer_id < 0:
            data = batch(count, timestamp=timestamp, value=value)
        else:
            sequence = self.next_sequence(producer_id)
            data = produced(
                producer_id, sequence, count, timestamp=timestamp, value=value, transactional=transactional
            )
        done = append(self.log, data)
        assert (done.first_offset, done.last_offset) == (self.end, self.end + count - 1)
        self.note(
            Written(
                done.first_offset,
                done.last_offset,
                done.size_bytes,
                value,
                timestamp,
                producer_id,
                sequence,
                transactional,
            )
        )

    def note(self, written: Written) -> None:
        self.batches.append(written)
        self.end = written.last + 1

    def next_sequence(self, producer_id: int) -> int:
        for written in reversed(self.batches):
            if written.producer_id == producer_id and written.sequence >= 0:
                return written.sequence + written.last - written.first + 1
        return 0

    def open_transaction(self, producer_id: int) -> int | None:
        """Where the producer's open transaction begins."""
        first = None
        for written in self.batches:
            if written.producer_id == producer_id:
                if written.value is None:
                    first = None
                elif written.is_open and first is None:
                    first = written.first
        return first

    @rule(count=st.integers(1, 5), age=st.integers(0, 50))
    def append_plain(self, count: int, age: int) -> None:
        self.write(count, START_MS - age)

    @rule(count=st.integers(1, 3), producer_id=st.sampled_from(PRODUCERS))
    def append_idempotent(self, count: int, producer_id: int) -> None:
        is_open = self.open_transaction(producer_id) is not None
        self.write(count, START_MS, producer_id=producer_id, transactional=is_open)

    @rule(producer_id=st.sampled_from(PRODUCERS))
    def begin_or_go_on(self, producer_id: int) -> None:
        self.write(1, START_MS, producer_id=producer_id, transactional=True)

    @rule(producer_id=st.sampled_from(PRODUCERS), commit=st.booleans())
    def finish(self, producer_id: int, commit: bool) -> None:
        done = end_transaction(self.log, producer_id, commit=commit)
        self.note(Written(done.first_offset, done.last_offset, done.size_bytes, None, START_MS, producer_id))

    @precondition(lambda self: any(written.sequence >= 0 for written in self.batches))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """Retry the last batch of a producer."""
        producer_id = data.draw(st.sampled_from(PRODUCERS))
        known = [w for w in self.batches if w.producer_id == producer_id and w.sequence >= 0]
        if not known or producer_id not in self.log.producers.entries:
            return
        last = known[-1]
        again = produced(
            producer_id,
            last.sequence,
            last.last - last.first + 1,
            transactional=self.open_transaction(producer_id) is not None,
        )
        done = append(self.log, again)
        assert done.duplicate
        assert (done.first_offset, done.last_offset) == (last.first, last.last)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Truncate to the start of a batch, as replicas do."""
        borders = [w.first for w in self.batches if w.first >= self.start]
        offset = data.draw(st.sampled_from([*borders, self.end]))
        self.log.truncate_to(offset)
        self.batches = [written for written in self.batches if written.last < offset]
        self.end = min(self.end, offset)
        self.flushed = min(self.flushed, self.end)
        self.log.advance_high_watermark(self.end)

    @rule(ahead=st.integers(0, 3))
    def start_over(self, ahead: int) -> None:
        self.log.truncate_fully_and_start_at(self.end + ahead)
        self.batches = []
        self.start = self.end = self.flushed = self.end + ahead

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        offset = self.start + int((self.end - self.start) * part)
        self.log.increase_log_start_offset(offset, "test")
        self.start = offset

    @rule()
    def retain(self) -> None:
        self.log.delete_old_segments(START_MS)
        self.log.delete_due(2**62)
        self.start = self.log.log_start_offset
        first = self.log.segments[0].base_offset
        kept = sum(written.size for written in self.batches if written.first >= first)
        assert kept == self.log.size_bytes
        assert kept < 1500 + 700 or len(self.log.segments) == 1

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end
        assert self.log.recovery_point == self.end

    @rule()
    def stop_cleanly(self) -> None:
        self.log = self.bench.reopen(self.log)
        self.flushed = self.end
        self.log.set_high_watermark(self.end)

    @rule()
    def kill(self) -> None:
        self.log = self.bench.reopen(self.log, clean=False)
        self.log.set_high_watermark(self.end)

    @rule(part=st.floats(0, 1), garbage=st.binary(max_size=30))
    def lose_power(self, part: float, garbage: bytes) -> None:
        """Truncate the unflushed bytes anywhere, and perhaps write other bytes there."""
        self.log.close(clean=False)
        active = self.log.active_segment
        flushed_bytes = sum(w.size for w in self.batches if active.base_offset <= w.first < self.flushed)
        path = Path(active.path)
        content = path.read_bytes()
        keep = flushed_bytes + int((len(content) - flushed_bytes) * part)
        path.write_bytes(content[:keep] + garbage)
        for suffix in (".index", ".timeindex"):
            path.with_suffix(suffix).write_bytes(garbage)
        self.log = self.bench.open(
            clean=False, recovery_point=self.flushed, log_start_offset=min(self.start, self.flushed)
        )
        lost = [w for w in self.batches if w.first >= self.log.log_end_offset]
        assert all(w.first >= self.flushed for w in lost)
        self.batches = [w for w in self.batches if w.first < self.log.log_end_offset]
        self.end = self.log.log_end_offset
        self.start = self.log.log_start_offset
        self.log.set_high_watermark(self.end)

    # ---- what holds

    @invariant()
    def the_offsets_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.high_watermark == self.end
        first_open = [first for p in PRODUCERS if (first := self.open_transaction(p)) is not None]
        assert self.log.last_stable_offset <= self.log.high_watermark
        if first_open:
            assert self.log.last_stable_offset <= max(min(first_open), self.start)
        else:
            assert self.log.last_stable_offset == self.end

    @invariant()
    def every_record_is_there(self) -> None:
        if not hasattr(self, "log"):
            return
        expected = [w for w in self.batches if w.last >= self.start]
        offset = self.start
        found: list[tuple[int, int, bytes | None]] = []
        while offset < self.end:
            data = self.log.read(offset, 300, limit_offset=self.end).records
            headers = [header for _, header in iterate_headers(data)]
            if not headers:
                break
            found.extend(
                (header.base_offset, header.last_offset, None if header.is_control else b"")
                for header in headers
            )
            offset = headers[-1].next_offset
        assert found == [(w.first, w.last, None if w.value is None else b"") for w in expected]

    @invariant()
    def any_offset_is_found(self) -> None:
        if not hasattr(self, "log") or self.start == self.end:
            return
        offset = self.start + self.number % (self.end - self.start)
        holder = next((w for w in self.batches if w.last >= offset), None)
        data = self.log.read(offset, 1, limit_offset=self.end).records
        if holder is None:
            assert data == b""
        else:
            assert [header.base_offset for _, header in iterate_headers(data)] == [holder.first]
            if holder.value is not None:
                assert {record.value for record in read_records(data)} == {holder.value}

    @invariant()
    def times_are_found(self) -> None:
        if not hasattr(self, "log"):
            return
        segment_times = [w.timestamp for w in self.batches if w.last >= self.start]
        newest = self.log.offset_of_max_timestamp()
        if segment_times and newest is not None:
            assert newest.timestamp >= max(segment_times)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
