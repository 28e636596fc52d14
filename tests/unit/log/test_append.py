"""Appending to a log: offsets, epochs, idempotence, transactions, rolling, failures."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from tests.unit.log.support import (
    START_MS,
    Bench,
    FaultyDisk,
    append,
    batch,
    end_transaction,
    marker,
    produced,
    read_all,
    records_of,
)

from ottla.log.config import LogConfig
from ottla.log.log import Log, UnexpectedAppendOffset
from ottla.log.replicated_batches import OffsetsOutOfOrder
from ottla.log.segment import Segment
from ottla.ports import Disk
from ottla.records.batch import Codec, iterate_headers, read_header, set_base_offset, set_leader_epoch
from ottla.records.record import Record, build_batch
from ottla.records.validate import Origin
from ottla.wire.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    KafkaStorageError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)


def given_batch(base_offset: int, count: int = 1, *, epoch: int = 0, **options: Any) -> bytearray:
    """A batch as a leader's log contains it."""
    data = bytearray(batch(count, **options))
    set_base_offset(data, 0, base_offset)
    set_leader_epoch(data, 0, epoch)
    return data


def test_offsets_are_assigned_one_after_the_other(bench: Bench) -> None:
    log = bench.open()
    first = append(log, batch(3), leader_epoch=7)
    second = append(log, batch(2), leader_epoch=7)
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset) == (3, 4)
    assert first.log_append_time_ms == -1
    assert first.max_timestamp == START_MS
    assert not first.duplicate
    assert log.log_end_offset == 5
    assert log.size_bytes == first.size_bytes + second.size_bytes == log.active_segment.size_bytes
    data = log.read(0, 1 << 20, limit_offset=5).records
    assert [(h.base_offset, h.partition_leader_epoch) for _, h in iterate_headers(data)] == [(0, 7), (3, 7)]
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3, 4]


def test_the_log_append_time_is_written_and_returned(bench: Bench) -> None:
    log = bench.open(config=LogConfig(message_timestamp_type="LogAppendTime"))
    appended = append(log, batch(2, timestamp=5), now_ms=START_MS + 9)
    assert appended.log_append_time_ms == appended.max_timestamp == START_MS + 9
    assert {record.timestamp for record in read_all(log)} == {START_MS + 9}
    assert log.active_segment.max_timestamp == START_MS + 9


def test_a_refused_batch_changes_nothing(bench: Bench) -> None:
    log = bench.open(config=LogConfig(max_message_bytes=200))
    append(log, batch())
    before = bench.path("00000000000000000000.log").read_bytes()
    broken = bytearray(batch())
    broken[-1] ^= 1
    with pytest.raises(CorruptMessage):
        append(log, memoryview(broken))
    with pytest.raises(MessageTooLarge):
        append(log, batch(value=bytes(300)))
    assert log.log_end_offset == 1
    assert bench.path("00000000000000000000.log").read_bytes() == before


def test_a_batch_larger_than_a_segment_is_refused(bench: Bench) -> None:
    log = bench.open(config=LogConfig(segment_bytes=100))
    with pytest.raises(RecordListTooLarge, match="maximum configured segment size of 100"):
        append(log, batch(value=bytes(100)))
    assert log.log_end_offset == 0


def test_a_new_leader_epoch_is_remembered_where_it_begins(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(3), leader_epoch=1)
    append(log, batch(), leader_epoch=1)
    append(log, batch(), leader_epoch=4)
    assert log.epochs.entries == [(1, 0), (4, 4)]
    log.flush()
    assert bench.path("leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n4 4\n"
    assert log.end_offset_for_epoch(1) == (1, 4)
    assert log.end_offset_for_epoch(4) == (4, 5)


def test_a_retry_gets_the_old_offsets_and_is_not_written(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(5))
    first = append(log, produced(1, 0, 3))
    append(log, produced(1, 3, 2))
    size = log.size_bytes
    again = append(log, produced(1, 0, 3))
    assert again.duplicate
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset) == (5, 7)
    assert again.log_append_time_ms == START_MS
    assert (log.size_bytes, log.log_end_offset) == (size, 10)


def test_a_gap_in_the_sequence_is_refused_and_changes_nothing(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0))
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(1, 2))
    assert log.log_end_offset == 1
    append(log, produced(1, 1))


def test_an_open_transaction_holds_the_last_stable_offset(bench: Bench) -> None:
    log = bench.open()
    append(log, batch(2))
    append(log, produced(1, 0, 2, transactional=True))
    append(log, batch())
    assert log.first_unstable_offset == 2
    assert (log.last_stable_offset, log.high_watermark) == (2, 5)
    end_transaction(log, 1, commit=True)
    assert log.first_unstable_offset is None
    assert log.last_stable_offset == log.log_end_offset == 6


def test_a_marker_counts_only_once_it_is_below_the_high_watermark(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0, transactional=True))
    watermark = log.high_watermark
    log.append(produced(1, 1, transactional=True), leader_epoch=0, now_ms=START_MS)
    end = marker(1, commit=True)
    log.append(end, leader_epoch=0, now_ms=START_MS, origin=Origin.COORDINATOR)
    assert log.high_watermark == watermark
    assert log.last_stable_offset == 0
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3


def test_aborted_transactions_are_found_by_what_they_touch(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0, 2, transactional=True))
    append(log, produced(2, 0, 2, transactional=True))
    end_transaction(log, 1, commit=False)
    end_transaction(log, 2, commit=True)
    append(log, produced(1, 2, transactional=True))
    end_transaction(log, 1, commit=False)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert [(a.producer_id, a.first_offset, a.last_offset, a.last_stable_offset) for a in aborted] == [
        (1, 0, 4, 2),
        (1, 6, 7, 8),
    ]
    assert [a.first_offset for a in log.aborted_transactions(5, 8)] == [6]
    read = log.read(0, 1 << 20, limit_offset=log.last_stable_offset)
    assert log.aborted_in(read, 0) == aborted
    assert log.aborted_in(log.locate(0, 1 << 20, limit_offset=log.last_stable_offset), 0) == aborted
    assert log.aborted_in(log.read(8, 10, limit_offset=8), 8) == []


def test_a_producer_of_an_older_epoch_is_fenced(bench: Bench) -> None:
    log = bench.open()
    append(log, produced(1, 0, epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        append(log, produced(1, 1, epoch=0))


def roll_sizes(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_it_rolls_when_the_segment_is_full(bench: Bench) -> None:
    size = len(batch())
    log = bench.open(config=LogConfig(segment_bytes=2 * size))
    for _ in range(5):
        append(log, batch())
    assert roll_sizes(log) == [0, 2, 4]
    assert bench.names(".log") == [f"{base:020d}.log" for base in (0, 2, 4)]
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3, 4]


def test_it_rolls_by_the_time_between_first_and_new_batch(bench: Bench) -> None:
    log = bench.open(config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=START_MS))
    append(log, batch(timestamp=START_MS + 1000))
    assert roll_sizes(log) == [0]
    append(log, batch(timestamp=START_MS + 1001))
    assert roll_sizes(log) == [0, 2]


def test_rolling_by_time_continues_after_a_restart(bench: Bench) -> None:
    log = bench.open(config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=START_MS))
    log = bench.reopen(log, config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=START_MS + 1001))
    assert roll_sizes(log) == [0, 1]


def test_without_timestamps_it_rolls_by_the_clock(bench: Bench) -> None:
    log = bench.open(config=LogConfig(segment_ms=1000))
    timeless = [Record(0, -1, None, b"x")]
    append(log, memoryview(build_batch(timeless)), now_ms=START_MS)
    append(log, memoryview(build_batch(timeless)), now_ms=START_MS + 1000)
    assert roll_sizes(log) == [0]
    append(log, memoryview(build_batch(timeless)), now_ms=START_MS + 1001)
    assert roll_sizes(log) == [0, 2]


def test_jitter_makes_it_roll_earlier(bench: Bench) -> None:
    class Half:
        def bytes(self, count: int) -> bytes:
            return bytes(count)

        def below(self, bound: int) -> int:
            return bound // 2

        def fraction(self) -> float:
            return 0.5

    log = bench.open(config=LogConfig(segment_ms=1000, segment_jitter_ms=400), random=Half())
    append(log, batch(timestamp=START_MS))
    append(log, batch(timestamp=START_MS + 801))
    assert roll_sizes(log) == [0, 1]


def test_it_rolls_when_an_index_is_full(bench: Bench) -> None:
    log = bench.open(config=LogConfig(segment_index_bytes=36, index_interval_bytes=0))
    for number in range(8):
        append(log, batch(timestamp=START_MS + number))
    # The time index has two places before the one that the roll needs; the first batch has no entry.
    assert roll_sizes(log) == [0, 3, 6]


def test_it_rolls_when_offsets_no_longer_fit_the_index(bench: Bench) -> None:
    log = bench.open()
    log.append_as_follower(memoryview(given_batch(0)))
    log.append_as_follower(memoryview(given_batch(2**31 - 1)))
    assert roll_sizes(log) == [0]
    log.append_as_follower(memoryview(given_batch(2**31)))
    assert roll_sizes(log) == [0, 2**31]
    assert [record.offset for record in read_all(log)] == [0, 2**31 - 1, 2**31]


def test_a_full_disk_for_an_index_does_not_stop_appends(bench: Bench) -> None:
    log = bench.open(config=LogConfig(segment_index_bytes=4))
    append(log, batch())
    append(log, batch())
    assert [record.offset for record in read_all(log)] == [0, 1]


def test_the_broker_may_recompress(bench: Bench) -> None:
    log = bench.open(config=LogConfig(compression_type="gzip"))
    append(log, batch(20, codec=Codec.LZ4, value=b"a" * 50))
    data = log.read(0, 1 << 20, limit_offset=20).records
    assert read_header(data).codec == Codec.GZIP
    assert [record.value for record in read_all(log)] == [b"a" * 50] * 20


# ---- followers and Raft


def test_a_follower_takes_offsets_and_epochs_as_they_are(bench: Bench) -> None:
    log = bench.open()
    data = given_batch(5, 2, epoch=3) + given_batch(9, 1, epoch=4) + given_batch(10)[:20]
    appended = log.append_as_follower(memoryview(data))
    assert (appended.first_offset, appended.last_offset, log.log_end_offset) == (5, 9, 10)
    assert log.epochs.entries == [(3, 5), (4, 9)]
    assert [record.offset for record in read_all(log, 0)] == [5, 6, 9]


def test_a_follower_that_wrote_a_part_keeps_only_the_epochs_of_that_part(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [given_batch(offset, epoch=3 + offset) for offset in range(3)]
    log = bench.open(config=LogConfig(segment_bytes=len(data[0]) + 1))
    create = Segment.create

    def create_once(disk: Disk, directory: str, base_offset: int, *others: Any, **named: Any) -> Segment:
        if base_offset > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return create(disk, directory, base_offset, *others, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "create", create_once)
        with pytest.raises(OSError, match="No space left"):
            log.append_as_follower(memoryview(bytearray().join(data)))
    assert (log.log_end_offset, log.epochs.entries) == (2, [(3, 0), (4, 1)])
    log.append_as_follower(memoryview(data[2]))
    assert (log.log_end_offset, log.epochs.entries) == (3, [(3, 0), (4, 1), (5, 2)])


def test_a_follower_skips_batches_of_later_epochs(bench: Bench) -> None:
    log = bench.open()
    data = given_batch(0, epoch=3) + given_batch(1, epoch=4)
    assert log.append_as_follower(memoryview(data), leader_epoch=3).last_offset == 0
    nothing = log.append_as_follower(memoryview(given_batch(1, epoch=4)), leader_epoch=3)
    assert nothing.size_bytes == 0
    assert log.log_end_offset == 1


def test_a_follower_refuses_offsets_that_go_back(bench: Bench) -> None:
    log = bench.open()
    log.append_as_follower(memoryview(given_batch(0, 3)))
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(memoryview(given_batch(2)))
    with pytest.raises(OffsetsOutOfOrder):
        log.append_as_follower(memoryview(given_batch(5) + given_batch(5)))
    with pytest.raises(CorruptMessage, match=str(2**63 - 1)):
        log.append_as_follower(memoryview(given_batch(2**63 - 1)))
    broken = given_batch(9)
    broken[-1] ^= 1
    with pytest.raises(CorruptMessage):
        log.append_as_follower(memoryview(broken))
    assert log.log_end_offset == 3


def test_a_follower_learns_producers_and_transactions(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    leader = bench.open()
    append(leader, produced(1, 0, 2, transactional=True))
    append(leader, produced(2, 0, 2, transactional=True))
    end_transaction(leader, 1, commit=False)
    append(leader, produced(3, 0))
    end_transaction(leader, 2, commit=True)
    data = leader.read(0, 1 << 20, limit_offset=leader.log_end_offset).records
    other = Bench(tmp_path_factory.mktemp("follower"))
    follower = other.open()
    follower.append_as_follower(memoryview(data))
    assert follower.first_unstable_offset == 0
    follower.set_high_watermark(leader.log_end_offset)
    assert follower.last_stable_offset == leader.last_stable_offset
    assert follower.aborted_transactions(0, 99) == leader.aborted_transactions(0, 99)
    assert repr(follower.producers.entries) == repr(leader.producers.entries)
    other.close()


def test_a_raft_leader_brings_batches_with_offsets_and_its_epoch(bench: Bench) -> None:
    log = bench.open()
    data = given_batch(0, 2, epoch=5) + given_batch(2, epoch=5)
    appended = log.append(memoryview(data), leader_epoch=5, now_ms=START_MS, origin=Origin.RAFT_LEADER)
    assert (appended.first_offset, appended.last_offset) == (0, 2)
    assert log.epochs.entries == [(5, 0)]
    with pytest.raises(InvalidRecord, match="expected 5 but the batch has 4"):
        log.append(
            memoryview(given_batch(3, epoch=4)), leader_epoch=5, now_ms=START_MS, origin=Origin.RAFT_LEADER
        )


# ---- failures


def disk_of(bench: Bench) -> FaultyDisk:
    assert isinstance(bench.disk, FaultyDisk)
    return bench.disk


def test_a_full_disk_refuses_the_append_and_leaves_the_log_as_it_was(faulty: Bench) -> None:
    log = faulty.open()
    append(log, produced(1, 0))
    before = faulty.path("00000000000000000000.log").read_bytes()
    disk_of(faulty).fail_on("write", ".log", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        append(log, produced(1, 1, 5))
    assert faulty.path("00000000000000000000.log").read_bytes() == before
    assert (log.log_end_offset, log.size_bytes, log.failure) == (1, len(before), None)
    disk_of(faulty).heal()
    assert append(log, produced(1, 1, 5)).first_offset == 1
    assert len(read_all(faulty.reopen(log))) == 6


def test_if_a_partial_write_cannot_be_truncated_nothing_is_written_after_it(faulty: Bench) -> None:
    log = faulty.open()
    append(log, batch())
    disk_of(faulty).fault = lambda operation, path: errno.EIO if operation in ("write", "truncate") else 0
    with pytest.raises(OSError, match="Input/output"):
        append(log, batch())
    disk_of(faulty).heal()
    with pytest.raises(KafkaStorageError, match="rejects writes after a disk error"):
        append(log, batch())
    with pytest.raises(KafkaStorageError):
        log.flush()
    assert [record.offset for record in read_all(log)] == [0]
    assert len(read_all(faulty.reopen(log, clean=False))) == 1


@pytest.mark.parametrize(
    ("operation", "suffix"), [("create", ".log"), ("create", ".timeindex"), ("replace", ".snapshot")]
)
def test_a_roll_that_fails_leaves_the_old_segment(faulty: Bench, operation: str, suffix: str) -> None:
    size = len(batch())
    log = faulty.open(config=LogConfig(segment_bytes=size))
    append(log, batch())
    disk_of(faulty).fail_on(operation, suffix)
    with pytest.raises(OSError, match="No space"):
        append(log, batch())
    assert roll_sizes(log) == [0]
    assert log.log_end_offset == 1
    disk_of(faulty).heal()
    append(log, batch())
    assert roll_sizes(log) == [0, 1]
    assert [record.offset for record in read_all(log)] == [0, 1]


def test_a_marker_that_cannot_be_written_leaves_no_index_entry(faulty: Bench) -> None:
    log = faulty.open()
    append(log, produced(1, 0, transactional=True))
    disk_of(faulty).fail_on("write", ".log")
    with pytest.raises(OSError, match="No space"):
        end_transaction(log, 1, commit=False)
    assert log.aborted_transactions(0, 99) == []
    assert log.first_unstable_offset == 0
    disk_of(faulty).heal()
    end_transaction(log, 1, commit=False)
    assert len(log.aborted_transactions(0, 99)) == 1


def test_a_marker_whose_index_entry_cannot_be_written_is_not_written(faulty: Bench) -> None:
    log = faulty.open()
    append(log, produced(1, 0, transactional=True))
    disk_of(faulty).fail_on("create", ".txnindex")
    with pytest.raises(OSError, match="No space"):
        end_transaction(log, 1, commit=False)
    assert log.log_end_offset == 1
    disk_of(faulty).heal()
    end_transaction(log, 1, commit=False)
    assert log.last_stable_offset == 2


def test_a_follower_takes_more_at_once_than_a_segment_holds(bench: Bench) -> None:
    size = len(batch())
    log = bench.open(config=LogConfig(segment_bytes=3 * size))
    fetched = b"".join(build_batch(records_of(1), base_offset=offset, leader_epoch=0) for offset in range(8))
    log.append_as_follower(memoryview(bytearray(fetched)))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert [record.offset for record in read_all(log)] == list(range(8))
