"""Decides how a transaction ends: EndTxn of both protocols, and aborts by the coordinator itself.

In protocol 2 every end bumps the epoch. So a retried EndTxn is recognised by its epoch (one below the current
one) and gets the same response, and a delayed one cannot end the next transaction:

    producer's epoch      abort: one below   current         commit: one below   current
    Empty                 PRODUCER_FENCED    ends, bumps     PRODUCER_FENCED     INVALID_TXN_STATE
    CompleteAbort         same response      ends, bumps     INVALID_TXN_STATE   INVALID_TXN_STATE
    CompleteCommit        INVALID_TXN_STATE  ends, bumps     same response       INVALID_TXN_STATE

In protocol 1 only the current epoch is accepted, and EndTxn may be retried with the same outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.result import Result
from ottla.coordinator.transactions.states import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    State,
    Transaction,
    is_exhausted,
)
from ottla.wire.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.coordinator.transactions.shard import TransactionShard


def end_transaction(
    shard: TransactionShard, request: EndTxnRequest, client_version: int
) -> Result[EndTxnResponse]:
    """Commit or abort for a producer. `client_version` is its `transaction.version`."""
    if not request.transactional_id:
        raise InvalidRequest("The transactional id is empty.")
    transaction = shard.transactions.get(request.transactional_id)
    if transaction is None:
        raise InvalidProducerIdMapping(f"Unknown transactional id {request.transactional_id}.")
    if client_version >= EPOCH_BUMP_VERSION:
        return _end(shard, transaction, request, client_version)
    return _end_by_protocol_1(shard, transaction, request)


def _end(
    shard: TransactionShard, transaction: Transaction, request: EndTxnRequest, client_version: int
) -> Result[EndTxnResponse]:
    if transaction.state.is_prepared:
        # Checked first: the producer may already use its next id.
        raise _completing(transaction)
    is_retry = _is_retry(transaction, request)
    producer_id, epoch = transaction.client
    if request.producer_id != producer_id and not is_retry:
        raise _wrong_producer_id(transaction, request)
    if request.producer_epoch != epoch and not is_retry:
        raise _fenced(transaction, request)
    if is_retry:
        if (transaction.state is State.COMPLETE_COMMIT) != request.committed:
            raise _other_outcome(transaction, request)
        return Result(EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))
    if transaction.state is not State.ONGOING and request.committed:
        raise _other_outcome(transaction, request)
    prepared = _prepared(shard, transaction, request.committed, client_version)
    successor_id, successor_epoch = prepared.successor
    result = Result(EndTxnResponse(producer_id=successor_id, producer_epoch=successor_epoch))
    result.add(shard.prepared(prepared))
    return result


def _is_retry(transaction: Transaction, request: EndTxnRequest) -> bool:
    """Whether it retries the end that is complete: with the epoch before the bump."""
    if transaction.state not in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        return False
    if transaction.client_version < EPOCH_BUMP_VERSION:
        return False  # that end did not bump the epoch: the one below belongs to a fenced producer
    if transaction.producer_id == request.producer_id:
        return transaction.producer_epoch == request.producer_epoch + 1
    return (
        transaction.previous_producer_id == request.producer_id
        and request.producer_epoch == EPOCH_MAX - 1
        and transaction.producer_epoch == 0
    )


def _end_by_protocol_1(
    shard: TransactionShard, transaction: Transaction, request: EndTxnRequest
) -> Result[EndTxnResponse]:
    producer_id, epoch = transaction.client
    if transaction.state.is_prepared:
        producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    if request.producer_id != producer_id:
        raise _wrong_producer_id(transaction, request)
    if request.producer_epoch != epoch:
        raise _fenced(transaction, request)
    state = transaction.state
    if state.is_prepared:
        raise _completing(transaction)
    result = Result(EndTxnResponse(producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH))
    if state is State.ONGOING:
        result.add(shard.prepared(_prepared(shard, transaction, request.committed, 0)))
    elif state is not (State.COMPLETE_COMMIT if request.committed else State.COMPLETE_ABORT):
        raise _other_outcome(transaction, request)
    return result


def fence(shard: TransactionShard, transaction: Transaction) -> Transaction:
    """Abort an open transaction without its producer: an epoch that the producer does not have fences it."""
    version = shard.transaction_version
    if version >= EPOCH_BUMP_VERSION:
        return _prepared(shard, transaction, False, version)
    return transaction.prepared(
        State.PREPARE_ABORT,
        epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        last_epoch=NO_EPOCH,
        successor=_kept_successor(transaction, 1),
        client_version=0,
        now_ms=shard.clock.now_ms(),
    )


def _prepared(
    shard: TransactionShard, transaction: Transaction, is_commit: bool, client_version: int
) -> Transaction:
    """The decided end of a transaction. CoordinatorLoadInProgress: it needs a producer id; none is left."""
    state = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
    epoch = transaction.producer_epoch
    last_epoch = transaction.last_producer_epoch
    successor = _kept_successor(transaction, 0)
    if client_version >= EPOCH_BUMP_VERSION:
        # The markers have an epoch that no record has: delayed writes of the producer are fenced.
        epoch = min(epoch + 1, EPOCH_MAX)
        last_epoch = transaction.client[1]
        if is_exhausted(last_epoch):
            successor = shard.new_producer_id(), NO_EPOCH
        else:
            successor = _kept_successor(transaction, 1)
    return transaction.prepared(
        state,
        epoch=epoch,
        last_epoch=last_epoch,
        successor=successor,
        client_version=client_version,
        now_ms=shard.clock.now_ms(),
    )


def _kept_successor(transaction: Transaction, bump: int) -> tuple[int, int]:
    """The (producer id, epoch) that follows a kept transaction; none if it is not kept."""
    if not transaction.is_kept:
        return NO_PRODUCER_ID, NO_EPOCH
    producer_id, epoch = transaction.client
    return producer_id, min(epoch + bump, EPOCH_MAX)


def _completing(transaction: Transaction) -> ConcurrentTransactions:
    return ConcurrentTransactions(
        f"The transaction of {transaction.transactional_id} is completing ({transaction.state.label}); retry."
    )


def _wrong_producer_id(transaction: Transaction, request: EndTxnRequest) -> InvalidProducerIdMapping:
    return InvalidProducerIdMapping(
        f"Transactional id {transaction.transactional_id} belongs to producer {transaction.client[0]}, "
        f"not {request.producer_id}."
    )


def _fenced(transaction: Transaction, request: EndTxnRequest) -> ProducerFenced:
    return ProducerFenced(
        f"Epoch {request.producer_epoch} of producer {request.producer_id} is not the current one "
        f"({transaction.client[1]})."
    )


def _other_outcome(transaction: Transaction, request: EndTxnRequest) -> InvalidTxnState:
    return InvalidTxnState(
        f"The transaction of {transaction.transactional_id} is in state {transaction.state.label} and "
        f"cannot be {'committed' if request.committed else 'aborted'}."
    )
