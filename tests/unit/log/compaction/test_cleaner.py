"""Compaction of logs compared with a plain model, also when it is interrupted or stopped."""

from __future__ import annotations

import asyncio
import errno
import shutil
import struct
import tempfile
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.support import START_MS, Bench, FaultyDisk, append, end_transaction, produced, read_all

from ottla.host import HostRandom
from ottla.log import checkpoints
from ottla.log.compaction.cleaner import Cleaner, CleanerConfig
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.ports import Buffer
from ottla.records.batch import BatchHeader, Codec, iterate_headers
from ottla.records.record import Record, build_batch, read_batch

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

COMPACT = LogConfig(
    cleanup_policy=frozenset(("compact",)), min_cleanable_dirty_ratio=0.0, delete_retention_ms=1000
)
PARTITION = ("topic", 0)


class Rig:
    """One compacted log and a cleaner for it."""

    def __init__(self, bench: Bench, log: Log | None = None, **settings: Any) -> None:
        self.bench = bench
        self.log = log if log is not None else bench.open(config=COMPACT)
        self.logs = {PARTITION: self.log}
        self.errors: list[OSError] = []
        self.cleaner = Cleaner(
            bench.disk,
            bench.clock,
            HostRandom(),
            CleanerConfig(**settings),
            self.logs,
            lambda log, error: self.errors.append(error),
        )

    @property
    def directory(self) -> str:
        return str(Path(self.log.directory).parent)

    def write(self, *records: tuple[bytes | None, bytes | None], roll: bool = False, **options: Any) -> None:
        values = [Record(0, self.bench.clock.now_ms(), key, value) for key, value in records]
        append(self.log, memoryview(build_batch(values, **options)), now_ms=self.bench.clock.now_ms())
        if roll:
            self.log.roll()

    def clean(self) -> bool:
        """Roll the active segment, so that everything can be cleaned, and clean."""
        if self.log.active_segment.size_bytes:
            self.log.roll()
        return asyncio.run(self.cleaner.clean_next())

    def values(self) -> dict[bytes | None, bytes | None]:
        return {record.key: record.value for record in read_all(self.log)}

    def offsets(self) -> list[int]:
        return [record.offset for record in read_all(self.log)]

    def headers(self) -> list[BatchHeader]:
        return [header for segment in self.log.segments for _, header in segment.headers()]

    def checkpoint(self) -> dict[checkpoints.Partition, int]:
        return checkpoints.read(self.bench.disk, f"{self.directory}/{checkpoints.CLEANED}")


@pytest.fixture
def rig(bench: Bench) -> Rig:
    return Rig(bench)


def test_only_the_last_value_of_each_key_stays(rig: Rig) -> None:
    rig.write((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), roll=True)
    rig.write((b"c", b"4"), (b"b", b"5"), roll=True)
    assert rig.clean()
    assert [(record.offset, record.key, record.value) for record in read_all(rig.log)] == [
        (2, b"a", b"3"),
        (3, b"c", b"4"),
        (4, b"b", b"5"),
    ]
    assert rig.log.log_end_offset == 5
    assert rig.checkpoint() == {PARTITION: 5}
    report = rig.cleaner.last
    assert report is not None
    assert (report.first_dirty_offset, report.end_offset, report.records_read, report.records_kept) == (
        0,
        5,
        5,
        3,
    )
    assert not rig.clean(), "there is nothing left to do"


def test_the_active_segment_is_not_cleaned(rig: Rig) -> None:
    rig.write((b"a", b"1"), roll=True)
    rig.write((b"a", b"2"))
    rig.write((b"a", b"3"))
    assert asyncio.run(rig.cleaner.clean_next())
    assert rig.offsets() == [0, 1, 2]
    rig.log.roll()
    assert asyncio.run(rig.cleaner.clean_next())
    assert rig.offsets() == [2]


def test_small_segments_become_one(rig: Rig) -> None:
    for number in range(10):
        rig.write((b"k%d" % number, b"v"), roll=True)
    assert len(rig.log.segments) == 11
    assert rig.clean()
    assert len(rig.log.segments) == 2
    assert rig.offsets() == list(range(10))


def test_cleaning_leaves_a_damaged_index_that_the_log_has_mapped_alone(rig: Rig) -> None:
    rig.log.reconfigure(replace(COMPACT, index_interval_bytes=0))
    rig.log.roll()
    for number in range(100):
        rig.write((b"k%d" % number, b"v"))
    rig.log.roll()
    segment = rig.log.segments[0]
    segment.close_handles()
    path = Path(segment.offset_index.path)
    damaged = bytearray(path.read_bytes())
    damaged[8 * 50 + 4 : 8 * 50 + 8] = (7).to_bytes(4, "big")
    path.write_bytes(damaged)
    rig.log.read(3, 1, limit_offset=100)
    rig.cleaner.cleaned[rig.directory] = {PARTITION: 51}
    assert rig.clean()
    assert Path(f"{path}.deleted").read_bytes() == damaged
    assert rig.cleaner.last is not None
    assert 0 < rig.cleaner.last.map_bytes_read <= segment.size_bytes // 2
    assert rig.offsets() == list(range(100))


def test_a_cleaned_segment_is_as_old_as_its_last_source(rig: Rig) -> None:
    for number in range(3):
        rig.write((b"k%d" % number, b"v"), roll=True)
        rig.bench.disk.set_modified_ms(rig.log.segments[number].path, START_MS - 1000 * (3 - number))
    assert rig.clean()
    assert rig.log.segments[0].modified_ms == START_MS - 1000


def message(offset: int, key: bytes, value: bytes | None) -> bytes:
    """A message of the old format v1."""
    body = struct.pack(">bbqi", 1, 0, START_MS, len(key)) + key
    body += struct.pack(">i", -1 if value is None else len(value)) + (value or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_tombstones_of_old_formats_expire_by_the_age_of_their_segment(rig: Rig) -> None:
    data = message(0, b"a", b"1") + message(1, b"b", None) + message(2, b"a", b"2")
    rig.log.append_as_follower(memoryview(bytearray(data)))
    rig.log.advance_high_watermark(3)
    rig.log.roll()
    rig.bench.disk.set_modified_ms(rig.log.segments[0].path, START_MS)
    assert rig.clean()
    assert rig.values() == {b"b": None, b"a": b"2"}
    rig.log.reconfigure(replace(COMPACT, segment_bytes=100))
    for modified_ms, expected in ((START_MS + 999, True), (START_MS + 1000, True), (START_MS + 9999, False)):
        rig.write((b"c%d" % modified_ms, b"3"), roll=True)
        rig.bench.disk.set_modified_ms(rig.log.segments[-2].path, modified_ms)
        rig.clean()
        assert (b"b" in rig.values()) == expected


def test_the_cleaned_log_is_read_from_any_offset_and_survives_a_restart(rig: Rig) -> None:
    for number in range(200):
        rig.write((b"k%d" % (number % 20), b"v%d" % number), roll=number % 10 == 9)
    before = rig.values()
    assert rig.clean()
    assert rig.values() == before
    for offset in range(200):
        found = read_all(rig.log, offset)
        assert [record.offset for record in found] == [
            expected for expected in rig.offsets() if expected >= offset
        ]
    for clean in (True, False):
        rig.log = rig.bench.reopen(rig.log, clean=clean, recovery_point=0, config=COMPACT)
        assert rig.values() == before
        assert rig.log.log_end_offset == 200
    assert rig.bench.names(".cleaned") == rig.bench.names(".swap") == []


def test_tombstones_wait_for_their_horizon(rig: Rig) -> None:
    rig.write((b"a", b"1"), (b"b", b"2"), roll=True)
    rig.write((b"a", None), roll=True)
    assert rig.clean()
    assert rig.values() == {b"b": b"2", b"a": None}
    assert [header.delete_horizon_ms for header in rig.headers()] == [None, START_MS + 1000]
    rig.bench.clock.time_ms += 1000
    rig.write((b"c", b"3"), roll=True)
    assert rig.clean()
    assert rig.values() == {b"b": b"2", b"c": b"3"}


def test_records_without_a_key_are_dropped(rig: Rig) -> None:
    # A topic that was not always compacted may have records without a key.
    rig.log.reconfigure(LogConfig())
    rig.write((None, b"1"), (b"a", b"2"), roll=True)
    rig.log.reconfigure(COMPACT)
    rig.write((b"b", b"3"))
    assert rig.clean()
    assert rig.values() == {b"a": b"2", b"b": b"3"}
    assert rig.cleaner.last is not None
    assert rig.cleaner.last.records_without_key == 1


def test_the_last_offset_of_the_range_is_kept_even_if_nothing_else_is(rig: Rig) -> None:
    rig.log.reconfigure(LogConfig())
    rig.write((None, b"1"), (None, b"2"))
    rig.log.reconfigure(COMPACT)
    assert rig.clean()
    assert rig.offsets() == []
    assert [(header.record_count, header.last_offset) for header in rig.headers()] == [(0, 1)]
    rig.log = rig.bench.reopen(rig.log, clean=False, recovery_point=0)
    assert rig.log.log_end_offset == 2


def test_an_idempotent_producer_can_continue_after_its_records_were_cleaned(rig: Rig) -> None:
    def send(sequence: int, key: bytes) -> Any:
        records = [Record(0, START_MS, key, b"v"), Record(0, START_MS, key, b"w")]
        data = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
        return append(rig.log, memoryview(data))

    send(0, b"a")
    send(2, b"a")
    rig.write((b"a", b"newer"), roll=True)
    assert rig.clean()
    assert rig.values() == {b"a": b"newer"}
    emptied = [header for header in rig.headers() if header.record_count == 0]
    assert [(header.producer_id, header.base_sequence, header.last_offset) for header in emptied] == [
        (7, 2, 3)
    ]
    rig.log = rig.logs[PARTITION] = rig.bench.reopen(rig.log, clean=False, recovery_point=0, config=COMPACT)
    assert send(2, b"a").duplicate
    assert not send(4, b"a").duplicate
    rig.log.roll()
    assert rig.clean()
    assert [header.last_offset for header in rig.headers() if header.producer_id == 7] == [6]


def test_aborted_records_are_dropped_and_committed_ones_stay(rig: Rig) -> None:
    log = rig.log
    append(log, produced(1, 0, 3, transactional=True))
    append(log, produced(2, 0, 2, transactional=True))
    end_transaction(log, 1, commit=False)
    end_transaction(log, 2, commit=True)
    rig.write((b"other", b"x"), roll=True)
    assert rig.clean()
    assert [record.offset for record in read_all(log) if record.value == b"value"] == [3, 4]
    # The aborted producer's last batch stays, empty, for its sequence; so does the marker that belongs to it.
    kinds = [(header.last_offset, header.record_count, header.is_control) for header in rig.headers()]
    assert kinds == [(2, 0, False), (4, 2, False), (5, 1, True), (6, 1, True), (7, 1, False)]
    assert [entry.producer_id for entry in log.aborted_transactions(0, 8)] == [1]


def test_an_aborted_record_does_not_supersede_a_committed_one(rig: Rig) -> None:
    rig.write((b"key0", b"kept"), roll=True)
    append(rig.log, produced(1, 0, 1, transactional=True))
    end_transaction(rig.log, 1, commit=False)
    assert rig.clean()
    assert rig.values()[b"key0"] == b"kept"


def test_markers_are_dropped_once_their_transactions_are(rig: Rig) -> None:
    log = rig.log
    for producer_id in (1, 2):
        append(log, produced(producer_id, 0, 1, transactional=True))
        end_transaction(log, producer_id, commit=producer_id == 1)
    rig.write((b"key0", b"newer"), roll=True)
    assert rig.clean()
    rig.bench.clock.time_ms += 10**9
    log.expire_producers(rig.bench.clock.now_ms())
    for key in (b"x", b"y"):  # the first round drops the emptied batches, the second finds the markers idle
        rig.write((key, b"1"), roll=True)
        assert rig.clean()
    controls = [
        (header.last_offset, header.delete_horizon_ms) for header in rig.headers() if header.is_control
    ]
    horizon = START_MS + 10**9 + 1000
    assert controls == [(1, horizon), (3, horizon)]
    assert log.aborted_transactions(0, 10) == []
    rig.bench.clock.time_ms = horizon
    rig.write((b"z", b"1"), roll=True)
    assert rig.clean()
    assert not any(header.is_control for header in rig.headers())


def test_a_full_map_cleans_as_far_as_it_reaches(bench: Bench) -> None:
    rig = Rig(bench, dedupe_buffer_bytes=24 * 12)
    for number in range(40):
        rig.write((b"k%d" % (number % 20), b"%d" % number), roll=number % 4 == 3)
    rounds = 0
    while rig.clean():
        rounds += 1
    assert rounds > 2
    assert rig.offsets() == list(range(20, 40))
    assert rig.checkpoint() == {PARTITION: 40}


def test_a_batch_larger_than_the_buffers_is_cleaned(bench: Bench) -> None:
    rig = Rig(bench, io_buffer_bytes=1000)
    rig.write((b"a", b"x" * 50_000), (b"b", b"1"))
    rig.write((b"b", b"y" * 20_000), roll=True)
    rig.write((b"c", b"2"))
    assert rig.clean()
    assert rig.values() == {b"a": b"x" * 50_000, b"b": b"y" * 20_000, b"c": b"2"}


def test_compact_and_delete_also_deletes_what_is_old(rig: Rig) -> None:
    policy = frozenset(("compact", "delete"))
    rig.log.reconfigure(replace(COMPACT, cleanup_policy=policy, retention_ms=5000, segment_bytes=100))
    rig.write((b"a", b"1"), roll=True)
    rig.bench.clock.time_ms += 4000
    rig.write((b"b", b"2"), roll=True)
    assert rig.clean()
    assert rig.offsets() == [0, 1]
    rig.bench.clock.time_ms += 10_000
    rig.write((b"c", b"3"))
    rig.clean()
    assert rig.offsets() == [2]
    assert rig.log.log_start_offset == 2


def test_the_throttle_bounds_the_rate(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(bench, io_bytes_per_second=1_000_000)
    for number in range(40):
        rig.write((b"k%d" % number, b"x" * 100_000), roll=number % 10 == 9)
    slept = 0.0
    here, really_sleep = threading.get_ident(), asyncio.sleep

    async def sleep(seconds: float) -> None:
        nonlocal slept
        if threading.get_ident() != here:  # a loop of something else in this process
            await really_sleep(seconds)
            return
        slept += seconds
        bench.clock.time_ms += int(seconds * 1000) + 1

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert rig.clean()
    report = rig.cleaner.last
    assert report is not None
    moved = report.map_bytes_read + report.bytes_read + report.bytes_written
    assert slept >= moved / 1_000_000 * 0.5


def test_a_damaged_log_is_not_compacted_and_not_changed(rig: Rig) -> None:
    rig.write((b"a", b"1"), roll=True)
    rig.write((b"a", b"2"), roll=True)
    path = Path(rig.log.segments[0].path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert not rig.clean()
    assert "damaged at byte 0" in rig.cleaner.uncleanable[PARTITION]
    assert rig.errors == []
    assert path.read_bytes() == data
    assert not rig.clean()
    assert rig.bench.names(".cleaned") == []
    rig.logs.clear()
    rig.clean()
    assert rig.cleaner.uncleanable == {}


def test_the_dirtiest_log_comes_first(bench: Bench) -> None:
    rig = Rig(bench)
    rig.write((b"a", b"1"), (b"a", b"2"), roll=True)
    rig.clean()
    rig.write((b"a", b"3"), roll=True)
    other = Log.open(
        bench.disk,
        bench.clock,
        str(Path(bench.directory).parent / "other-3"),
        COMPACT,
        topic="other",
        partition=3,
    )
    bench.logs.append(other)
    append(other, memoryview(build_batch([Record(0, START_MS, b"k", b"v")])))
    other.roll()
    rig.logs[("other", 3)] = other
    assert rig.clean()
    assert rig.cleaner.last is not None
    assert rig.cleaner.last.name == "other-3"
    assert rig.cleaner.dirtiest_ratio == 1.0
    rig.cleaner.pause(PARTITION)
    assert not rig.clean()
    rig.cleaner.resume(PARTITION)
    assert rig.clean()
    assert rig.cleaner.last.name == "topic-0"
    assert rig.checkpoint() == {("other", 3): 1, PARTITION: 3}


# ---- disturbances


def disturb(rig: Rig, at_slice: int, change: Callable[[], object]) -> bool:
    """Clean, and after slice `at_slice` of the work change something on the loop."""
    original = rig.bench.disk.offload
    count = 0

    def offload(work: Callable[[*_Ts], _T], *arguments: *_Ts) -> Awaitable[_T]:
        nonlocal count
        count += 1
        if count == at_slice:
            change()
        return original(work, *arguments)

    rig.bench.disk.offload = offload  # type: ignore[method-assign]
    try:
        return rig.clean()
    finally:
        rig.bench.disk.offload = original  # type: ignore[method-assign]


def two_segments(rig: Rig) -> None:
    rig.write((b"a", b"1"), (b"b", b"2"), roll=True)
    rig.write((b"a", b"3"), (b"b", b"4"), roll=True)
    rig.write((b"c", b"5"))


@pytest.mark.parametrize("at_slice", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "change",
    [
        lambda rig: rig.log.truncate_to(3),
        lambda rig: rig.log.truncate_fully_and_start_at(0),
        lambda rig: rig.logs.clear(),
        lambda rig: rig.cleaner.abort(PARTITION),
        lambda rig: rig.log.fail(OSError(errno.EIO, "gone")),
    ],
    ids=["truncate", "restart", "delete", "abort", "fail"],
)
def test_the_cleaning_of_a_log_that_changes_is_discarded(
    rig: Rig, at_slice: int, change: Callable[[Rig], object]
) -> None:
    two_segments(rig)
    assert not disturb(rig, at_slice, lambda: change(rig))
    assert rig.errors == []
    assert rig.cleaner.uncleanable == {}
    assert rig.checkpoint() == {}
    assert rig.bench.names(".cleaned") == rig.bench.names(".swap") == []


def test_appends_and_reads_continue_while_a_log_is_cleaned(rig: Rig) -> None:
    two_segments(rig)
    expected = rig.values()

    def use() -> None:
        assert rig.values() == expected
        rig.write((b"d", b"6"))
        expected[b"d"] = b"6"

    assert disturb(rig, 3, use)
    assert rig.values() == expected
    assert rig.log.log_end_offset == 6


def test_a_cleaning_that_is_cancelled_leaves_nothing_behind(rig: Rig) -> None:
    two_segments(rig)
    rig.log.roll()

    async def cancel() -> None:
        task = asyncio.ensure_future(rig.cleaner.clean_next())
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await rig.cleaner.close()
        assert not await rig.cleaner.clean_next()

    asyncio.run(cancel())
    assert rig.bench.names(".cleaned") == []
    assert len(rig.log.segments) == 4


@pytest.mark.parametrize("operation", ["create", "write", "fsync"])
def test_a_full_disk_cancels_the_cleaning_until_there_is_room(faulty: Bench, operation: str) -> None:
    rig = Rig(faulty)
    two_segments(rig)
    disk = faulty.disk
    assert isinstance(disk, FaultyDisk)
    disk.fail_on(operation, ".log.cleaned")
    assert not rig.clean()
    assert [error.errno for error in rig.errors] == [errno.ENOSPC]
    assert rig.bench.names(".cleaned") == []
    assert rig.cleaner.uncleanable == {}
    disk.heal()
    assert rig.clean()
    assert rig.values() == {b"a": b"3", b"b": b"4", b"c": b"5"}


# ---- crashes


class Crash(Exception):
    pass


class CrashingDisk(FaultyDisk):
    """Raises before the n-th change to the files."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10**9

    def check(self, operation: str, path: str) -> None:
        super().check(operation, path)
        if operation == "open":
            return
        self.left -= 1
        if self.left < 0:
            raise Crash

    def remove(self, path: str) -> None:
        self.check("remove", path)
        super().remove(path)


def crash_points(tmp_path: Path) -> Iterator[Bench]:
    """Clean the log of `prepare` and stop before each change to the files in turn."""
    step = 0
    while True:
        disk = CrashingDisk()
        bench = Bench(tmp_path / str(step), disk=disk)
        rig = Rig(bench)
        rig.write((b"a", b"1"), (b"b", b"2"), roll=True)
        append(rig.log, produced(1, 0, 2, transactional=True))
        end_transaction(rig.log, 1, commit=False)
        rig.write((b"a", b"3"), (b"b", None), roll=True)
        rig.write((b"a", b"4"), (b"c", b"5"), roll=True)
        rig.log.flush()
        disk.left = step
        try:
            finished = asyncio.run(rig.cleaner.clean_next())
        except Crash:
            finished = False
        disk.left = 10**9
        yield bench
        bench.close()
        if finished:
            return
        step += 1


def test_a_crash_at_any_step_leaves_the_old_log_or_the_new_one(tmp_path: Path) -> None:
    latest = {b"a": b"4", b"b": None, b"c": b"5"}
    outcomes = set()
    for bench in crash_points(tmp_path):
        # The process has died: only its files remain.
        log = Log.open(
            bench.disk, bench.clock, bench.directory, COMPACT, topic="topic", partition=0, recovery_point=10
        )
        bench.logs.append(log)
        log.set_high_watermark(log.log_end_offset)
        committed = [
            record for record in read_all(log) if record.value != b"value" and record.key != b"\0\0\0\0"
        ]
        assert {record.key: record.value for record in committed if record.key in latest} == latest
        assert log.log_end_offset == 9
        offsets = [record.offset for record in committed]
        assert offsets == sorted(set(offsets))
        assert bench.names(".cleaned") == bench.names(".swap") == bench.names(".deleted") == []
        outcomes.add(len(offsets))
        again = Rig(bench, log)
        log.roll()
        while again.clean():
            pass
        assert {key: value for key, value in again.values().items() if key in latest} == latest
    assert len(outcomes) > 1, "some crashes come before the exchange and some after"


# ---- the model

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
DATA = st.tuples(
    st.just("data"),
    st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=5)), min_size=1, max_size=4),
    st.sampled_from(Codec),
)
STEPS = st.lists(
    DATA
    | st.tuples(st.just("begin"), st.integers(1, 3), st.lists(KEYS, min_size=1, max_size=3))
    | st.tuples(st.just("end"), st.integers(1, 3), st.booleans())
    | st.tuples(st.just("transaction"), st.booleans(), st.lists(KEYS, min_size=1, max_size=3))
    | st.tuples(st.just("roll"), st.just(0), st.just(0))
    | st.tuples(st.just("clean"), st.integers(0, 2000), st.just(0))
    | st.tuples(st.just("restart"), st.booleans(), st.just(0)),
    max_size=40,
)


class Model:
    """What a log must still contain, in plain lists."""

    def __init__(self) -> None:
        self.committed: list[Record] = []
        self.pending: dict[int, list[Record]] = {}

    def end(self, producer_id: int, *, commit: bool) -> None:
        records = self.pending.pop(producer_id)
        if commit:
            self.committed = sorted(self.committed + records)

    def latest(self) -> dict[bytes | None, Record]:
        return {record.key: record for record in self.committed}


def read_committed(log: Log) -> list[Record]:
    """What a read_committed consumer gets: no control records, nothing aborted, nothing open."""
    stable = log.last_stable_offset
    aborted = log.aborted_transactions(0, log.log_end_offset)
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < stable:
        data: Buffer = log.read(offset, 1 << 20, limit_offset=stable).records
        if not data:
            break
        for at, header in iterate_headers(data):
            offset = header.next_offset
            is_aborted = header.is_transactional and any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset <= entry.last_offset
                for entry in aborted
            )
            if not header.is_control and not is_aborted:
                found += read_batch(data, at, header)
    return found


def run_steps(bench: Bench, steps: list[tuple[str, Any, Any]]) -> None:
    rig = Rig(bench, io_buffer_bytes=8192)
    model = Model()
    sequences: dict[int, int] = {}

    def begin(producer_id: int, keys: list[bytes]) -> None:
        now_ms = bench.clock.now_ms()
        records = [Record(0, now_ms, key, b"t%d" % now_ms) for key in keys]
        sequence = sequences.get(producer_id, 0)
        data = build_batch(
            records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        first_offset = append(rig.log, memoryview(data), now_ms=now_ms).first_offset
        sequences[producer_id] = sequence + len(records)
        model.pending.setdefault(producer_id, []).extend(numbered(records, first_offset))

    def end(producer_id: int, commit: bool) -> None:
        if producer_id in model.pending:
            end_transaction(rig.log, producer_id, commit=commit)
            model.end(producer_id, commit=commit)

    for kind, first, second in steps:
        log, now_ms = rig.log, bench.clock.now_ms()
        if kind == "data":
            records = [Record(0, now_ms, key, value) for key, value in first]
            appended = append(log, memoryview(build_batch(records, codec=second)), now_ms=now_ms)
            model.committed += numbered(records, appended.first_offset)
        elif kind == "begin":
            begin(first, second)
        elif kind == "end":
            end(first, second)
        elif kind == "transaction":
            begin(4, second)
            end(4, first)
        elif kind == "clean":
            if log.active_segment.size_bytes:
                log.roll()
            bench.clock.time_ms += first
            asyncio.run(rig.cleaner.clean_next())
            assert rig.errors == []
            assert rig.cleaner.uncleanable == {}
        elif kind == "restart":
            rig.log = rig.logs[PARTITION] = bench.reopen(log, clean=first, recovery_point=0, config=COMPACT)
            rig.log.set_high_watermark(rig.log.log_end_offset)
        elif log.active_segment.size_bytes:
            log.roll()
        check(rig.log, model)


def numbered(records: list[Record], first_offset: int) -> list[Record]:
    return [record._replace(offset=first_offset + number) for number, record in enumerate(records)]


def check(log: Log, model: Model) -> None:
    found = read_committed(log)
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets)), "order and offsets are kept"
    stable = log.last_stable_offset
    by_offset = {record.offset: record for record in model.committed}
    for record in found:
        assert by_offset[record.offset] == record, "what is read was written, and is committed"
    latest = {record.key: record for record in model.committed if record.offset < stable}
    read = {record.key: record for record in found}
    for key, record in latest.items():
        if record.value is not None:
            assert read[key] == record, "the last value of a key is never lost"
        else:
            assert read.get(key, record) == record, "a tombstone may go, but nothing older comes back"


@given(STEPS)
@settings(max_examples=60)
def test_whatever_happens_readers_see_the_last_committed_values(steps: list[tuple[str, Any, Any]]) -> None:
    directory = Path(tempfile.mkdtemp())
    bench = Bench(directory)
    try:
        run_steps(bench, steps)
    finally:
        bench.close()
        shutil.rmtree(directory)
