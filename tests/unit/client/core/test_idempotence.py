"""Sequence numbers of an idempotent producer: what is sent again, in which order, and when an epoch ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.client.core.idempotence import EPOCH_MAX, Idempotence, PartitionSequences
from ottla.wire.errors import ErrorCode


def batch(count: int = 1) -> Any:
    return SimpleNamespace(
        count=count,
        sequence=-1,
        producer_id=-1,
        producer_epoch=-1,
        base_offset=-1,
        is_reset=False,
        is_in_flight=False,
    )


def started(*, transactional: bool = False) -> tuple[Idempotence, PartitionSequences]:
    idempotence = Idempotence(transactional=transactional)
    idempotence.set_id(7, 0)
    return idempotence, idempotence.sequences()


def sent(sequences: PartitionSequences, *counts: int) -> list[Any]:
    batches = [batch(count) for count in counts]
    for one in batches:
        sequences.give(one)
        one.is_in_flight = True
    return batches


def acknowledged(sequences: PartitionSequences, count: int) -> None:
    """A batch that the broker has, so that it knows the producer."""
    (one,) = sent(sequences, count)
    sequences.acknowledge(one)


def test_batches_are_numbered_by_their_records() -> None:
    _, sequences = started()
    assert [one.sequence for one in sent(sequences, 3, 1, 5)] == [0, 3, 4]
    assert sequences.next_sequence == 9


def test_numbers_start_again_at_zero_after_the_largest() -> None:
    _, sequences = started()
    sequences.next_sequence = 2**31 - 2
    first, second = sent(sequences, 3, 1)
    assert (first.sequence, second.sequence) == (2**31 - 2, 1)
    assert sequences.in_flight == [first, second]
    sequences.remove(first)
    sequences.add(first)
    assert sequences.in_flight == [first, second]
    sequences.acknowledge(first)
    sequences.acknowledge(second)
    assert sequences.last_acked_sequence == 1


def test_a_gap_before_the_largest_number_closes_behind_it() -> None:
    idempotence, sequences = started(transactional=True)
    sequences.next_sequence = 2**31 - 2
    first, second, third = sent(sequences, 3, 2, 1)
    idempotence.failed(sequences, first, ErrorCode.INVALID_RECORD, was_refused=True)
    assert (second.sequence, third.sequence, sequences.next_sequence) == (2**31 - 2, 0, 1)


def test_the_last_number_given_up_is_found_across_the_largest() -> None:
    idempotence, sequences = started()
    sequences.next_sequence = 2**31 - 2
    first, second = sent(sequences, 1, 3)
    idempotence.failed(sequences, second, -1, was_refused=False)
    idempotence.failed(sequences, first, -1, was_refused=False)
    assert sequences.unresolved_last_sequence == 1


def test_an_acknowledgement_that_comes_late_moves_nothing_back() -> None:
    _, sequences = started()
    first, second = sent(sequences, 2, 2)
    sequences.acknowledge(second)
    sequences.acknowledge(first)
    assert sequences.last_acked_sequence == 3


def test_one_batch_is_under_way_until_the_partition_knows_the_producer() -> None:
    idempotence, sequences = started()
    (first,) = sent(sequences, 2)
    assert not idempotence.may_send(sequences, batch())
    sequences.acknowledge(first)
    sent(sequences, 2)
    assert idempotence.may_send(sequences, batch()), "from then on the leader checks numbers"
    idempotence, sequences = started()
    acknowledged(sequences, 1)
    idempotence.set_id(8, 0)
    assert idempotence.may_send(sequences, batch())
    sent(sequences, 1)
    assert not idempotence.may_send(sequences, batch()), "nobody knows the other producer id"


def test_a_batch_to_be_tried_again_waits_until_it_is_the_first_and_nothing_new_overtakes_it() -> None:
    idempotence, sequences = started()
    first, second = sent(sequences, 1, 1)
    first.is_in_flight = second.is_in_flight = False
    assert idempotence.may_send(sequences, first)
    assert not idempotence.may_send(sequences, second)
    assert not idempotence.may_send(sequences, batch())
    sequences.acknowledge(first)
    assert idempotence.may_send(sequences, second)


def test_no_more_batches_are_in_doubt_than_a_broker_remembers() -> None:
    """Five may be on their way to a node that leads no more. The next leader, which has them, would forget
    the first for a sixth, and refuse it when it comes again."""
    idempotence, sequences = started()
    acknowledged(sequences, 1)
    first, *_rest = sent(sequences, 1, 1, 1, 1)
    assert idempotence.may_send(sequences, batch())
    sent(sequences, 1)
    assert not idempotence.may_send(sequences, batch())
    sequences.acknowledge(first)
    assert idempotence.may_send(sequences, batch())


def test_out_of_order_is_retried_while_an_earlier_batch_is_still_to_come() -> None:
    idempotence, sequences = started()
    first, second = sent(sequences, 1, 1)
    assert idempotence.may_retry(sequences, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert not idempotence.epoch_bump_wanted
    sequences.acknowledge(first)
    second.is_in_flight = False
    assert idempotence.may_retry(sequences, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert idempotence.epoch_bump_wanted, "it is the next one, so the broker has lost what was before it"


def test_a_new_epoch_numbers_what_is_not_done_from_zero_once_nothing_of_it_is_on_the_wire() -> None:
    idempotence, sequences = started()
    first, second = sent(sequences, 2, 3)
    idempotence.want_epoch(sequences)
    assert not idempotence.may_bump
    first.is_in_flight = second.is_in_flight = False
    assert not idempotence.may_send(sequences, first)
    assert idempotence.may_bump
    assert idempotence.bump()
    assert (idempotence.epoch, first.sequence, second.sequence) == (1, 0, 2)
    assert (first.producer_epoch, first.is_reset) == (1, True)
    assert idempotence.may_send(sequences, first)


def test_another_partition_sends_under_the_new_epoch_when_its_own_batches_are_answered() -> None:
    idempotence, sequences = started()
    other = idempotence.sequences()
    (under_way,) = sent(other, 4)
    idempotence.want_epoch(sequences)
    idempotence.bump()
    assert not idempotence.may_send(other, batch())
    other.acknowledge(under_way)
    new = batch()
    assert idempotence.may_send(other, new)
    other.give(new)
    assert (new.producer_epoch, new.sequence) == (1, 0)


def test_after_the_last_epoch_another_producer_id_is_needed() -> None:
    idempotence, sequences = started()
    idempotence.set_id(7, EPOCH_MAX)
    idempotence.want_epoch(sequences)
    assert idempotence.may_bump
    assert not idempotence.bump()
    assert not idempotence.has_id
    assert not idempotence.may_bump  # the next turn waits for the id, which brings an epoch of its own
    idempotence.set_id(8, 0)
    assert not idempotence.epoch_bump_wanted


def test_a_refused_batch_ends_the_epoch_and_within_a_transaction_closes_the_gap() -> None:
    idempotence, sequences = started()
    first, second = sent(sequences, 2, 2)
    idempotence.failed(sequences, first, ErrorCode.INVALID_RECORD, was_refused=True)
    assert idempotence.epoch_bump_wanted
    idempotence, sequences = started(transactional=True)
    first, second = sent(sequences, 2, 2)
    idempotence.failed(sequences, first, ErrorCode.INVALID_RECORD, was_refused=True)
    assert (second.sequence, sequences.next_sequence) == (0, 2)
    assert not idempotence.epoch_bump_wanted


def test_a_batch_that_was_given_up_in_doubt_holds_its_partition_until_that_is_resolved() -> None:
    idempotence, sequences = started()
    first, second = sent(sequences, 2, 2)
    idempotence.failed(sequences, first, -1, was_refused=False)
    assert not idempotence.may_send(sequences, batch())
    idempotence.resolve_unresolved()
    assert not idempotence.epoch_bump_wanted, "the second batch is not answered yet"
    sequences.acknowledge(second)
    idempotence.resolve_unresolved()
    assert idempotence.epoch_bump_wanted


def test_an_unknown_producer_after_retention_starts_again() -> None:
    idempotence, sequences = started()
    (one,) = sent(sequences, 1)
    sequences.last_acked_offset = 10
    assert idempotence.may_retry(sequences, one, ErrorCode.UNKNOWN_PRODUCER_ID, 50)
    assert idempotence.epoch_bump_wanted
    idempotence, sequences = started(transactional=True)
    (one,) = sent(sequences, 1)
    one.sequence = sequences.next_sequence = 40
    assert idempotence.may_retry(sequences, one, ErrorCode.UNKNOWN_PRODUCER_ID, 50)
    assert one.sequence == 0


def test_other_errors_are_retried_if_they_are_retriable() -> None:
    idempotence, sequences = started()
    (one,) = sent(sequences, 1)
    assert idempotence.may_retry(sequences, one, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert not idempotence.may_retry(sequences, one, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
