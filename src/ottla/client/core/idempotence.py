"""Sequence numbers: how an idempotent producer's batches are written once and in order, whatever is lost.

Each partition counts its records; the broker takes a batch only if its first number follows the last one that
it has. The rules, as Kafka's clients keep them (KIP-98, 360):

- A batch keeps its sequence while it is tried again, and batches of a partition are tried again in order.
- No more batches of a partition are in doubt than a broker remembers, also where some are on their way to the
  leader before: one that it has, and does not remember, is refused for ever.
- A gap that cannot be filled (a batch was given up and may have been written) ends the
  producer's epoch: a new one starts every partition that is affected at 0.
- Batches under an old epoch are answered before a partition sends under the new one.
- Until a partition has acknowledged a batch of this producer id, one batch is on its way to it: a broker that
  knows nothing of a producer takes any first number. Were the first batch refused for a moment and the second
  one taken, the first could never follow, nor be written in its place.
- Numbers go round at 2^31, so they are compared by `comes_before` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.records.batch import decrement_sequence, increment_sequence
from ottla.wire.errors import ErrorCode, for_code

if TYPE_CHECKING:
    from ottla.client.core.accumulator import Batch

EPOCH_MAX = 0x7FFF - 1
"""The last epoch that a client uses before it takes another producer id."""

BATCHES_REMEMBERED = 5
"""The number of recent batches that a broker remembers per producer and partition, to detect duplicates."""


def comes_before(first: int, second: int) -> bool:
    """Whether a sequence precedes another. Sequences wrap around, and those in use are close together."""
    return 0 < (second - first) & 0x7FFF_FFFF < 0x4000_0000


class PartitionSequences:
    """The sequences of one partition."""

    __slots__ = (
        "epoch",
        "in_flight",
        "is_known",
        "last_acked_offset",
        "last_acked_sequence",
        "next_sequence",
        "producer_id",
        "unresolved_last_sequence",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.last_acked_offset = -1
        self.in_flight: list[Batch] = []
        """Batches with a sequence that are not done, by sequence: in flight, or waiting for a retry."""
        self.is_known = False
        """Whether the partition has acknowledged a batch of this producer id, and so checks sequences."""
        self.unresolved_last_sequence: int | None = None
        """The last sequence of a batch that failed but may have been written."""

    def begin(self, producer_id: int, epoch: int) -> None:
        """Restart at 0 under a new producer epoch; batches that are not done get new sequences."""
        self.is_known = self.is_known and producer_id == self.producer_id
        self.producer_id, self.epoch = producer_id, epoch
        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.unresolved_last_sequence = None
        for batch in self.in_flight:
            batch.producer_id, batch.producer_epoch = producer_id, epoch
            batch.sequence = self.next_sequence
            batch.is_reset = True
            self.next_sequence = increment_sequence(self.next_sequence, batch.count)

    def resume(self, sequence: int) -> None:
        """Continue with this sequence: another producer of the same epoch has written those before it."""
        assert not self.in_flight, "batches in flight already have sequences"
        self.next_sequence = sequence
        self.last_acked_sequence = sequence - 1 if sequence else -1
        self.is_known = self.is_known or sequence > 0
        self.unresolved_last_sequence = None

    def give(self, batch: Batch) -> None:
        """Assign sequences to a batch that is sent for the first time."""
        batch.producer_id, batch.producer_epoch = self.producer_id, self.epoch
        batch.sequence = self.next_sequence
        self.next_sequence = increment_sequence(self.next_sequence, batch.count)
        self.add(batch)

    def add(self, batch: Batch) -> None:
        position = len(self.in_flight)
        while position and comes_before(batch.sequence, self.in_flight[position - 1].sequence):
            position -= 1
        self.in_flight.insert(position, batch)

    def remove(self, batch: Batch) -> None:
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    def acknowledge(self, batch: Batch) -> None:
        """The broker has acknowledged the batch."""
        self.remove(batch)
        if (batch.producer_id, batch.producer_epoch) != (self.producer_id, self.epoch):
            return
        self.is_known = True
        last = increment_sequence(batch.sequence, batch.count - 1)
        if self.last_acked_sequence < 0 or comes_before(self.last_acked_sequence, last):
            self.last_acked_sequence = last
        if batch.base_offset >= 0:
            self.last_acked_offset = max(self.last_acked_offset, batch.base_offset + batch.count - 1)

    def is_next(self, batch: Batch) -> bool:
        """Whether the batch follows the last acknowledged one."""
        return batch.sequence == increment_sequence(self.last_acked_sequence, 1)

    def close_gap(self, batch: Batch) -> None:
        """A batch was rejected for good and never written: those behind it move up."""
        for later in self.in_flight:
            if comes_before(batch.sequence, later.sequence):
                later.sequence = decrement_sequence(later.sequence, batch.count)
                later.is_reset = True
        self.next_sequence = decrement_sequence(self.next_sequence, batch.count)

    def leave_unresolved(self, batch: Batch) -> None:
        """A batch failed, and may have been written."""
        last = increment_sequence(batch.sequence, batch.count - 1)
        known = self.unresolved_last_sequence
        if known is None or comes_before(known, last):
            self.unresolved_last_sequence = last


class Idempotence:
    """The producer id and epoch, and the sequences of all partitions."""

    def __init__(self, *, transactional: bool = False) -> None:
        self.producer_id = -1
        self.epoch = -1
        self.transactional = transactional
        self.partitions: list[PartitionSequences] = []
        self.epoch_bump_wanted = False
        self._to_renumber: list[PartitionSequences] = []

    @property
    def has_id(self) -> bool:
        return self.producer_id >= 0

    def set_id(self, producer_id: int, epoch: int) -> None:
        """Set a producer id, new or with another epoch. A transactional producer restarts all sequences."""
        assert producer_id >= 0, "a response without a producer id is retried"
        self.producer_id, self.epoch = producer_id, epoch
        if self.transactional:
            for sequences in self.partitions:
                if not sequences.in_flight:
                    sequences.begin(producer_id, epoch)
        self.epoch_bump_wanted = False
        for sequences in self._to_renumber:
            sequences.begin(producer_id, epoch)
        self._to_renumber.clear()

    def sequences(self) -> PartitionSequences:
        """The sequences of a new partition."""
        made = PartitionSequences(self.producer_id, self.epoch)
        self.partitions.append(made)
        return made

    def may_send(self, sequences: PartitionSequences, batch: Batch) -> bool:
        """Whether the first batch of a partition's queue may be sent now."""
        if not self.has_id or sequences in self._to_renumber:
            return False
        in_flight = sequences.in_flight
        if batch.sequence >= 0:
            # It is tried again: in order, so it waits until it is the first of all that are not done.
            return in_flight[0] is batch
        if (sequences.producer_id, sequences.epoch) != (self.producer_id, self.epoch):
            if in_flight:
                return False
            sequences.begin(self.producer_id, self.epoch)
        if sequences.unresolved_last_sequence is not None or (in_flight and not sequences.is_known):
            return False
        # While one is to be tried again nothing new overtakes it.
        return len(in_flight) < BATCHES_REMEMBERED and all(one.is_in_flight for one in in_flight)

    @property
    def has_unresolved(self) -> bool:
        """Whether a partition has a gap that only a new epoch closes."""
        return any(sequences.unresolved_last_sequence is not None for sequences in self.partitions)

    def resolve_unresolved(self) -> None:
        """Once everything in flight is answered, a gap is either filled or ends the epoch."""
        for sequences in self.partitions:
            if sequences.unresolved_last_sequence is None or sequences.in_flight:
                continue
            if sequences.last_acked_sequence == sequences.unresolved_last_sequence:
                sequences.unresolved_last_sequence = None
            elif not self.transactional:
                self.want_epoch(sequences)

    def want_epoch(self, sequences: PartitionSequences) -> None:
        """This partition has a gap: request a new epoch, in which it restarts at 0."""
        self.epoch_bump_wanted = True
        if sequences not in self._to_renumber:
            self._to_renumber.append(sequences)

    @property
    def may_bump(self) -> bool:
        """Whether a new epoch is needed, and no batch in flight would get new sequences."""
        return (
            self.epoch_bump_wanted
            and self.has_id
            and not any(
                batch.is_in_flight for sequences in self._to_renumber for batch in sequences.in_flight
            )
        )

    def bump(self) -> bool:
        """Take the next epoch; False if a new producer id is needed."""
        if self.epoch >= EPOCH_MAX:
            self.producer_id = self.epoch = -1
            return False
        self.set_id(self.producer_id, self.epoch + 1)
        return True

    def may_retry(
        self, sequences: PartitionSequences, batch: Batch, code: int, log_start_offset: int
    ) -> bool:
        """Whether a rejected batch may be retried, and what must change before that."""
        is_unresolved = sequences.unresolved_last_sequence is not None
        is_current = (batch.producer_id, batch.producer_epoch) == (self.producer_id, self.epoch)
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset < 0 or batch.is_reset:
                return True
            if sequences.last_acked_offset < log_start_offset:
                # Retention removed what the broker knew of this producer.
                if self.transactional:
                    sequences.begin(self.producer_id, self.epoch)
                elif is_current:
                    self.want_epoch(sequences)
                return True
            if not self.transactional:
                if is_current:
                    self.want_epoch(sequences)
                return True
            return False
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if not is_unresolved and (batch.is_reset or not sequences.is_next(batch)):
                return True  # one before it is still to come
            if not self.transactional:
                after = increment_sequence(sequences.unresolved_last_sequence or 0, 1)
                if is_current and (not is_unresolved or batch.sequence == after):
                    self.want_epoch(sequences)
                return True
            return False
        return for_code(code).retriable

    def failed(self, sequences: PartitionSequences, batch: Batch, code: int, *, was_refused: bool) -> None:
        """A batch has failed. `was_refused`: the broker rejected it, so it was not written."""
        sequences.remove(batch)
        if batch.sequence < 0:
            return
        if code == ErrorCode.UNKNOWN_PRODUCER_ID and self.transactional:
            sequences.begin(self.producer_id, self.epoch)
        elif was_refused:
            if self.transactional:
                sequences.close_gap(batch)
            else:
                self.want_epoch(sequences)
        else:
            sequences.leave_unresolved(batch)
