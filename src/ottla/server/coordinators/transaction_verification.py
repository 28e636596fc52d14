"""Verifies, before the first write of a transaction to a partition, that the partition is part of it.

The coordinator must know every partition that the transaction writes to: any other would never get a marker.
Older producers add partitions themselves, and the broker verifies that; for newer ones the broker adds them.
Rule: the writes of one transactional id proceed in order of arrival.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.coordinator.result import Result
from ottla.coordinator.runtime import client_error
from ottla.coordinator.transactions.shard import TransactionShard
from ottla.coordinator.transactions.states import TopicPartition, by_topic
from ottla.log.producer_state import VerificationGuard
from ottla.server.broker import TRANSACTIONS_TOPIC
from ottla.server.parts import HasClock, HasConfig, HasImage, HasNodeId, HasPartitions
from ottla.server.replicas.partition import hosted_partition
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    ErrorCode,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NetworkException,
    ProducerFenced,
    TransactionAbortable,
    for_code,
)
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from ottla.server.coordinators.transactions import TransactionCoordinator

_R = TypeVar("_R")

Refusals = Mapping[TopicPartition, KafkaError]
Guards = Mapping[TopicPartition, VerificationGuard]
Verified = tuple[Refusals, Guards]


class VerificationParts(HasNodeId, HasConfig, HasImage, HasPartitions, HasClock, Protocol):
    """The parts of a node that `Verification` uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A write that a producer requests."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequences: Mapping[TopicPartition, int]  # of the first record for each partition
    adds: bool  # the broker adds the partitions: transactions of version 2
    knows_abortable: bool  # the client understands TRANSACTION_ABORTABLE


class Verification:
    """Asks the coordinator, on this node or another one."""

    def __init__(self, parts: VerificationParts, transactions: TransactionCoordinator) -> None:
        self._parts = parts
        self._transactions = transactions
        self._queues: dict[str, deque[Callable[[], None]]] = {}
        self._questions: set[asyncio.Task[None]] = set()

    def check(self, writing: Writing) -> Verified | PendingResponse:
        """Find out which partitions may be written to.

        The outcome contains an error for each partition that may not, and for the others the verification
        that the log checks.
        """
        if not writing.adds and not self._parts.config.bool_of("transaction.partition.verification.enable"):
            return {}, {}
        queue = self._queues.get(writing.transactional_id)
        if queue is not None:  # an earlier write may be to the same partitions
            pending = PendingResponse()
            queue.append(lambda: self._ask_again(writing, self._deadline(), pending))
            return pending
        refusals, guards = self._begin(writing)
        if not guards:
            return refusals, guards
        pending = PendingResponse()
        self._queues[writing.transactional_id] = deque()
        self._ask(writing, refusals, guards, self._deadline(), pending)
        verified: Verified | PendingResponse = pending.response_or_self()
        return verified

    def _begin(
        self, writing: Writing
    ) -> tuple[dict[TopicPartition, KafkaError], dict[TopicPartition, VerificationGuard]]:
        refusals: dict[TopicPartition, KafkaError] = {}
        guards: dict[TopicPartition, VerificationGuard] = {}
        for key, sequence in writing.sequences.items():
            try:
                log = hosted_partition(self._parts, *key).leader_log()
                guard = log.start_transaction_verification(
                    writing.producer_id, sequence, writing.producer_epoch, supports_epoch_bump=writing.adds
                )
            except KafkaError as error:
                refusals[key] = error
                continue
            if guard is not None:
                guards[key] = guard
        return refusals, guards

    def _deadline(self) -> float:
        config = self._parts.config
        longest_ms = min(
            config.int_of("add.partitions.to.txn.retry.backoff.max.ms"), config.int_of("request.timeout.ms")
        )
        return self._parts.clock.monotonic() + longest_ms / 1000

    def _ask(
        self,
        writing: Writing,
        refusals: dict[TopicPartition, KafkaError],
        guards: dict[TopicPartition, VerificationGuard],
        deadline: float,
        pending: PendingResponse,
    ) -> None:
        def answered(errors: Mapping[TopicPartition, KafkaError]) -> None:
            is_completing = any(isinstance(error, ConcurrentTransactions) for error in errors.values())
            if writing.adds and is_completing and self._parts.clock.monotonic() < deadline:
                # The previous transaction completes in a moment; a retry of the producer would take longer.
                delay_ms = self._parts.config.int_of("add.partitions.to.txn.retry.backoff.ms")
                asyncio.get_running_loop().call_later(
                    delay_ms / 1000, self._ask_again, writing, deadline, pending
                )
                return
            client_errors = {key: _for_producers(writing, error) for key, error in errors.items()}
            self._finish(writing, {**refusals, **client_errors}, guards, pending)

        self._ask_coordinator(writing, frozenset(guards), answered)

    def _ask_again(self, writing: Writing, deadline: float, pending: PendingResponse) -> None:
        """Verify again: an earlier write may have begun the transaction in these partitions meanwhile."""
        refusals, guards = self._begin(writing)
        if guards:
            self._ask(writing, refusals, guards, deadline, pending)
        else:
            self._finish(writing, refusals, guards, pending)

    def _finish(self, writing: Writing, refusals: Refusals, guards: Guards, pending: PendingResponse) -> None:
        try:
            pending.complete((refusals, guards))
        finally:
            queue = self._queues[writing.transactional_id]
            if queue:
                asyncio.get_running_loop().call_soon(queue.popleft())
            else:
                del self._queues[writing.transactional_id]

    # ---- the coordinator

    def _ask_coordinator(
        self, writing: Writing, partitions: frozenset[TopicPartition], answered: Callable[[Refusals], None]
    ) -> None:
        index = self._transactions.coordinator.partition_for(writing.transactional_id)
        registration = self._parts.image.partition(TRANSACTIONS_TOPIC, index)
        leader = -1 if registration is None else registration.leader
        if leader == self._parts.node_id:
            self._ask_here(index, writing, partitions, answered)
        elif leader < 0 or self._transactions.links is None:
            error = CoordinatorNotAvailable("The transaction coordinator is not available.")
            answered(dict.fromkeys(partitions, error))
        else:
            task = asyncio.ensure_future(self._ask_there(leader, writing, partitions, answered))
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)

    def _ask_here(
        self,
        index: int,
        writing: Writing,
        partitions: frozenset[TopicPartition],
        answered: Callable[[Refusals], None],
    ) -> None:
        producer = (writing.transactional_id, writing.producer_id, writing.producer_epoch)

        def decide(shard: TransactionShard, _pending: PendingResponse) -> Result[Any]:
            if writing.adds:
                return shard.add_partitions(*producer, partitions, client_version=2)
            return Result(_refusals(shard.verify_partitions(*producer, partitions)))

        decided = PendingResponse(lambda error: dict.fromkeys(partitions, client_error(error)))
        decided.on_completed = lambda: answered(decided.response or {})
        self._transactions.coordinator.ask(index, decide, decided)

    async def _ask_there(
        self,
        leader: int,
        writing: Writing,
        partitions: frozenset[TopicPartition],
        answered: Callable[[Refusals], None],
    ) -> None:
        links = self._transactions.links
        assert links is not None
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=writing.transactional_id,
                    producer_id=writing.producer_id,
                    producer_epoch=writing.producer_epoch,
                    verify_only=not writing.adds,
                    topics=[
                        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                        for topic, indexes in by_topic(partitions).items()
                    ],
                )
            ]
        )
        try:
            response: AddPartitionsToTxnResponse = await links.ask(leader, request)
        except OSError as error:
            answered(dict.fromkeys(partitions, NetworkException(f"Broker {leader} did not answer: {error}")))
            return
        except KafkaError as error:
            answered(dict.fromkeys(partitions, error))
            return
        if response.error_code:
            is_permission = response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            code = ErrorCode.INVALID_TXN_STATE if is_permission else response.error_code
            answered(dict.fromkeys(partitions, for_code(code)()))
            return
        answered(
            _refusals(
                {
                    (topic.name, one.partition_index): one.partition_error_code
                    for result in response.results_by_transaction
                    for topic in result.topic_results
                    for one in topic.results_by_partition
                }
            )
        )


def answer_when_verified(
    verification: Verification,
    writing: Writing,
    write: Callable[[Refusals, Guards], _R | PendingResponse],
    *,
    before_waiting: Callable[[], None] | None = None,
) -> _R | PendingResponse:
    """The response that `write` builds from the verification; immediate if nobody need be asked."""
    verified = verification.check(writing)
    if not isinstance(verified, PendingResponse):
        return write(*verified)
    if before_waiting is not None:
        before_waiting()
    pending = PendingResponse()

    def write_now() -> None:
        response: _R | PendingResponse | None = None
        try:
            response = write(*verified.response)
        finally:  # if that failed, the client must not wait: None closes its connection
            pending.complete_with(response)

    verified.on_completed = write_now
    return pending


def _refusals(codes: Mapping[TopicPartition, int]) -> dict[TopicPartition, KafkaError]:
    return {key: for_code(code)() for key, code in codes.items() if code != ErrorCode.NONE}


def _for_producers(writing: Writing, error: KafkaError) -> KafkaError:
    """The error code that producers expect for a write."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(error.message)
    if isinstance(error, TransactionAbortable) and not writing.knows_abortable:
        return InvalidTxnState(error.message)
    return error
