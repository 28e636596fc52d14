"""AddPartitionsToTxn (24), versions 0 to 5.

Up to v3 a producer makes partitions part of its transaction. From v4 on brokers ask, for several transactions
at once: to add partitions (protocol 2), or with `verify_only` whether they are part of it, which v5 answers
with TRANSACTION_ABORTABLE where they are not. One partition that does not exist fails its whole transaction:
the others are then OPERATION_NOT_ATTEMPTED. Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.result import Reply, Result
from ottla.coordinator.transactions.states import TopicPartition
from ottla.server.broker import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.transaction_common import ADDING_VERSION, fenced_code
from ottla.server.long_requests import Steps
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from ottla.coordinator.transactions.shard import TransactionShard
    from ottla.server.broker import Broker
    from ottla.server.waiting import Answer

KEY = 24

_BROKERS_FROM = 4
_KNOWS_FENCED_FROM = 2
_INTERNAL = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})

_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_Outcome = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Question = tuple[
    str, Callable[["TransactionShard", Reply], Result[_Outcome]], Callable[[KafkaError], _Outcome]
]


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Steps[AddPartitionsToTxnResponse | Answer]:
    version = context.version
    if version < _BROKERS_FROM:
        asked = [
            _Transaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    else:
        asked = request.transactions
    refused: list[_Outcome] = []
    questions: list[_Question] = []
    for transaction in asked:
        refusal = _refusal(broker, transaction, version)
        if refusal is None:
            questions.append(_question(transaction, version))
        else:
            refused.append(_outcome(transaction, refusal))
        yield

    def join(outcomes: list[_Outcome]) -> AddPartitionsToTxnResponse:
        outcomes = refused + outcomes
        if version >= _BROKERS_FROM:
            return AddPartitionsToTxnResponse(results_by_transaction=outcomes)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=outcomes[0].topic_results)

    if not questions:
        return join([])
    return (yield from broker.transactions.ask_many(questions, join))


def _question(transaction: _Transaction, version: int) -> _Question:
    partitions = frozenset(_partitions(transaction))
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)

    def decide(shard: TransactionShard, _reply: Reply) -> Result[_Outcome]:
        if transaction.verify_only:
            return Result(_outcome(transaction, shard.verify_partitions(*producer, partitions)))
        result = Result(_outcome(transaction, dict.fromkeys(partitions, ErrorCode.NONE)))
        client_version = ADDING_VERSION if version >= _BROKERS_FROM else 0
        result.add(shard.add_partitions(*producer, partitions, client_version=client_version))
        return result

    def failed(error: KafkaError) -> _Outcome:
        code = fenced_code(error, version, _KNOWS_FENCED_FROM)
        return _outcome(transaction, dict.fromkeys(partitions, code))

    return transaction.transactional_id, decide, failed


def _refusal(
    broker: Broker, transaction: _Transaction, version: int
) -> Mapping[TopicPartition, ErrorCode] | None:
    """Why the coordinator need not be asked."""
    partitions = list(_partitions(transaction))
    codes: dict[TopicPartition, ErrorCode] = {}
    for topic, index in partitions:
        if version < _BROKERS_FROM and topic in _INTERNAL:
            codes[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif broker.image.partition(topic, index) is None:
            codes[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if codes:
        return {one: codes.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions}
    if not transaction.transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    return None


def _partitions(transaction: _Transaction) -> Iterable[TopicPartition]:
    return ((topic.name, index) for topic in transaction.topics for index in topic.partitions)


def _outcome(transaction: _Transaction, codes: Mapping[TopicPartition, ErrorCode]) -> _Outcome:
    return _Outcome(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=codes[topic.name, index]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


API = Api(KEY, handle)
