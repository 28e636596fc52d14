"""AddPartitionsToTxn (24), versions 0 to 5.

Up to v3, a producer adds partitions to its transaction. From v4 on, brokers send it for several transactions
at once: to add partitions (protocol 2), or with `verify_only` to check that they are part of it; v5 answers
TRANSACTION_ABORTABLE if they are not. A partition that does not exist fails its whole transaction: the others
get OPERATION_NOT_ATTEMPTED. Before v2, a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.result import Result
from ottla.coordinator.transactions.states import TopicPartition
from ottla.server.broker import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.server.handlers.transaction_common import ADDING_VERSION, fenced_code
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, distinct
from ottla.server.parts import HasImage, HasTransactions
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.coordinator.transactions.shard import TransactionShard
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.waiting.pending_response import PendingResponse

KEY = 24

_BROKERS_FROM = 4
_KNOWS_FENCED_FROM = 2
_INTERNAL = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})

_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_Outcome = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Codes = Mapping[TopicPartition, ErrorCode]


class Parts(HasImage, HasTransactions, Protocol):
    """The parts of a node that AddPartitionsToTxn needs."""


def handle(
    parts: Parts, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Steps[AddPartitionsToTxnResponse | Steps[AddPartitionsToTxnResponse] | PendingResponse]:
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
    refused: list[tuple[_Transaction, _Codes]] = []
    questions: list[CoordinatorRequest[TransactionShard, tuple[_Transaction, _Codes]]] = []
    for transaction in asked:
        partitions = yield from distinct(list(_partitions(transaction)))
        refusal = yield from _refusal(parts.image, transaction, partitions, version)
        if refusal is None:
            questions.append(_question(transaction, frozenset(partitions), version))
        else:
            refused.append((transaction, refusal))
        yield

    def join(answered: list[tuple[_Transaction, _Codes]]) -> Steps[AddPartitionsToTxnResponse]:
        outcomes = []
        for transaction, codes in refused + answered:
            outcomes.append((yield from _outcome(transaction, codes)))
        if version >= _BROKERS_FROM:
            return AddPartitionsToTxnResponse(results_by_transaction=outcomes)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=outcomes[0].topic_results)

    if not questions:
        return (yield from join([]))
    return (yield from parts.transactions.requests.ask_many(questions, join))


def _question(
    transaction: _Transaction, partitions: frozenset[TopicPartition], version: int
) -> CoordinatorRequest[TransactionShard, tuple[_Transaction, _Codes]]:
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)

    def decide(shard: TransactionShard, _pending: PendingResponse) -> Result[tuple[_Transaction, _Codes]]:
        if transaction.verify_only:
            return Result((transaction, shard.verify_partitions(*producer, partitions)))
        result: Result[tuple[_Transaction, _Codes]] = Result(
            (transaction, dict.fromkeys(partitions, ErrorCode.NONE))
        )
        client_version = ADDING_VERSION if version >= _BROKERS_FROM else 0
        result.add(shard.add_partitions(*producer, partitions, client_version=client_version))
        return result

    def failed(error: KafkaError) -> tuple[_Transaction, _Codes]:
        code = fenced_code(error, version, _KNOWS_FENCED_FROM)
        return transaction, dict.fromkeys(partitions, code)

    return transaction.transactional_id, decide, failed


def _refusal(
    image: ClusterImage, transaction: _Transaction, partitions: Iterable[TopicPartition], version: int
) -> Steps[_Codes | None]:
    """Why the coordinator need not be asked."""
    codes: dict[TopicPartition, ErrorCode] = {}
    for topic, index in partitions:
        yield
        if version < _BROKERS_FROM and topic in _INTERNAL:
            codes[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(topic, index) is None:
            codes[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if codes:
        return {one: codes.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions}
    if not transaction.transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    return None


def _partitions(transaction: _Transaction) -> Iterable[TopicPartition]:
    return ((topic.name, index) for topic in transaction.topics for index in topic.partitions)


def _outcome(transaction: _Transaction, codes: _Codes) -> Steps[_Outcome]:
    outcome = _Outcome(transactional_id=transaction.transactional_id)
    for topic in transaction.topics:
        found = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name=topic.name)
        outcome.topic_results.append(found)
        for index in topic.partitions:
            found.results_by_partition.append(
                AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
            )
            yield
        yield
    return outcome


API = Api(KEY, handle)
