"""Sequence, epoch and transaction rules of one partition, and the snapshot of them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.support import START_MS, marker, produced

from ottla.log.producer_state import (
    ProducerEntry,
    ProducerStates,
    RememberedBatch,
    decode_snapshot,
    encode_snapshot,
)
from ottla.log.recovery import marker_of
from ottla.log.transactions import CompletedTransaction
from ottla.records.batch import SEQUENCE_MAX, BatchHeader, read_header
from ottla.records.validate import Origin
from ottla.wire.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)

PRODUCER = 42
DAY_MS = 86_400_000


class Partition:
    """Checks and applies batches one after the other, as a log does."""

    def __init__(self, *, verify: bool = False) -> None:
        self.states = ProducerStates("t-0", expiration_ms=DAY_MS, verify=verify)
        self.end_offset = 0

    def append(
        self,
        sequence: int,
        count: int = 1,
        *,
        origin: Origin = Origin.CLIENT,
        guard: object = None,
        **options: Any,
    ) -> RememberedBatch | None:
        header = read_header(produced(PRODUCER, sequence, count, **options))
        earlier = self.states.check(header, self.end_offset, origin, guard=guard)  # type: ignore[arg-type]
        if earlier is None:
            self.states.apply(header, self.end_offset, header.max_timestamp)
            self.end_offset += count
        return earlier

    def end(
        self,
        *,
        commit: bool = True,
        transaction_version: int = 0,
        origin: Origin = Origin.COORDINATOR,
        **options: int,
    ) -> CompletedTransaction | None:
        buffer = marker(PRODUCER, commit=commit, **options)
        header: BatchHeader = read_header(buffer)
        says = marker_of(buffer, 0, header)
        self.states.check(
            header, self.end_offset, origin, marker=says, transaction_version=transaction_version
        )
        completed = self.states.apply(header, self.end_offset, header.max_timestamp, says)
        self.end_offset += 1
        if completed is not None:
            self.states.transactions.complete(completed)
        return completed

    @property
    def entry(self) -> ProducerEntry:
        return self.states.entries[PRODUCER]


def test_sequences_must_follow_each_other() -> None:
    partition = Partition()
    partition.append(0, 3)
    partition.append(3, 2)
    for sequence in (6, 4, 100):
        with pytest.raises(OutOfOrderSequenceNumber, match=f"{sequence} \\(incoming seq. number\\), 4 "):
            partition.append(sequence, 7)
    assert partition.entry.last_sequence == 4
    assert partition.end_offset == 5


def test_a_retry_of_one_of_the_last_five_batches_gets_its_old_offsets() -> None:
    partition = Partition()
    for sequence in range(0, 14, 2):
        assert partition.append(sequence, 2) is None
    for sequence in range(4, 14, 2):
        earlier = partition.append(sequence, 2)
        assert earlier is not None
        assert (earlier.first_offset, earlier.last_offset) == (sequence, sequence + 1)
    with pytest.raises(OutOfOrderSequenceNumber):
        partition.append(2, 2)
    with pytest.raises(OutOfOrderSequenceNumber):
        partition.append(12, 1)  # begins like a known batch but has another end


def test_sequences_start_again_at_zero_after_the_largest() -> None:
    partition = Partition()
    partition.append(SEQUENCE_MAX - 1, 2)
    assert partition.entry.last_sequence == SEQUENCE_MAX
    partition.append(0, 1)
    partition.append(1, 1)
    earlier = partition.append(SEQUENCE_MAX - 1, 2)
    assert earlier is not None
    assert earlier.first_offset == 0


def test_a_batch_may_span_the_largest_sequence() -> None:
    partition = Partition()
    partition.append(SEQUENCE_MAX - 1, 5)
    assert partition.entry.last_sequence == 2
    assert partition.entry.first_sequence == SEQUENCE_MAX - 1
    assert partition.append(SEQUENCE_MAX - 1, 5) is not None
    partition.append(3)


def test_an_unknown_producer_may_start_at_any_sequence() -> None:
    partition = Partition()
    partition.append(77)
    partition.append(78)


def test_an_older_epoch_is_refused_and_a_newer_one_starts_at_zero() -> None:
    partition = Partition()
    partition.append(0, epoch=3)
    with pytest.raises(InvalidProducerEpoch, match="is 2, which is < the last seen epoch 3"):
        partition.append(1, epoch=2)
    with pytest.raises(OutOfOrderSequenceNumber, match="new epoch"):
        partition.append(1, epoch=4)
    partition.append(0, epoch=4)
    assert partition.entry.epoch == 4
    assert len(partition.entry.batches) == 1


def test_coordinators_write_without_sequences() -> None:
    partition = Partition()
    partition.append(-1, origin=Origin.COORDINATOR, transactional=True)
    partition.append(-1, origin=Origin.COORDINATOR, transactional=True)
    assert partition.entry.last_sequence == -1
    with pytest.raises(InvalidProducerEpoch):
        partition.append(-1, origin=Origin.COORDINATOR, transactional=True, epoch=-1)


def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker() -> None:
    partition = Partition()
    partition.append(0, 2)
    partition.append(2, 3, transactional=True)
    partition.append(5, 1, transactional=True)
    assert partition.entry.transaction_first_offset == 2
    assert partition.states.has_ongoing_transaction(PRODUCER, 0)
    assert not partition.states.has_ongoing_transaction(PRODUCER, 1)
    assert partition.end(commit=False) == CompletedTransaction(PRODUCER, 2, 6, True)
    assert partition.entry.transaction_first_offset is None
    assert partition.end(commit=True) is None
    partition.append(6)


def test_a_plain_batch_within_a_transaction_is_refused() -> None:
    partition = Partition()
    partition.append(0, transactional=True)
    with pytest.raises(InvalidTxnState, match="Expected transactional write"):
        partition.append(1)


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    partition = Partition()
    partition.append(0, transactional=True)
    partition.end(coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced, match="4 \\(zombie\\), 5 \\(current\\)"):
        partition.end(coordinator_epoch=4)
    partition.end(coordinator_epoch=4, origin=Origin.REPLICATION)
    assert partition.entry.coordinator_epoch == 4


def test_a_marker_of_an_older_producer_epoch_is_refused() -> None:
    partition = Partition()
    partition.append(0, transactional=True, epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        partition.end(epoch=1)
    partition.end(epoch=2)


def test_with_transaction_version_2_a_marker_needs_a_newer_epoch_unless_it_is_a_retry() -> None:
    partition = Partition()
    partition.append(0, transactional=True, epoch=2)
    with pytest.raises(InvalidProducerEpoch, match=r"<= the last seen epoch 2 \(TV2\)"):
        partition.end(epoch=2, transaction_version=2)
    assert partition.end(epoch=3, transaction_version=2) is not None
    assert partition.end(epoch=3, transaction_version=2) is None
    with pytest.raises(InvalidProducerEpoch):
        partition.end(epoch=1, transaction_version=2)


def test_a_marker_with_a_new_epoch_clears_the_sequences() -> None:
    partition = Partition()
    partition.append(0, 3, transactional=True)
    partition.end(epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        partition.append(3, transactional=True, epoch=0)
    partition.append(0, transactional=True, epoch=1)


def test_the_first_append_of_a_transaction_needs_the_guard_of_its_verification() -> None:
    partition = Partition(verify=True)
    with pytest.raises(InvalidTxnState, match="not part of an ongoing transaction"):
        partition.append(0, transactional=True)
    guard = partition.states.start_verification(PRODUCER, 0, 0, supports_epoch_bump=False, now_ms=0)
    assert guard is not None
    with pytest.raises(InvalidTxnState):
        partition.append(0, transactional=True, guard=object())
    partition.append(0, transactional=True, guard=guard)
    partition.append(1, transactional=True)
    assert partition.states.start_verification(PRODUCER, 2, 0, supports_epoch_bump=False, now_ms=0) is None
    partition.end(commit=False)
    with pytest.raises(InvalidTxnState):
        partition.append(2, transactional=True, guard=guard)
    with pytest.raises(InvalidProducerEpoch):
        partition.states.start_verification(PRODUCER, 0, -1, supports_epoch_bump=False, now_ms=0)


def test_the_marker_of_a_v2_transaction_leaves_the_next_one_to_be_verified() -> None:
    """The next transaction's first write may come before the marker, which has its epoch."""
    partition = Partition(verify=True)
    guard = partition.states.start_verification(PRODUCER, 0, 0, supports_epoch_bump=True, now_ms=0)
    partition.append(0, transactional=True, guard=guard)
    following = partition.states.start_verification(PRODUCER, 0, 1, supports_epoch_bump=True, now_ms=0)
    partition.end(commit=False, epoch=1, transaction_version=2)
    partition.append(0, transactional=True, epoch=1, guard=following)


@pytest.mark.parametrize(("epoch", "is_v2"), [(0, True), (1, False)])
def test_a_marker_ends_every_other_verification(epoch: int, is_v2: bool) -> None:
    partition = Partition(verify=True)
    guard = partition.states.start_verification(PRODUCER, 0, epoch, supports_epoch_bump=is_v2, now_ms=0)
    partition.end(commit=False, epoch=1, transaction_version=2 if is_v2 else 0)
    with pytest.raises((InvalidTxnState, InvalidProducerEpoch)):
        partition.append(0, transactional=True, epoch=epoch, guard=guard)


def test_while_a_lower_sequence_waits_for_verification_a_higher_one_may_not_pass() -> None:
    partition = Partition(verify=True)
    states = partition.states
    states.start_verification(PRODUCER, 5, 0, supports_epoch_bump=False, now_ms=0)
    guard = states.start_verification(PRODUCER, 3, 0, supports_epoch_bump=False, now_ms=0)
    with pytest.raises(OutOfOrderSequenceNumber, match="3 \\(earliest seen sequence\\)"):
        partition.append(5, transactional=True, guard=guard)
    partition.append(3, transactional=True, guard=guard)


def test_a_transaction_v2_producer_without_state_starts_at_zero() -> None:
    partition = Partition(verify=True)
    guard = partition.states.start_verification(PRODUCER, 4, 0, supports_epoch_bump=True, now_ms=0)
    with pytest.raises(OutOfOrderSequenceNumber, match="Expected sequence 0"):
        partition.append(4, transactional=True, guard=guard)


def test_idle_producers_expire_unless_a_transaction_is_open() -> None:
    partition = Partition()
    partition.append(0, timestamp=START_MS)
    partition.states.expire(START_MS + DAY_MS - 1)
    assert PRODUCER in partition.states.entries
    partition.append(1, timestamp=START_MS, transactional=True)
    partition.states.expire(START_MS + DAY_MS)
    assert PRODUCER in partition.states.entries
    assert partition.states.has_late_transaction(START_MS + 400_000, 60_000)
    assert not partition.states.has_late_transaction(START_MS + 300_000, 60_000)
    partition.end(timestamp=START_MS)
    partition.states.expire(START_MS + DAY_MS)
    assert not partition.states.entries
    assert not partition.states.has_late_transaction(START_MS + DAY_MS, 0)


def test_stale_verifications_expire() -> None:
    partition = Partition(verify=True)
    guard = partition.states.start_verification(PRODUCER, 0, 0, supports_epoch_bump=False, now_ms=0)
    partition.states.expire(DAY_MS)
    with pytest.raises(InvalidTxnState):
        partition.append(0, transactional=True, guard=guard)


ENTRIES = st.builds(
    ProducerEntry,
    st.integers(0, 2**62),
    epoch=st.integers(0, 32767),
    coordinator_epoch=st.integers(-1, 100),
    last_timestamp=st.integers(-1, 2**50),
    transaction_first_offset=st.none() | st.integers(0, 2**50),
    batches=st.lists(
        st.builds(
            RememberedBatch,
            st.integers(0, SEQUENCE_MAX),
            st.integers(0, 2**50),
            st.integers(0, 1000),
            st.integers(-1, 2**50),
        ),
        max_size=6,
    ),
)


@given(st.lists(ENTRIES, max_size=5, unique_by=lambda entry: entry.producer_id))
def test_a_snapshot_has_each_producer_with_its_last_batches(entries: list[ProducerEntry]) -> None:
    states = ProducerStates("t-0", expiration_ms=2**60)
    states.restore(decode_snapshot(encode_snapshot(entries)), 0, 0)
    assert list(states.entries) == [entry.producer_id for entry in entries]
    for before, after in zip(entries, states.entries.values(), strict=True):
        assert after.epoch == before.epoch
        assert after.coordinator_epoch == before.coordinator_epoch
        assert after.last_timestamp == before.last_timestamp
        assert after.transaction_first_offset == before.transaction_first_offset
        assert [one[:3] for one in after.batches] == [one[:3] for one in before.batches]


@given(st.lists(ENTRIES, max_size=5, unique_by=lambda entry: entry.producer_id))
def test_the_last_entry_of_a_producer_is_what_kafka_writes(
    entries: list[ProducerEntry],
) -> None:
    stored = decode_snapshot(encode_snapshot(entries))
    last = {entry.producer_id: entry for entry in stored}
    assert len(last) == len(entries)
    for before in entries:
        after = last[before.producer_id]
        assert after.last_sequence == before.last_sequence
        assert after.last_offset == before.last_offset
        assert after.last_timestamp == before.last_timestamp
        assert after.transaction_first_offset == before.transaction_first_offset
        of_it = [one for one in stored if one.producer_id == before.producer_id]
        assert all(one.transaction_first_offset is None for one in of_it[:-1])


def test_a_snapshot_does_not_restore_batches_of_an_earlier_epoch() -> None:
    states = ProducerStates("t-0", expiration_ms=2**60)
    old = ProducerEntry(7, epoch=1, last_timestamp=5, batches=[RememberedBatch(3, 10, 0, 5)])
    new = ProducerEntry(7, epoch=2, last_timestamp=6, batches=[RememberedBatch(0, 11, 0, 6)])
    states.restore([old, new], 12, 0)
    assert list(states.entries[7].batches) == [RememberedBatch(0, 11, 0, 6)]


def test_the_snapshot_layout_is_version_1_crc_and_46_bytes_a_producer() -> None:
    entry = ProducerEntry(7, epoch=2, coordinator_epoch=3, last_timestamp=99, transaction_first_offset=50)
    entry.batches.append(RememberedBatch(11, 60, 4, 99))
    data = encode_snapshot([entry])
    assert data[:2] == b"\x00\x01"
    assert data[6:] == struct.pack(">iqhiqiqiq", 1, 7, 2, 11, 60, 4, 99, 3, 50)


@given(st.data())
def test_a_snapshot_with_any_flipped_bit_is_refused(data: st.DataObject) -> None:
    sound = bytearray(encode_snapshot([ProducerEntry(1), ProducerEntry(2)]))
    bit = data.draw(st.integers(0, len(sound) * 8 - 1))
    sound[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ValueError):
        decode_snapshot(bytes(sound))


def test_a_snapshot_truncated_at_any_byte_is_refused() -> None:
    sound = encode_snapshot([ProducerEntry(1)])
    for size in range(len(sound)):
        with pytest.raises(ValueError):
            decode_snapshot(sound[:size])


def test_expired_producers_are_not_restored() -> None:
    states = ProducerStates("t-0", expiration_ms=DAY_MS)
    old = ProducerEntry(1, epoch=0, last_timestamp=START_MS - DAY_MS)
    held = ProducerEntry(2, epoch=0, last_timestamp=START_MS - DAY_MS, transaction_first_offset=9)
    new = ProducerEntry(3, epoch=0, last_timestamp=START_MS)
    states.restore([old, held, new], 100, START_MS)
    assert set(states.entries) == {2, 3}
    assert states.end_offset == 100
    assert states.first_undecided_offset == 9


@pytest.mark.parametrize("ages", [(0, 2), (2, 0), (2, 0, 2), (0, 2, 2, 2, 2)])
def test_a_producer_expires_with_all_its_batches_by_the_newest_one(ages: tuple[int, ...]) -> None:
    """Clients choose timestamps: a retry is recognized after a restart, whatever their order is."""
    partition = Partition()
    for sequence, days in enumerate(ages):
        partition.append(sequence, timestamp=START_MS - days * DAY_MS)
    before = partition.states.entries[PRODUCER]
    restored = ProducerStates("t-0", expiration_ms=DAY_MS)
    entries = decode_snapshot(encode_snapshot(partition.states.entries.values()))
    restored.restore(entries, partition.end_offset, START_MS)
    assert list(restored.entries[PRODUCER].batches) == list(before.batches)
    partition.states.expire(START_MS)
    assert PRODUCER in partition.states.entries
    restored.restore(decode_snapshot(encode_snapshot([before])), partition.end_offset, START_MS + DAY_MS)
    assert restored.entries == {}
    partition.states.expire(START_MS + DAY_MS)
    assert partition.states.entries == {}
