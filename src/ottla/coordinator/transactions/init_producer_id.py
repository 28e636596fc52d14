"""Decides who may use a transactional id: InitProducerId.

A new producer gets a new epoch, which fences its predecessor. A producer that names its id and epoch (it
continues after an error) must still be the current one; a retry gets the same response. Rule: no client gets
the highest epoch, so that one is always left to fence the last producer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.result import Record, Result
from ottla.coordinator.transactions import end_txn
from ottla.coordinator.transactions.states import (
    EPOCH_BUMP_VERSION,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Transaction,
    is_exhausted,
)
from ottla.wire.errors import (
    ConcurrentTransactions,
    ErrorCode,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.coordinator.transactions.shard import TransactionShard


class Expected(NamedTuple):
    """The id and epoch that a producer names."""

    producer_id: int
    epoch: int


def init_producer_id(
    shard: TransactionShard, request: InitProducerIdRequest
) -> Result[InitProducerIdResponse]:
    expected = expected_of(request)
    timeout_ms = _checked_timeout(shard, request)
    transactional_id = request.transactional_id
    assert transactional_id is not None
    now_ms = shard.clock.now_ms()
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        producer_id = shard.new_producer_id()
        fresh = Transaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=NO_EPOCH,
            timeout_ms=timeout_ms,
        )
        return _granted(shard, fresh, (producer_id, 0), NO_EPOCH, timeout_ms, now_ms)
    if transaction.state.is_prepared:
        raise ConcurrentTransactions(f"The transaction of {transactional_id} is completing; retry.")
    if transaction.state.is_idle:
        identity, last_epoch = _next_identity(shard, transaction, expected)
        return _granted(shard, transaction, identity, last_epoch, timeout_ms, now_ms)
    if request.keep_prepared_txn:
        return _kept(shard, transaction, expected, timeout_ms, now_ms)
    if expected is not None and expected != transaction.client:
        raise _fenced(transaction, expected)
    # The earlier producer left a transaction open. No client gets the epoch that fences it: the client
    # retries and gets the next one.
    aborted = shard.prepared(end_txn.fence(shard, transaction))
    result: Result[InitProducerIdResponse] = Result(
        InitProducerIdResponse(
            error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
        )
    )
    result.add(aborted)
    return result


def expected_of(request: InitProducerIdRequest) -> Expected | None:
    """InvalidRequest: only one of id and epoch is set."""
    if request.producer_id == NO_PRODUCER_ID and request.producer_epoch == NO_EPOCH:
        return None
    if request.producer_id == NO_PRODUCER_ID or request.producer_epoch == NO_EPOCH:
        raise InvalidRequest("Producer id and producer epoch must be set together.")
    return Expected(request.producer_id, request.producer_epoch)


def _checked_timeout(shard: TransactionShard, request: InitProducerIdRequest) -> int:
    if not request.transactional_id:
        raise InvalidRequest("The transactional id is empty.")
    settings = shard.settings
    if request.enable2_pc and not settings.is_two_phase_commit_enabled:
        raise TransactionalIdAuthorizationFailed(
            "Two-phase commit is disabled; enable it with transaction.two.phase.commit.enable."
        )
    if request.keep_prepared_txn and not (
        settings.is_two_phase_commit_enabled and shard.transaction_version >= EPOCH_BUMP_VERSION
    ):
        raise UnsupportedVersion(
            "Keeping a prepared transaction needs transaction.two.phase.commit.enable and "
            f"transaction.version {EPOCH_BUMP_VERSION}."
        )
    if request.enable2_pc:
        return NO_TIMEOUT_MS
    timeout_ms = request.transaction_timeout_ms
    if not 0 < timeout_ms <= settings.timeout_ms_max:
        raise InvalidTransactionTimeout(
            f"The transaction timeout of {timeout_ms} ms must be greater than 0 and at most "
            f"{settings.timeout_ms_max} (transaction.max.timeout.ms)."
        )
    return timeout_ms


def _next_identity(
    shard: TransactionShard, transaction: Transaction, expected: Expected | None
) -> tuple[tuple[int, int], int]:
    """((producer id, epoch) for the client, the epoch with which it may retry)."""
    producer_id, epoch = transaction.client
    if expected is not None:
        is_rotated = expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch)
        if expected.producer_id != producer_id and not is_rotated:
            raise _fenced(transaction, expected)
        if expected.epoch != epoch or expected.producer_id != producer_id:
            if expected.epoch != transaction.last_producer_epoch:
                raise _fenced(transaction, expected)
            # A retry: the response was lost. If another producer had come since, this epoch would be unknown.
            return (producer_id, epoch), transaction.last_producer_epoch
    last_epoch = NO_EPOCH if expected is None else epoch
    if is_exhausted(epoch):
        return (shard.new_producer_id(), 0), last_epoch
    return (producer_id, epoch + 1), last_epoch


def _granted(
    shard: TransactionShard,
    transaction: Transaction,
    identity: tuple[int, int],
    last_epoch: int,
    timeout_ms: int,
    now_ms: int,
) -> Result[InitProducerIdResponse]:
    initialised = transaction.initialised(
        *identity, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms
    )
    return _answered(identity, shard.record(initialised))


def _kept(
    shard: TransactionShard,
    transaction: Transaction,
    expected: Expected | None,
    timeout_ms: int,
    now_ms: int,
) -> Result[InitProducerIdResponse]:
    """A producer replaces one that prepared a transaction: it may only end that transaction."""
    identity, last_epoch = _next_identity(shard, transaction, expected)
    kept = transaction.kept_by(*identity, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)
    result = _answered(identity, shard.record(kept))
    response = result.response
    assert isinstance(response, InitProducerIdResponse)
    response.ongoing_txn_producer_id = transaction.producer_id
    response.ongoing_txn_producer_epoch = transaction.producer_epoch
    return result


def _answered(identity: tuple[int, int], record: Record) -> Result[InitProducerIdResponse]:
    producer_id, epoch = identity
    return Result(InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch), [record])


def _fenced(transaction: Transaction, expected: Expected) -> ProducerFenced:
    return ProducerFenced(
        f"Producer {expected.producer_id} with epoch {expected.epoch} is no longer the producer of "
        f"transactional id {transaction.transactional_id}."
    )
