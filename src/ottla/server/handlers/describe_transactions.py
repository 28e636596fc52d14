"""DescribeTransactions (65), version 0.

Returns the newest transaction of each transactional id: its state, producer, timeout, start, and its
partitions (while it ends: those without their marker). An unknown id is TRANSACTIONAL_ID_NOT_FOUND; one with
another coordinator, NOT_COORDINATOR. If many ids are named more than once, each is described once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.result import Result
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, few_repeats
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode, InvalidRequest, KafkaError
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.transactions.shard import TransactionShard
    from ottla.server.coordinators.requests import CoordinatorRequest
    from ottla.server.parts import HasTransactions
    from ottla.waiting.pending_response import PendingResponse

KEY = 65

_State = DescribeTransactionsResponse.TransactionState


def handle(
    parts: HasTransactions, request: DescribeTransactionsRequest, context: RequestContext
) -> Steps[DescribeTransactionsResponse | PendingResponse]:
    if not request.transactional_ids:
        return DescribeTransactionsResponse()
    transactional_ids = yield from few_repeats(request.transactional_ids)
    return (
        yield from parts.transactions.requests.ask_many(
            map(_question, transactional_ids),
            lambda states: DescribeTransactionsResponse(transaction_states=states),
        )
    )


def _question(transactional_id: str) -> CoordinatorRequest[TransactionShard, _State]:
    def decide(shard: TransactionShard, _pending: PendingResponse) -> Result[_State]:
        if not transactional_id:
            raise InvalidRequest("The transactional id is empty.")
        return Result(shard.describe(transactional_id))

    def failed(error: KafkaError) -> _State:
        code = error.code if transactional_id else ErrorCode.INVALID_REQUEST
        return _State(transactional_id=transactional_id, error_code=code)

    return transactional_id, decide, failed


API = Api(KEY, handle)
