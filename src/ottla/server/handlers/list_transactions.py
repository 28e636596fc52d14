"""ListTransactions (66), versions 0 to 2.

Returns the transactional ids whose coordinator is this node, filtered by state and producer id, from v1 on by
the duration of their transaction, from v2 on by a pattern for the id. The response names unknown states.
While a partition is loading: COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.groups import regex
from ottla.coordinator.transactions.shard import Filter
from ottla.coordinator.transactions.states import STATE_OF_LABEL
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, distinct
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from ottla.coordinator.transactions.shard import TransactionShard
    from ottla.server.parts import HasTransactions
    from ottla.waiting.pending_response import PendingResponse

KEY = 66


def handle(
    parts: HasTransactions, request: ListTransactionsRequest, context: RequestContext
) -> Steps[ListTransactionsResponse | PendingResponse]:
    names = yield from distinct(request.state_filters)
    unknown = [name for name in names if name not in STATE_OF_LABEL]
    states = frozenset(STATE_OF_LABEL[name] for name in names if name in STATE_OF_LABEL) if names else None
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = regex.compile(request.transactional_id_pattern)
        except regex.InvalidExpression:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    wanted = Filter(
        states=states,
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
    )

    def choose(shard: TransactionShard) -> Steps[list[str]]:
        transactional_ids = list(shard.transactions)
        yield
        return transactional_ids if pattern is None else (yield from pattern.select(transactional_ids))

    def join(
        found: list[ListTransactionsResponse.TransactionState], is_any_loading: bool
    ) -> ListTransactionsResponse:
        if is_any_loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)

    return (
        yield from parts.transactions.requests.ask_every(
            choose, lambda shard, transactional_ids: shard.list(transactional_ids, wanted), join
        )
    )


API = Api(KEY, handle)
