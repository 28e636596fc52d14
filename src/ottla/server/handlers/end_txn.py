"""EndTxn (26), versions 0 to 5.

Commits or aborts a producer's transaction. The response is sent once the decision is committed; the markers
are written meanwhile. v5 is protocol 2: the response contains the next producer id and epoch, and a repeated
request gets the same response. Before v2, a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.handlers.transaction_common import ADDING_VERSION, fenced_code
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasTransactions
    from ottla.waiting.pending_response import PendingResponse

KEY = 26

_KNOWS_FENCED_FROM = 2
_PROTOCOL_2_FROM = 5


def handle(
    parts: HasTransactions, request: EndTxnRequest, context: RequestContext
) -> EndTxnResponse | PendingResponse:
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    client_version = ADDING_VERSION if context.version >= _PROTOCOL_2_FROM else 0
    return parts.transactions.requests.ask(
        request.transactional_id,
        lambda shard, _pending: shard.end_transaction(request, client_version=client_version),
        lambda error: EndTxnResponse(error_code=fenced_code(error, context.version, _KNOWS_FENCED_FROM)),
    )


API = Api(KEY, handle)
