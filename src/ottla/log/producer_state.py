"""What a partition remembers of each idempotent or transactional producer, and the `.snapshot` layout.

For every producer: its epoch, the last five batches (so that a retry gets the offsets of the first time), and
where its open transaction began. The rule: `check` decides and changes nothing, `apply` changes the state and
cannot refuse; between them the batch is written, so the state is never ahead of the file.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from ottla.log.transactions import CompletedTransaction, Marker, OpenTransactions
from ottla.ports import Buffer
from ottla.records.batch import (
    CONTROL_BIT,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MAX,
    TRANSACTIONAL_BIT,
    BatchHeader,
    decrement_sequence,
    increment_sequence,
)
from ottla.records.validate import Origin
from ottla.wire.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)

logger = logging.getLogger("ottla.log.producer_state")

BATCHES_KEPT = 5
_LATE_TRANSACTION_MS = 5 * 60 * 1000
_EPOCH_MAX = 32767
_KIND_BITS = TRANSACTIONAL_BIT | CONTROL_BIT

_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_CRC_END = 6


class RememberedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)


class ProducerEntry:
    """One producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_first_offset: int | None = None,
        batches: Iterable[RememberedBatch] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches: deque[RememberedBatch] = deque(batches, BATCHES_KEPT)

    @property
    def first_sequence(self) -> int:
        return self.batches[0].first_sequence if self.batches else NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    @property
    def newest_timestamp(self) -> int:
        """Clients choose timestamps, so the last batch may bear an older one than those before it."""
        return max(self.last_timestamp, *(batch.timestamp for batch in self.batches), NO_TIMESTAMP)

    def duplicate_of(self, base_sequence: int, last_sequence: int) -> RememberedBatch | None:
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                return batch
        return None

    def remember(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        """A batch of its transaction, or of none, is in the log."""
        facts = (last_sequence, last_offset, offset_delta, timestamp)
        self.batches.append(tuple.__new__(RememberedBatch, facts))  # half the time of a call of the class
        self.last_timestamp = timestamp

    def __repr__(self) -> str:
        return (
            f"ProducerEntry(producer_id={self.producer_id}, epoch={self.epoch}, "
            f"last_sequence={self.last_sequence}, last_offset={self.last_offset}, "
            f"transaction_first_offset={self.transaction_first_offset})"
        )


class VerificationGuard:
    """Identifies one verification of a transaction with its coordinator; only the latest guard is valid."""

    __slots__ = ()


class _Verification:
    """A transactional append that waits for its coordinator, and the lowest sequence that waits."""

    __slots__ = ("epoch", "guard", "lowest_sequence", "started_ms", "supports_epoch_bump")

    def __init__(self, started_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.started_ms = started_ms
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def lower(self, sequence: int, epoch: int) -> None:
        """A lower sequence must be appended before a higher one, or it would stay out of order."""
        if epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence


class ProducerStates:
    """All producers of one partition, as of `end_offset`."""

    __slots__ = (
        "_name",
        "_verifications",
        "end_offset",
        "entries",
        "expiration_ms",
        "transactions",
        "verify",
    )

    def __init__(self, name: str, *, expiration_ms: int, verify: bool = False) -> None:
        self._name = name
        self.expiration_ms = expiration_ms
        self.verify = verify
        """Whether a transaction's first append is verified with its coordinator."""
        self.entries: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self.end_offset = 0
        self._verifications: dict[int, _Verification] = {}

    # ---- questions

    @property
    def first_undecided_offset(self) -> int | None:
        return self.transactions.first_undecided_offset

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        """A newer epoch than the stored one means that the stored transaction is over."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset is not None and entry.epoch == epoch

    def has_late_transaction(self, now_ms: int, timeout_ms_max: int) -> bool:
        """Whether the oldest open transaction should have timed out long ago."""
        producer_id = next(iter(self.transactions.ongoing.values()), None)
        entry = self.entries.get(producer_id) if producer_id is not None else None
        if entry is None or entry.last_timestamp <= 0:
            return False
        return now_ms - entry.last_timestamp > timeout_ms_max + _LATE_TRANSACTION_MS

    # ---- the leader's checks

    def check(
        self,
        header: BatchHeader,
        offset: int,
        origin: Origin,
        *,
        marker: Marker | None = None,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> RememberedBatch | None:
        """Whether the leader may append the batch at `offset`: an exception says no.

        Returns the batch of which this one is a retry, so that its offsets are the answer.
        """
        entry = self.entries.get(header.producer_id)
        is_client = origin == Origin.CLIENT
        if entry is not None and is_client and self._is_next(header, entry):
            return None
        if is_client and entry is not None and header.producer_epoch == entry.epoch:
            duplicate = entry.duplicate_of(header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
        if header.is_control:
            if marker is not None:
                self._check_marker(header, entry, offset, origin, marker, transaction_version)
            return None
        if header.is_transactional:
            self._check_verified(header, entry, guard)
        self._check_epoch(header, entry, offset, origin)
        if is_client:
            self._check_sequence(header, entry, offset)
        if entry is not None and entry.transaction_first_offset is not None and not header.is_transactional:
            raise InvalidTxnState(
                f"Expected transactional write from producer {header.producer_id} at offset {offset} "
                f"in partition {self._name}"
            )
        return None

    def next_of(self, producer_id: int, epoch: int, base_sequence: int) -> ProducerEntry | None:
        """The entry of a producer without a transaction, if its next batch has this epoch and sequence."""
        entry = self.entries.get(producer_id)
        if (
            entry is not None
            and entry.epoch == epoch
            and entry.transaction_first_offset is None
            and not self._verifications
            and entry.batches
            and entry.batches[-1].last_sequence + 1 == base_sequence
        ):
            return entry
        return None

    def _is_next(self, header: BatchHeader, entry: ProducerEntry) -> bool:
        """A fast check of the common case: the next batch of a producer, in the same transaction state."""
        kind = header.attributes & _KIND_BITS
        is_open = entry.transaction_first_offset is not None
        return (
            header.producer_epoch == entry.epoch
            and bool(entry.batches)
            and header.base_sequence == entry.batches[-1].last_sequence + 1
            and kind == (TRANSACTIONAL_BIT if is_open else 0)
            and not self._verifications
        )

    def _check_verified(
        self, header: BatchHeader, entry: ProducerEntry | None, guard: VerificationGuard | None
    ) -> None:
        if self.has_ongoing_transaction(header.producer_id, header.producer_epoch):
            return
        if entry is not None and header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(_stale_epoch(header.producer_id, header.producer_epoch, entry.epoch))
        if not self.verify:
            return
        verification = self._verifications.get(header.producer_id)
        if verification is None or verification.guard is not guard:
            raise InvalidTxnState("Record was not part of an ongoing transaction")

    def _check_epoch(
        self,
        header: BatchHeader,
        entry: ProducerEntry | None,
        offset: int,
        origin: Origin,
        transaction_version: int = -1,
    ) -> None:
        current = NO_PRODUCER_EPOCH if entry is None else entry.epoch
        epoch = header.producer_epoch
        strict = transaction_version >= 2  # then every marker carries an epoch that was never written with
        if not (epoch <= current if strict else epoch < current):
            return
        is_over = entry is None or entry.transaction_first_offset is None
        if strict and epoch == current and (is_over or epoch == _EPOCH_MAX):
            return  # the coordinator retries a marker that was written already
        message = (
            f"Epoch of producer {header.producer_id} at offset {offset} in {self._name} is {epoch}, "
            f"which is {'<=' if strict else '<'} the last seen epoch {current} (TV{transaction_version})"
        )
        if origin != Origin.REPLICATION:
            raise InvalidProducerEpoch(message)
        logger.warning("%s", message)

    def _check_sequence(self, header: BatchHeader, entry: ProducerEntry | None, offset: int) -> None:
        base_sequence = header.base_sequence
        verification = self._verifications.get(header.producer_id)
        where = f"producer {header.producer_id} at offset {offset} in partition {self._name}: "
        if verification is not None:
            is_unknown = entry is None or not entry.batches
            if verification.supports_epoch_bump and base_sequence != 0 and is_unknown:
                raise OutOfOrderSequenceNumber(
                    f"Invalid sequence number for {where}{base_sequence} (incoming seq. number). Expected "
                    f"sequence 0 for transactions v2 idempotent producer with no existing state."
                )
            if base_sequence > verification.lowest_sequence:
                raise OutOfOrderSequenceNumber(
                    f"Out of order sequence number for {where}{base_sequence} (incoming seq. number), "
                    f"{verification.lowest_sequence} (earliest seen sequence)"
                )
        if entry is None or entry.epoch == NO_PRODUCER_EPOCH:
            return  # the log has no batch of this producer any more: any sequence may follow
        if header.producer_epoch != entry.epoch:
            if base_sequence != 0:
                raise OutOfOrderSequenceNumber(
                    f"Invalid sequence number for new epoch of {where}{header.producer_epoch} (request "
                    f"epoch), {base_sequence} (seq. number), {entry.epoch} (current producer epoch)"
                )
            return
        last_sequence = entry.last_sequence
        if base_sequence == last_sequence + 1 or (base_sequence == 0 and last_sequence == SEQUENCE_MAX):
            return
        raise OutOfOrderSequenceNumber(
            f"Out of order sequence number for {where}{base_sequence} (incoming seq. number), "
            f"{last_sequence} (current end sequence number)"
        )

    def _check_marker(
        self,
        header: BatchHeader,
        entry: ProducerEntry | None,
        offset: int,
        origin: Origin,
        marker: Marker,
        transaction_version: int,
    ) -> None:
        self._check_epoch(header, entry, offset, origin, transaction_version)
        current = -1 if entry is None else entry.coordinator_epoch
        if current > marker.coordinator_epoch and origin != Origin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"Invalid coordinator epoch for producerId {header.producer_id} at offset {offset} in "
                f"partition {self._name}: {marker.coordinator_epoch} (zombie), {current} (current)"
            )

    # ---- changes

    def apply(
        self, header: BatchHeader, base_offset: int, max_timestamp: int, marker: Marker | None = None
    ) -> CompletedTransaction | None:
        """The batch is in the log. Returns the transaction that it ends, which the caller then completes."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if header.is_control and marker is None:
            return None  # an empty control batch: compaction took the marker
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, epoch=header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        if header.attributes & TRANSACTIONAL_BIT and self._verifications:
            self._end_verification(header, marker)
        if marker is not None:
            return self._end_transaction(entry, base_offset, marker)
        delta = header.last_offset_delta
        last_sequence = NO_SEQUENCE
        if header.base_sequence >= 0:
            last_sequence = increment_sequence(header.base_sequence, delta)
        entry.remember(last_sequence, base_offset + delta, delta, max_timestamp)
        if header.attributes & TRANSACTIONAL_BIT and entry.transaction_first_offset is None:
            entry.transaction_first_offset = base_offset
            self.transactions.begin(producer_id, base_offset)
        return None

    def _end_verification(self, header: BatchHeader, marker: Marker | None) -> None:
        """End a verification, because a write has begun the transaction, or a marker has ended it.

        Except for a marker of protocol 2: it has the epoch of the next transaction, whose first write may be
        waiting with that epoch.
        """
        waiting = self._verifications.get(header.producer_id)
        if waiting is None:
            return
        is_next = waiting.supports_epoch_bump and waiting.epoch == header.producer_epoch
        if marker is None or not is_next:
            del self._verifications[header.producer_id]

    def _end_transaction(
        self, entry: ProducerEntry, offset: int, marker: Marker
    ) -> CompletedTransaction | None:
        first_offset = entry.transaction_first_offset
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        entry.transaction_first_offset = None
        if first_offset is None:
            return None  # a marker without records: no reader waits for it
        return CompletedTransaction(entry.producer_id, first_offset, offset, marker.is_abort)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Begin to verify a transaction's first append; None: it is open already, nothing needs verifying."""
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise InvalidProducerEpoch(_stale_epoch(producer_id, epoch, entry.epoch))
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = _Verification(now_ms, sequence, epoch, supports_epoch_bump)
            self._verifications[producer_id] = verification
        verification.lower(sequence, epoch)
        return verification.guard

    def expire(self, now_ms: int) -> None:
        """Forget producers and verifications that were idle for too long."""
        idle = [producer_id for producer_id, entry in self.entries.items() if self._is_expired(entry, now_ms)]
        for producer_id in idle:
            del self.entries[producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.started_ms >= self.expiration_ms:
                del self._verifications[producer_id]

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        is_idle = now_ms - entry.newest_timestamp >= self.expiration_ms
        return is_idle and entry.transaction_first_offset is None

    def restore(self, entries: Iterable[ProducerEntry], end_offset: int, now_ms: int) -> None:
        """Start over from a snapshot taken at `end_offset`: see `encode_snapshot` for its entries."""
        whole: dict[int, ProducerEntry] = {}
        for entry in entries:
            earlier = whole.get(entry.producer_id)
            if earlier is not None and earlier.epoch == entry.epoch:
                entry.batches = deque((*earlier.batches, *entry.batches), BATCHES_KEPT)
            whole[entry.producer_id] = entry
        # A producer expires with all its batches: without the last ones, their retries would count as new.
        self.entries = {
            producer_id: entry for producer_id, entry in whole.items() if not self._is_expired(entry, now_ms)
        }
        self.transactions.restore(
            {
                entry.transaction_first_offset: entry.producer_id
                for entry in self.entries.values()
                if entry.transaction_first_offset is not None
            }
        )
        self.end_offset = end_offset


def _stale_epoch(producer_id: int, epoch: int, current: int) -> str:
    return f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {current}"


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a `.snapshot` file.

    An entry has room for one batch. A producer may have several requests in flight when a node stops, and
    retries them at the next leader, so each of its earlier batches gets an entry of its own before the last:
    Kafka, which writes the last one alone, uses the last entry of a producer.
    """
    body = bytearray()
    count = 0
    for entry in entries:
        for batch in list(entry.batches)[:-1]:
            body += _SNAPSHOT_ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                batch.timestamp,
                entry.coordinator_epoch,
                -1,
            )
            count += 1
        first_offset = entry.transaction_first_offset
        body += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if first_offset is None else first_offset,
        )
        count += 1
    data = bytearray(_SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, 0, count)) + body
    data[2:_CRC_END] = crc32c(bytes(data[_CRC_END:])).to_bytes(4, "big")
    return bytes(data)


def decode_snapshot(data: Buffer) -> list[ProducerEntry]:
    """The entries of a `.snapshot`, unchanged; ValueError says why it is not valid."""
    try:
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    except struct.error:
        raise ValueError(f"{len(data)} bytes are too short for its header") from None
    if version != _SNAPSHOT_VERSION:
        raise ValueError(f"its version is {version}, not {_SNAPSHOT_VERSION}")
    if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise ValueError(f"it declares {count} producers, which do not fit its {len(data)} bytes")
    if crc != crc32c(bytes(data[_CRC_END:])):
        raise ValueError("its checksum does not match")
    entries = []
    for fields in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset = (
            fields
        )
        batches = (RememberedBatch(last_sequence, last_offset, delta, timestamp),) if last_offset >= 0 else ()
        entries.append(
            ProducerEntry(
                producer_id,
                epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                last_timestamp=timestamp,
                transaction_first_offset=first_offset if first_offset >= 0 else None,
                batches=batches,
            )
        )
    return entries
