"""How a transaction ends: EndTxn of both protocols, and the end that the coordinator itself decides.

In protocol 2 the epoch is bumped with every end. So an end that comes twice is known by its epoch (one below
the current one) and answered alike, and one that comes late cannot hit the next transaction:

    producer's epoch      abort: one below   current         commit: one below   current
    Empty                 PRODUCER_FENCED    ends, bumps     PRODUCER_FENCED     INVALID_TXN_STATE
    CompleteAbort         answered alike     ends, bumps     INVALID_TXN_STATE   INVALID_TXN_STATE
    CompleteCommit        INVALID_TXN_STATE  ends, bumps     answered alike      INVALID_TXN_STATE

In protocol 1 only the current epoch is accepted, and an end may be repeated while its outcome stands.
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
    """Commit or abort for a producer. `client_version`: the `transaction.version` that it speaks."""
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
        # First of all: the producer may already use the id that it goes on with.
        raise _being_ended(transaction)
    is_retry = _is_retry(transaction, request)
    producer_id, epoch = transaction.client
    if request.producer_id != producer_id and not is_retry:
        raise _not_its_id(transaction, request)
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
    """Whether it asks again for the end that is complete: with the epoch before the bump."""
    if transaction.state not in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        return False
    if transaction.client_version < EPOCH_BUMP_VERSION:
        return False  # that end bumped nothing: the epoch below is that of a fenced producer
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
        raise _not_its_id(transaction, request)
    if request.producer_epoch != epoch:
        raise _fenced(transaction, request)
    state = transaction.state
    if state.is_prepared:
        raise _being_ended(transaction)
    result = Result(EndTxnResponse(producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH))
    if state is State.ONGOING:
        result.add(shard.prepared(_prepared(shard, transaction, request.committed, 0)))
    elif state is not (State.COMPLETE_COMMIT if request.committed else State.COMPLETE_ABORT):
        raise _other_outcome(transaction, request)
    return result


def fenced(shard: TransactionShard, transaction: Transaction) -> Transaction:
    """Abort what is open on the coordinator's own account, with an epoch that its producer does not have."""
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
    """The end of a transaction, decided. CoordinatorLoadInProgress: it needs a producer id, none is here."""
    state = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
    epoch = transaction.producer_epoch
    last_epoch = transaction.last_producer_epoch
    successor = _kept_successor(transaction, 0)
    if client_version >= EPOCH_BUMP_VERSION:
        # The markers have an epoch that nothing was written with, so what comes late finds itself fenced.
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
    """Who goes on after a kept transaction; nobody else where it is not a kept one."""
    if not transaction.is_kept:
        return NO_PRODUCER_ID, NO_EPOCH
    producer_id, epoch = transaction.client
    return producer_id, min(epoch + bump, EPOCH_MAX)


def _being_ended(transaction: Transaction) -> ConcurrentTransactions:
    return ConcurrentTransactions(
        f"The transaction of {transaction.transactional_id} is completing ({transaction.state.label}); retry."
    )


def _not_its_id(transaction: Transaction, request: EndTxnRequest) -> InvalidProducerIdMapping:
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
