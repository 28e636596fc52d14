"""Transactions and their producers: list, describe, abort, fence."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from ottla.client.admin.engine import Engine, Outcome
from ottla.client.admin.lookups import (
    MOVED_COORDINATOR,
    TRANSACTION,
    at_nodes,
    brokers_of,
    coordinators,
    leaders,
)
from ottla.client.admin.offsets import by_topic
from ottla.client.admin.results import Listed, Results, failure
from ottla.client.values import TopicPartition
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


class TransactionState(StrEnum):
    """The state of a transaction."""

    ONGOING = "Ongoing"
    PREPARE_ABORT = "PrepareAbort"
    PREPARE_COMMIT = "PrepareCommit"
    COMPLETE_ABORT = "CompleteAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    EMPTY = "Empty"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id that a coordinator knows."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator_id: int = -1


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transaction. `start_time_ms` is None if none is open."""

    transactional_id: str
    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer of a partition; `transaction_start_offset` if it has an open transaction there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer id and epoch of a transactional id after fencing."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class AbortSpec:
    """A hanging transaction in one partition, as `describe_producers` shows it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


async def list_transactions(
    engine: Engine,
    *,
    states: Collection[TransactionState | str] = (),
    producer_ids: Collection[int] = (),
    duration_ms: int = -1,
    transactional_id_pattern: str | None = None,
    timeout_ms: int | None = None,
) -> Listed[TransactionListing]:
    """List the transactions of all coordinators. `duration_ms`: only those open for longer."""
    deadline = engine.deadline(timeout_ms)
    brokers = [node.id for node in await brokers_of(engine, deadline, "list_transactions")]

    def build(broker: int, keys: list[int], timeout_ms: int) -> ListTransactionsRequest:
        return ListTransactionsRequest(
            state_filters=[str(state) for state in states],
            producer_id_filters=list(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=transactional_id_pattern or None,
        )

    def read(
        broker: int, keys: Collection[int], answer: ListTransactionsResponse
    ) -> Outcome[int, list[TransactionListing]]:
        outcome: Outcome[int, list[TransactionListing]] = Outcome()
        if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            outcome.again.add(broker)
        elif answer.error_code:
            outcome.done[broker] = failure(answer.error_code)
        else:
            outcome.done[broker] = [
                TransactionListing(
                    one.transactional_id, one.producer_id, TransactionState(one.transaction_state), broker
                )
                for one in answer.transaction_states
            ]
        return outcome

    places = {broker: broker for broker in brokers}
    told = await engine.spread("list_transactions", brokers, at_nodes(places), build, read, deadline=deadline)
    found = [one for of_broker in told.succeeded.values() for one in of_broker]
    return Listed(found, told.failed)


async def describe_transactions(
    engine: Engine, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
) -> Results[str, TransactionDescription]:
    """Describe transactions by their ids."""
    return await engine.spread(
        "describe_transactions",
        transactional_ids,
        coordinators(TRANSACTION),
        lambda node, keys, timeout_ms: DescribeTransactionsRequest(transactional_ids=keys),
        read_transactions,
        deadline=engine.deadline(timeout_ms),
    )


def read_transactions(
    node: int, keys: Collection[str], answer: DescribeTransactionsResponse
) -> Outcome[str, TransactionDescription]:
    """Read the transactions in a response; pure."""
    outcome: Outcome[str, TransactionDescription] = Outcome()
    for told in answer.transaction_states:
        key = told.transactional_id
        if told.error_code:
            message = None
            if told.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                message = f"Unknown transactional id {key}."
            outcome.take(key, told.error_code, message, moved=MOVED_COORDINATOR)
            continue
        outcome.done[key] = TransactionDescription(
            key,
            node,
            TransactionState(told.transaction_state),
            told.producer_id,
            told.producer_epoch,
            told.transaction_timeout_ms,
            None if told.transaction_start_time_ms < 0 else told.transaction_start_time_ms,
            frozenset(
                TopicPartition(topic.topic, index) for topic in told.topics for index in topic.partitions
            ),
        )
    return outcome


async def describe_producers(
    engine: Engine,
    partitions: Iterable[TopicPartition],
    *,
    broker_id: int | None = None,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, tuple[ProducerState, ...]]:
    """Describe the producers that a partition's leader (or the replica on `broker_id`) knows."""
    keys = list(partitions)
    lookup = leaders(unknown_topics_may_come=True)
    if broker_id is not None:
        lookup = at_nodes(dict.fromkeys(keys, broker_id))

    def build(node: int, keys: list[TopicPartition], timeout_ms: int) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(
                    name=topic, partition_indexes=[key.partition for key in of_topic]
                )
                for topic, of_topic in by_topic(keys).items()
            ]
        )

    def read(
        node: int, keys: Collection[TopicPartition], answer: DescribeProducersResponse
    ) -> Outcome[TopicPartition, tuple[ProducerState, ...]]:
        return read_producers(answer, leader_is_asked=broker_id is None)

    return await engine.spread(
        "describe_producers", keys, lookup, build, read, deadline=engine.deadline(timeout_ms)
    )


def read_producers(
    answer: DescribeProducersResponse, *, leader_is_asked: bool
) -> Outcome[TopicPartition, tuple[ProducerState, ...]]:
    """Read the producers in a response; pure."""
    outcome: Outcome[TopicPartition, tuple[ProducerState, ...]] = Outcome()
    for topic in answer.topics:
        for told in topic.partitions:
            key = TopicPartition(topic.name, told.partition_index)
            if told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and not leader_is_asked:
                outcome.done[key] = failure(told.error_code, f"The broker hosts no replica of {key}.")
            elif told.error_code:
                outcome.take(
                    key, told.error_code, told.error_message, moved={ErrorCode.NOT_LEADER_OR_FOLLOWER}
                )
            else:
                outcome.done[key] = tuple(_producer(one) for one in told.active_producers)
    return outcome


def _producer(told: DescribeProducersResponse.ProducerState) -> ProducerState:
    return ProducerState(
        told.producer_id,
        told.producer_epoch,
        told.last_sequence,
        told.last_timestamp,
        None if told.coordinator_epoch < 0 else told.coordinator_epoch,
        None if told.current_txn_start_offset < 0 else told.current_txn_start_offset,
    )


async def abort_transaction(engine: Engine, spec: AbortSpec, *, timeout_ms: int | None = None) -> None:
    """Write an abort marker into a partition with a hanging transaction, which no coordinator knows."""
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        coordinator_epoch=spec.coordinator_epoch,
        transaction_result=False,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                name=spec.partition.topic, partition_indexes=[spec.partition.partition]
            )
        ],
    )

    def read(
        node: int, keys: Collection[TopicPartition], answer: WriteTxnMarkersResponse
    ) -> Outcome[TopicPartition, None]:
        outcome: Outcome[TopicPartition, None] = Outcome()
        for told in answer.markers:
            for topic in told.topics:
                for partition in topic.partitions:
                    key = TopicPartition(topic.name, partition.partition_index)
                    if not partition.error_code:
                        outcome.done[key] = None
                    elif partition.error_code in _ABORT_ELSEWHERE:
                        outcome.moved.add(key)
                    else:
                        outcome.done[key] = failure(partition.error_code)
        return outcome

    results = await engine.spread(
        "abort_transaction",
        [spec.partition],
        leaders(unknown_topics_may_come=True),
        lambda node, keys, timeout_ms: WriteTxnMarkersRequest(markers=[marker]),
        read,
        deadline=engine.deadline(timeout_ms),
    )
    results.result(spec.partition)


_ABORT_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


async def fence_producers(
    engine: Engine, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
) -> Results[str, FencedProducer]:
    """Fence the current producers of these ids, and abort their open transactions."""
    deadline = engine.deadline(timeout_ms)
    transaction_timeout_ms = engine.settings.request_timeout_ms if timeout_ms is None else timeout_ms
    return await engine.spread(
        "fence_producers",
        transactional_ids,
        coordinators(TRANSACTION),
        lambda node, keys, timeout_ms: InitProducerIdRequest(
            transactional_id=keys[0], transaction_timeout_ms=transaction_timeout_ms
        ),
        read_fenced,
        deadline=deadline,
        batched=False,
    )


def read_fenced(
    node: int, keys: Collection[str], answer: InitProducerIdResponse
) -> Outcome[str, FencedProducer]:
    """Read the coordinator's answer about the requested id; pure."""
    outcome: Outcome[str, FencedProducer] = Outcome()
    for key in keys:
        if not answer.error_code:
            outcome.done[key] = FencedProducer(answer.producer_id, answer.producer_epoch)
        elif answer.error_code in (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ):
            outcome.again.add(key)
        elif answer.error_code in MOVED_COORDINATOR:
            outcome.moved.add(key)
        else:
            outcome.done[key] = failure(answer.error_code)
    return outcome


async def force_terminate_transaction(
    engine: Engine, transactional_id: str, *, timeout_ms: int | None = None
) -> None:
    """Abort the open transaction of a transactional id, whichever producer uses it."""
    results = await fence_producers(engine, [transactional_id], timeout_ms=timeout_ms)
    results.result(transactional_id)
