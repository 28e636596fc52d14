"""AddOffsetsToTxn (25), versions 0 to 4.

Adds the partition that stores a group's offsets to a producer's transaction. Before v2, a fenced producer
gets INVALID_PRODUCER_EPOCH. Producers of protocol 2 do not send this: TxnOffsetCommit adds the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.partitioning import partition_for
from ottla.coordinator.result import Result
from ottla.server.broker import GROUPS_TOPIC
from ottla.server.coordinators.groups import internal_partition_count
from ottla.server.handlers.transaction_common import fenced_code
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasConfig, HasImage, HasTransactions
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from ottla.coordinator.transactions.shard import TransactionShard
    from ottla.waiting.pending_response import PendingResponse

KEY = 25

_KNOWS_FENCED_FROM = 2


class Parts(HasConfig, HasImage, HasTransactions, Protocol):
    """The parts of a node that AddOffsetsToTxn needs."""


def handle(
    parts: Parts, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | PendingResponse:
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    count = internal_partition_count(parts, GROUPS_TOPIC, "offsets.topic.num.partitions")
    partition = (GROUPS_TOPIC, partition_for(request.group_id, count))

    def decide(shard: TransactionShard, _pending: PendingResponse) -> Result[AddOffsetsToTxnResponse]:
        result = Result(AddOffsetsToTxnResponse())
        result.add(
            shard.add_partitions(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                frozenset({partition}),
                client_version=0,
            )
        )
        return result

    return parts.transactions.requests.ask(
        request.transactional_id,
        decide,
        lambda error: AddOffsetsToTxnResponse(
            error_code=fenced_code(error, context.version, _KNOWS_FENCED_FROM)
        ),
    )


API = Api(KEY, handle)
