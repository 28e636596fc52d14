"""The states of a transactional producer, and the handle of a shared transaction."""

from __future__ import annotations

import pytest

from ottla.client.core.transactions import Handle, Meaning, State, Transactions, meaning_of
from ottla.client.errors import AbortableError, FatalError, TransactionStateError
from ottla.wire.errors import ErrorCode, ProducerFenced, TopicAuthorizationFailed


def in_transaction() -> Transactions:
    transactions = Transactions("t")
    for state in (State.INITIALIZING, State.READY, State.IN_TRANSACTION):
        transactions.move(state)
    return transactions


def test_records_are_taken_within_a_transaction_only() -> None:
    transactions = Transactions("t")
    with pytest.raises(TransactionStateError):
        transactions.check_may_send()
    transactions = in_transaction()
    transactions.check_may_send()
    transactions.move(State.COMMITTING)
    with pytest.raises(TransactionStateError):
        transactions.check_may_send()


def test_a_step_out_of_turn_is_refused() -> None:
    transactions = Transactions("t")
    with pytest.raises(TransactionStateError, match="uninitialized"):
        transactions.move(State.COMMITTING)


def test_after_an_abortable_error_only_an_abort_helps() -> None:
    transactions = in_transaction()
    transactions.batch_failed(TopicAuthorizationFailed("no"))
    with pytest.raises(AbortableError, match="no"):
        transactions.check_may_send()
    with pytest.raises(TransactionStateError):
        transactions.move(State.COMMITTING)
    transactions.move(State.ABORTING)
    transactions.move(State.READY)
    transactions.move(State.IN_TRANSACTION)
    transactions.check_may_send()


def test_a_fatal_error_is_for_ever() -> None:
    transactions = in_transaction()
    transactions.batch_failed(ProducerFenced("gone"))
    for call in (transactions.check_may_send, lambda: transactions.move(State.ABORTING)):
        with pytest.raises(FatalError, match="gone"):
            call()


def test_the_first_error_is_the_one_that_is_told() -> None:
    transactions = in_transaction()
    transactions.batch_failed(TopicAuthorizationFailed("first"))
    transactions.batch_failed(TopicAuthorizationFailed("second"))
    assert str(transactions.error) == "first"


def test_protocol_1_notes_partitions_for_the_coordinator_and_protocol_2_does_not() -> None:
    transactions = in_transaction()
    assert not transactions.wants(("a", 0))
    assert transactions.new_partitions == {("a", 0)}
    assert not transactions.is_started
    transactions = in_transaction()
    transactions.protocol = 2
    assert transactions.wants(("a", 0))
    assert transactions.is_started


def test_codes_are_told_apart() -> None:
    assert meaning_of(ErrorCode.CONCURRENT_TRANSACTIONS) is Meaning.RETRY
    assert meaning_of(ErrorCode.NOT_COORDINATOR) is Meaning.FIND_COORDINATOR
    assert meaning_of(ErrorCode.TRANSACTION_ABORTABLE) is Meaning.ABORTABLE
    assert meaning_of(ErrorCode.PRODUCER_FENCED) is Meaning.FATAL


@pytest.mark.parametrize("transactional_id", ["plain", "with:colons|and bars", "ümläut"])
def test_a_handle_is_the_same_after_its_way_as_text(transactional_id: str) -> None:
    handle = Handle(transactional_id, 1234, 5, 2, "one:9092,two:9092")
    assert Handle.from_text(handle.to_text()) == handle
    with pytest.raises(ValueError, match="transaction_handle"):
        Handle.from_text("something else")
