"""An error of a cleaning affects one log: the cleaner continues with the others, and later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.compaction.test_cleaner import COMPACT, PARTITION, Rig
from tests.unit.log.support import START_MS, Bench, append, read_all

from ottla.log.compaction import cleaner as cleaner_module
from ottla.log.compaction.cleaner import Cleaner, CleanerConfig
from ottla.log.compaction.rewriter import Compaction
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.records import kernel
from ottla.records.batch import BatchHeader
from ottla.records.record import Record, assemble, build_batch
from ottla.wire.errors import KafkaStorageError

OTHER = ("other", 3)
LONG_MAX = 2**63 - 1


@pytest.fixture
def rig(bench: Bench) -> Rig:
    """A rig with a second log, which is less dirty than the first."""
    rig = Rig(bench)
    other = Log.open(
        bench.disk,
        bench.clock,
        str(Path(bench.directory).parent / "other-3"),
        COMPACT,
        topic="other",
        partition=3,
    )
    bench.logs.append(other)
    rig.logs[OTHER] = other
    for value in (b"1", b"2"):
        append(other, memoryview(build_batch([Record(0, START_MS, b"k", value)])))
    other.roll()
    rig.write((b"a", b"1"), (b"a", b"2"), roll=True)
    return rig


def clean_all(rig: Rig) -> None:
    for _ in range(4):
        rig.clean()


def broken(original: Callable[..., Any], log_of: Callable[..., str]) -> Callable[..., Any]:
    """A method that raises an unexpected error for the log `topic-0`."""

    def fail(*arguments: Any, **options: Any) -> Any:
        if "topic-0" in log_of(*arguments):
            raise RuntimeError("unforeseen")
        return original(*arguments, **options)

    return fail


STEPS: dict[str, tuple[object, Callable[..., str]]] = {
    "measure": (cleaner_module, lambda log, *_: log.name),
    "group_segments": (cleaner_module, lambda segments, *_: segments[0].directory),
    "last_records": (cleaner_module, lambda log: log.name),
    "_clean": (Cleaner, lambda _, job: job.log.name),
    "_map_keys": (Cleaner, lambda _, job, *__: job.log.name),
    "set_cleaned": (Cleaner, lambda _, __, changes: "topic-0" if PARTITION in changes else ""),
    "map_segment": (Compaction, lambda _, segment, *__: segment.directory),
    "copy_segments": (Compaction, lambda _, sources, *__: sources[0][0].directory),
    "replace_segments": (Log, lambda log, *_: log.name),
    "aborted_transactions": (Log, lambda log, *_: log.name),
    "delete_old_segments": (Log, lambda log, *_: log.name),
    "chunks": (Segment, lambda segment, *_, **__: segment.directory),
    "append_batches": (Segment, lambda segment, *_: segment.directory),
    "become_inactive": (Segment, lambda segment: segment.directory),
}


@pytest.mark.parametrize("step", STEPS)
def test_an_unexpected_error_of_one_log_does_not_stop_cleaning_the_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    place, log_of = STEPS[step]
    monkeypatch.setattr(place, step, broken(getattr(place, step), log_of))
    clean_all(rig)
    assert [record.value for record in read_all(rig.logs[OTHER])] == [b"2"]
    assert "unforeseen" in rig.cleaner.uncleanable[PARTITION]
    assert OTHER not in rig.cleaner.uncleanable
    assert rig.values() == {b"a": b"2"}
    if step != "replace_segments":  # the next start completes or removes it
        assert rig.bench.names(".cleaned") == []
    assert rig.errors == []


def test_an_error_of_a_cleaning_whose_log_has_changed_is_logged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(log: Log, *_: object) -> None:
        rig.cleaner.abort(PARTITION)
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(Log, "replace_segments", fail)
    rig.clean()
    assert "unforeseen" in caplog.text
    assert rig.cleaner.uncleanable == {}


def test_a_directory_that_cannot_be_flushed_now_is_compacted_later(rig: Rig) -> None:
    failures: Iterator[Exception] = iter([KafkaStorageError("too many open files")])

    async def secure(log: Log, offset: int) -> None:
        if log is rig.log:
            for failure in failures:
                raise failure

    rig.cleaner._secure = secure
    clean_all(rig)
    assert rig.cleaner.uncleanable == {}
    assert rig.offsets() == [1]


def stamped(base: int, *records: tuple[int, bytes, bytes | None]) -> bytearray:
    """A batch with LogAppendTime, so that the timestamps of its records are not checked."""
    content = kernel.encode(
        [(index, delta, key, value, ()) for index, (delta, key, value) in enumerate(records)]
    )
    count = len(records)
    header = BatchHeader(0, 0, -1, 2, 0, 0x08, count - 1, base, START_MS, -1, -1, -1, count)
    return assemble(header, content)


@pytest.mark.parametrize("base", [LONG_MAX, LONG_MAX - 3, -LONG_MAX - 1, -LONG_MAX + 1000])
@pytest.mark.parametrize("retention_ms", [0, 86_400_000, LONG_MAX])
def test_no_timestamp_and_no_retention_stops_compaction(rig: Rig, base: int, retention_ms: int) -> None:
    rig.log.reconfigure(replace(COMPACT, delete_retention_ms=retention_ms))
    records = ((0, b"b", b"1"), (5, b"c", b"2"), (3, b"b", b"3"), (1, b"d", None))
    append(rig.log, memoryview(stamped(base, *records)))
    before = {record.offset: record for record in read_all(rig.log)}
    clean_all(rig)
    assert rig.cleaner.uncleanable == {}
    assert rig.offsets()[:3] == [1, 3, 4]
    assert all(record == before[record.offset] for record in read_all(rig.log))


@pytest.mark.parametrize(
    "settings",
    [
        {"load_factor": 0.0},
        {"load_factor": -1.0},
        {"load_factor": float("nan")},
        {"load_factor": 1e300},
        {"load_factor": 5e-324},
        {"dedupe_buffer_bytes": 0},
        {"dedupe_buffer_bytes": LONG_MAX},
        {"io_buffer_bytes": 0},
        {"threads": 0},
        {"io_bytes_per_second": float("inf")},
    ],
    ids=str,
)
def test_no_setting_of_the_cleaner_stops_it(rig: Rig, settings: dict[str, Any]) -> None:
    rig.cleaner.reconfigure(CleanerConfig(**settings))
    clean_all(rig)
    assert rig.cleaner.uncleanable == {}
    assert rig.offsets() == [1]


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), 1e-300])
def test_a_cleaner_without_any_rate_waits_until_it_gets_one(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, rate: float
) -> None:
    rig.cleaner.reconfigure(CleanerConfig(io_bytes_per_second=rate))
    for _ in range(30):  # more than the cleaner reads before it checks its rate
        rig.write((b"a", b"x" * 100_000))
    rig.log.roll()
    naps = 0

    async def nap(seconds: float) -> None:
        nonlocal naps
        naps += 1
        rig.bench.clock.time_ms += int(seconds * 1000)
        if naps == 100:
            assert rig.cleaner.last is None
            rig.cleaner.reconfigure(CleanerConfig())

    monkeypatch.setattr(asyncio, "sleep", nap)
    assert rig.clean()
    assert naps == 100
