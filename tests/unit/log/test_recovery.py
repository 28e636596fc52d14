"""Opening logs after clean and unclean stops, with missing, torn, damaged or unfinished files."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.support import (
    START_MS,
    Bench,
    append,
    batch,
    end_transaction,
    produced,
    read_all,
)

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segment import LogDamaged
from ottla.records.batch import iterate_headers
from ottla.wire.errors import OutOfOrderSequenceNumber

SIZE = len(batch())
FIRST = "00000000000000000000"


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


def small_segments(bench: Bench, count: int = 8) -> Log:
    bench.config = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=0)
    log = bench.open()
    for number in range(count):
        append(log, batch(timestamp=START_MS + number))
    return log


def rich(bench: Bench) -> Log:
    """A log with idempotent producers, committed, aborted and open transactions, over several segments."""
    bench.config = LogConfig(segment_bytes=450, index_interval_bytes=100)
    log = bench.open()
    append(log, produced(1, 0, 2))
    append(log, produced(2, 0, 2, transactional=True))
    append(log, batch(2), leader_epoch=1)
    append(log, produced(3, 0, 1, transactional=True), leader_epoch=1)
    end_transaction(log, 2, commit=False)
    append(log, produced(1, 2, 2), leader_epoch=2)
    end_transaction(log, 3, commit=True)
    append(log, produced(2, 2, 1, transactional=True), leader_epoch=2)
    append(log, produced(1, 4, 1), leader_epoch=2)
    return log


def summary(log: Log) -> dict[str, object]:
    """The state that a load must restore."""
    return {
        "records": read_all(log),
        "end": log.log_end_offset,
        "size": log.size_bytes,
        "epochs": log.epochs.entries,
        "producers": {
            entry.producer_id: (
                entry.epoch,
                entry.last_sequence,
                entry.last_offset,
                entry.transaction_first_offset,
            )
            for entry in log.producers.entries.values()
        },
        "aborted": log.aborted_transactions(0, 10**6),
        "undecided": log.producers.first_undecided_offset,
        "times": [segment.max_timestamp for segment in log.segments],
        "newest": log.offset_of_max_timestamp(),
    }


@pytest.mark.parametrize("clean", [True, False])
def test_a_reopened_log_is_what_it_was(bench: Bench, clean: bool) -> None:
    log = rich(bench)
    before = summary(log)
    log = bench.reopen(log, clean=clean)
    assert summary(log) == before
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(1, 6))
    assert append(log, produced(1, 4)).duplicate
    end_transaction(log, 2, commit=False)
    assert log.last_stable_offset == log.log_end_offset


@pytest.mark.parametrize("point", range(14))
def test_any_recovery_point_leads_to_the_same_log(bench: Bench, point: int) -> None:
    log = rich(bench)
    before = summary(log)
    log.close(clean=False)
    log = bench.open(clean=False, recovery_point=point)
    assert summary(log) == before
    assert log.recovery_point == min(point, log.log_end_offset)


def test_after_a_clean_stop_nothing_is_scanned(bench: Bench) -> None:
    log = rich(bench)
    reports: list[tuple[str, int, int]] = []
    log = bench.reopen(log, progress=lambda *report: reports.append(report))
    assert reports == []
    assert log.recovery_point == log.log_end_offset


def test_a_long_scan_reports_its_progress(bench: Bench) -> None:
    log = bench.open()
    for _ in range(4):
        append(log, batch(value=bytes(900_000)))
    reports: list[tuple[str, int, int]] = []
    bench.reopen(log, clean=False, progress=lambda *report: reports.append(report))
    assert [path for path, _, _ in reports] == [bench.directory] * len(reports)
    assert len(reports) >= 3
    assert reports == sorted(reports)
    assert reports[-1][1] == reports[-1][2] > 3_600_000


def test_the_tail_is_truncated_to_the_last_complete_batch_wherever_the_write_stopped(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(2))
    append(log, produced(1, 0, 3))
    whole = log.size_bytes
    append(log, produced(1, 3, 2))
    log.close(clean=False)
    path = bench.path(f"{FIRST}.log")
    data = path.read_bytes()
    for size in range(whole, len(data)):
        path.write_bytes(data[:size])
        log = bench.open(clean=False)
        assert (log.log_end_offset, log.size_bytes) == (5, whole)
        assert path.stat().st_size == whole
        assert append(log, produced(1, 3, 2)).first_offset == 5
        log.close(clean=False)


def test_a_flipped_bit_in_the_unflushed_tail_ends_the_log_there(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(2))
    whole = log.size_bytes
    append(log, batch(2))
    append(log, batch(2))
    log.close(clean=False)
    path = bench.path(f"{FIRST}.log")
    data = path.read_bytes()
    epoch_bytes = range(whole + 12, whole + 16)  # not covered by the checksum, and every value is possible
    for position in range(whole, whole + (len(data) - whole) // 2):
        if position in epoch_bytes:
            continue
        damaged = bytearray(data)
        damaged[position] ^= 0x80
        path.write_bytes(damaged)
        log = bench.open(clean=False)
        # The checksum does not cover the base offset: a larger one still follows the batch before it.
        assert log.log_end_offset == 2 or position < whole + 8
        assert offsets(log)[:2] == [0, 1]
        log.close(clean=False)


def test_a_flipped_bit_in_flushed_bytes_is_an_error_and_truncates_nothing(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(2))
    first = log.size_bytes
    append(log, batch(2))
    append(log, batch(2))
    log.close(clean=False)
    path = bench.path(f"{FIRST}.log")
    data = bytearray(path.read_bytes())
    data[first + 70] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogDamaged) as caught:
        bench.open(clean=False, recovery_point=4)
    assert (caught.value.path, caught.value.position, caught.value.offset) == (str(path), first, 2)
    for word in (str(path), f"byte {first}", "offset 2", "crc", "flushed", "Restore"):
        assert word in str(caught.value)
    assert path.read_bytes() == data
    log = bench.open(clean=False, recovery_point=2)
    assert log.log_end_offset == 2


def test_a_flushed_log_that_is_too_short_is_an_error(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(2))
    append(log, batch(2))
    log.flush()
    log.close(clean=False)
    path = bench.path(f"{FIRST}.log")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LogDamaged, match="incomplete"):
        bench.open(clean=False, recovery_point=4)


def test_after_a_clean_stop_a_torn_end_is_an_error(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(2))
    log.flush()
    log.close()
    path = bench.path(f"{FIRST}.log")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LogDamaged, match="ends beyond the file"):
        bench.open(clean=True, recovery_point=2)


def test_losing_records_below_the_log_start_is_no_damage(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(4))
    log.increase_log_start_offset(4, "test")
    assert log.recovery_point == 0
    log.close(clean=False)
    bench.path(f"{FIRST}.log").write_bytes(b"torn")
    log = bench.open(clean=False, recovery_point=4, log_start_offset=4)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    assert append(log, batch()).first_offset == 4


def test_after_truncation_into_a_flushed_batch_a_torn_tail_is_no_damage(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(2))
    log.flush()
    log.truncate_to(1)
    assert log.recovery_point == 0
    append(log, batch(2))
    log.close(clean=False)
    path = bench.path(f"{FIRST}.log")
    path.write_bytes(path.read_bytes()[:-1])
    log = bench.open(clean=False, recovery_point=log.recovery_point)
    assert log.log_end_offset == 0


def test_producers_of_deleted_segments_survive_a_crash(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0, 3))
    append(log, produced(2, 0, transactional=True))
    log.roll()
    append(log, batch())
    log.increase_log_start_offset(4, "test")
    log.delete_old_segments(START_MS)
    log = bench.reopen(log, clean=False)
    assert [segment.base_offset for segment in log.segments] == [4]
    assert append(log, produced(1, 0, 3)).duplicate
    assert log.has_ongoing_transaction(2, 0)


def test_segments_after_a_torn_one_are_dropped(bench: Bench) -> None:
    log = small_segments(bench)
    log.close(clean=False)
    middle = bench.path("00000000000000000003.log")
    middle.write_bytes(middle.read_bytes()[:-5])
    log = bench.open(clean=False)
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert bench.names(".log.deleted") == ["00000000000000000006.log.deleted"]
    log.delete_due(START_MS + 10**9)
    assert bench.names(".deleted") == []
    append(log, batch())
    assert offsets(bench.reopen(log, clean=False)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "zeros", "short"])
def test_damaged_indexes_are_rebuilt(bench: Bench, suffix: str, clean: bool, damage: str) -> None:
    log = small_segments(bench)
    before = summary(log)
    times = [log.offset_for_timestamp(START_MS + number) for number in range(8)]
    log.flush()
    log.close()
    for base in (0, 6):
        path = bench.path(f"{base:020d}{suffix}")
        if damage == "missing":
            path.unlink()
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "garbage":
            path.write_bytes(b"\xff" * path.stat().st_size)
        elif damage == "zeros":
            path.write_bytes(bytes(10_000_000 // 24 * 24))
        else:
            path.write_bytes(path.read_bytes()[:-3])
    log = bench.open(clean=clean, recovery_point=8)
    for offset in range(8):
        data = log.read(offset, 1, limit_offset=8).records
        assert [header.base_offset for _, header in iterate_headers(data)] == [offset]
    assert [log.offset_for_timestamp(START_MS + number) for number in range(8)] == times
    append(log, batch(timestamp=START_MS + 8))
    assert offsets(log) == list(range(9))
    if damage == "missing":
        assert summary(log)["times"][:2] == before["times"][:2]  # type: ignore[index]


@pytest.mark.parametrize("damage", ["missing", "garbage", "short"])
def test_damaged_snapshots_are_rebuilt_from_the_log(bench: Bench, damage: str) -> None:
    log = rich(bench)
    before = summary(log)
    log.flush()
    log.close()
    for name in bench.names(".snapshot"):
        path = bench.path(name)
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(b"\xff" * 60 if damage == "garbage" else path.read_bytes()[:-1])
    log = bench.open(clean=True, recovery_point=log.log_end_offset)
    assert summary(log) == before


@pytest.mark.parametrize("text", [None, "", "0\n1\n", "nonsense\n", "0\n9\n0 0\n"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_epoch_checkpoint_is_rebuilt_from_the_log(
    bench: Bench, clean: bool, text: str | None
) -> None:
    log = rich(bench)
    before = summary(log)
    log.flush()
    log.close()
    path = bench.path("leader-epoch-checkpoint")
    good = path.read_text()
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    log = bench.open(clean=clean, recovery_point=log.log_end_offset)
    assert summary(log) == before
    log.close()
    assert path.read_text() == good


def test_epochs_are_found_again_after_a_truncation_that_the_checkpoint_did_not_see(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(4), leader_epoch=3)
    append(log, batch(4), leader_epoch=5)
    log.flush()
    log.truncate_to(0)
    append(log, batch(), leader_epoch=4)
    append(log, batch(), leader_epoch=5)
    before = list(log.epochs.entries)
    log = bench.reopen(log, clean=False)
    assert log.epochs.entries == before == [(4, 0), (5, 1)]


def test_epochs_beyond_the_end_are_forgotten(bench: Bench) -> None:
    log = small_segments(bench)
    log.assign_epoch_start_offset(7, 8)
    log = bench.reopen(log)
    assert log.epochs.latest_epoch == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_transaction_index_is_rebuilt(bench: Bench, clean: bool) -> None:
    log = rich(bench)
    before = summary(log)
    log.flush()
    log.close()
    (name,) = bench.names(".txnindex")
    path = bench.path(name)
    path.write_bytes(path.read_bytes()[:-4])
    log = bench.open(clean=clean, recovery_point=log.log_end_offset)
    assert summary(log) == before
    assert path.stat().st_size == 34


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_no_bit_flips_unseen_in_a_transaction_index(bench: Bench, policy: str) -> None:
    """Its entries have no checksum, but the batches that they name must be there."""
    bench.config = LogConfig(cleanup_policy=frozenset((policy,)), segment_bytes=700, index_interval_bytes=100)
    log = bench.open()
    append(log, produced(0x70, 0, 2, transactional=True))
    append(log, batch(3))
    append(log, produced(0x80, 0, 3, transactional=True))
    end_transaction(log, 0x70, commit=False)  # the other one is open
    append(log, produced(0x70, 2, 2, transactional=True))
    end_transaction(log, 0x80, commit=False)
    end_transaction(log, 0x70, commit=True)
    while len(log.segments) == 1:
        append(log, batch())
    ends = range(log.log_end_offset + 1)
    before = [log.aborted_transactions(first, end) for end in ends for first in range(end)]
    log.flush()
    log.close()
    (name,) = bench.names(".txnindex")
    path = bench.path(name)
    good = path.read_bytes()
    assert len(good) == 2 * 34
    for bit in range(len(good) * 8):
        changed = bytearray(good)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        log = bench.open(clean=True, recovery_point=log.log_end_offset)
        found = [log.aborted_transactions(first, end) for end in ends for first in range(end)]
        assert found == before, f"bit {bit % 8} of byte {bit // 8} of an entry's {len(good)}"
        log.close()
        assert path.read_bytes() == good


def test_a_transaction_that_began_before_the_log_does_now_is_no_contradiction(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.config = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=0)
    log = bench.open()
    append(log, produced(7, 0, transactional=True))
    append(log, produced(8, 0, transactional=True))
    for _ in range(4):
        append(log, batch())
    end_transaction(log, 7, commit=False)
    end_transaction(log, 8, commit=False)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert [entry.last_stable_offset for entry in aborted] == [1, 8], (
        "the second was open when the first ended"
    )
    log.increase_log_start_offset(5, "test")
    log.delete_old_segments(START_MS)
    assert log.segments[0].base_offset > 1
    log = bench.reopen(log)
    assert log.aborted_transactions(5, log.log_end_offset) == aborted
    assert "rebuilding" not in caplog.text


def test_files_of_an_interrupted_change_are_removed(bench: Bench) -> None:
    log = small_segments(bench)
    log.flush()
    log.close()
    for name in (
        f"{FIRST}.log.deleted",
        "00000000000000000099.index",
        "00000000000000000099.timeindex",
        "00000000000000000003.log.cleaned",
        "00000000000000000005.log.swap",
        "00000000000000000007.snapshot.tmp",
        "leader-epoch-checkpoint.tmp",
    ):
        bench.path(name).write_bytes(b"left over")
    bench.path("00000000000000000005-0000000001.checkpoint.deleted").write_bytes(b"the quorum's, not ours")
    before = bench.names(".log")
    log = bench.open(clean=False, recovery_point=8)
    assert offsets(log) == list(range(8))
    assert bench.names(".log") == before
    for suffix in (".log.deleted", ".cleaned", ".swap", ".tmp"):
        assert bench.names(suffix) == []
    assert "00000000000000000099.index" not in bench.names()
    assert bench.names(".checkpoint.deleted") != []


def test_snapshots_without_a_segment_are_removed_except_the_last(bench: Bench) -> None:
    log = small_segments(bench)
    log.flush()
    log.close()
    good = bench.path("00000000000000000008.snapshot").read_bytes()
    bench.path("00000000000000000004.snapshot").write_bytes(good)
    bench.open(clean=True, recovery_point=8)
    assert bench.names(".snapshot") == [f"{base:020d}.snapshot" for base in (3, 6, 8)]


def test_a_log_that_ends_before_its_start_begins_anew(bench: Bench) -> None:
    log = small_segments(bench)
    log.flush()
    log.close()
    log = bench.open(clean=True, recovery_point=8, log_start_offset=20)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (20, 20, 1)
    assert log.epochs.entries == []
    append(log, batch())
    assert offsets(bench.reopen(log)) == [20]


def test_the_log_start_is_at_least_the_first_segment(bench: Bench) -> None:
    log = small_segments(bench)
    log.increase_log_start_offset(4, "test")
    log.delete_old_segments(START_MS)
    log = bench.reopen(log, log_start_offset=0)
    assert log.log_start_offset == 3
    log = bench.reopen(log, log_start_offset=5)
    assert log.log_start_offset == 5
    assert offsets(log) == [5, 6, 7]


def test_a_new_log_begins_at_its_start_offset(bench: Bench) -> None:
    log = bench.open(log_start_offset=12)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (12, 12, 12)
    assert append(log, batch()).first_offset == 12


def message(magic: int, offset: int, value: bytes) -> bytes:
    """One message of format v0 or v1, as old brokers wrote them."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", START_MS + offset) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_old_formats_are_read_and_recovered(bench: Bench) -> None:
    for magic in (0, 1):
        directory = Path(bench.directory)
        directory.mkdir(exist_ok=True)
        for name in directory.iterdir():
            name.unlink()
        messages = [message(magic, offset, b"v%d" % offset) for offset in range(5)]
        (directory / f"{FIRST}.log").write_bytes(b"".join(messages))
        log = bench.open(clean=False)
        assert log.log_end_offset == 5
        assert [record.value for record in read_all(log)] == [b"v0", b"v1", b"v2", b"v3", b"v4"]
        data = log.read(3, 1, limit_offset=5).records
        assert [header.base_offset for _, header in iterate_headers(data)] == [3]
        append(log, batch())
        log = bench.reopen(log)
        assert offsets(log) == [0, 1, 2, 3, 4, 5]
        log.close(clean=False)


@given(st.data())
def test_whatever_is_in_the_unflushed_tail_a_log_opens_with_a_prefix_of_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    bench = Bench(tmp_path_factory.mktemp("log"), LogConfig(segment_bytes=500, index_interval_bytes=100))
    log = bench.open()
    written: list[tuple[int, bytes | None]] = []
    for number in range(data.draw(st.integers(1, 12), label="batches")):
        appended = append(log, batch(data.draw(st.integers(1, 4)), value=b"%d" % number))
        written.extend(
            (offset, b"%d" % number) for offset in range(appended.first_offset, appended.last_offset + 1)
        )
    flushed = data.draw(st.sampled_from([segment.base_offset for segment in log.segments]), label="flushed")
    log.close(clean=False)
    for name in bench.names():
        if not name[:20].isdigit() or int(name[:20]) < flushed:
            continue
        path = bench.path(name)
        content = bytearray(path.read_bytes())
        action = data.draw(st.sampled_from(["keep", "cut", "flip", "extend", "remove"]), label=name)
        if action == "cut":
            content = content[: data.draw(st.integers(0, len(content)))]
        elif action == "flip" and content:
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        elif action == "extend":
            content += data.draw(st.binary(max_size=80))
        if action == "remove" and not name.endswith(".log"):
            path.unlink()
        else:
            path.write_bytes(content)
    log = bench.open(clean=False, recovery_point=flushed)
    found = [(record.offset, record.value) for record in read_all(log)]
    survivors = len(found)
    # The checksum does not cover offsets: a flipped bit can only move the last batch.
    assert [value for _, value in found] == [value for _, value in written[:survivors]]
    assert survivors >= sum(offset < flushed for offset, _ in written)
    append(log, batch(value=b"after"))
    log = bench.reopen(log)
    assert [record.value for record in read_all(log)] == [value for _, value in found] + [b"after"]
    bench.close()


def test_a_scan_rebuilds_the_index_files_as_they_were_before_the_crash(bench: Bench) -> None:
    """An index that was preallocated, as Kafka leaves it after a crash, is full of zeros."""
    log = small_segments(bench)
    log.close(clean=False)
    bench.path("00000000000000000006.index").write_bytes(struct.pack(">ii", 1, SIZE) + bytes(80_000))
    log = bench.open(clean=False, recovery_point=8)
    assert bench.path("00000000000000000006.index").stat().st_size == 8
    assert offsets(log) == list(range(8))


def test_segments_after_an_unflushed_one_that_a_crash_emptied_are_dropped(bench: Bench) -> None:
    log = bench.open(config=LogConfig(segment_bytes=500))
    for number in range(20):
        append(log, batch(value=b"%d" % number))
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) >= 3
    log.close(clean=False)
    bench.path(f"{bases[1]:020}.log").write_bytes(b"")
    log = bench.open(clean=False, recovery_point=bases[1], config=LogConfig(segment_bytes=500))
    assert log.log_end_offset == bases[1]
    assert [record.offset for record in read_all(log)] == list(range(bases[1]))
    log.close(clean=False)


def test_a_damaged_marker_among_flushed_batches_is_damage(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(7, 0, transactional=True))
    end_transaction(log, 7, commit=False)
    log.flush()
    log.close(clean=True)
    path = bench.path(f"{FIRST}.log")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for snapshot in bench.names(".snapshot"):
        bench.path(snapshot).write_bytes(b"")  # so that the batches are decoded
    with pytest.raises(LogDamaged, match="crc"):
        bench.open(clean=True, recovery_point=2)


def test_a_batch_whose_offset_is_too_large_is_damage_when_indexes_are_rebuilt(bench: Bench) -> None:
    log = bench.open(config=LogConfig(index_interval_bytes=1))
    for _ in range(4):
        append(log, batch())
    log.flush()
    log.close(clean=True)
    path = bench.path(f"{FIRST}.log")
    content = bytearray(path.read_bytes())
    content[0] ^= 1  # of the base offset, which no checksum covers
    path.write_bytes(content)
    for suffix in (".index", ".timeindex"):
        bench.path(f"{FIRST}{suffix}").unlink()
    with pytest.raises(LogDamaged, match="does not belong to this segment"):
        bench.open(clean=True, recovery_point=4)
