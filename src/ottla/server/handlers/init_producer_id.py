"""InitProducerId (22), versions 0 to 6 (6 is not stable).

An idempotent producer gets a new id with epoch 0. A transactional producer asks the coordinator of its
transactional id: it gets a new epoch, which fences its predecessors; while a predecessor's transaction is
being aborted, the response is CONCURRENT_TRANSACTIONS: retry. v3: a producer that recovers from an error
sends its id and epoch; only one of them is INVALID_REQUEST. Before v4, a fenced producer gets
INVALID_PRODUCER_EPOCH. v6 adds two-phase commit: no timeout, and a prepared transaction that is kept.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from ottla.server.handlers.transaction_common import fenced_code
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasProducerIds, HasTransactions
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.server.coordinators.producer_ids import ProducerIds
    from ottla.waiting.pending_response import PendingResponse

KEY = 22

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
_KNOWS_FENCED_FROM = 4


class Parts(HasTransactions, HasProducerIds, Protocol):
    """The parts of a node that InitProducerId needs."""


def handle(
    parts: Parts, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | PendingResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return parts.transactions.requests.ask(
            request.transactional_id,
            lambda shard, _pending: shard.init_producer_id(request),
            lambda error: _refused(fenced_code(error, context.version, _KNOWS_FENCED_FROM)),
        )
    producer_id = parts.producer_ids.take()
    return _wait(parts.producer_ids) if producer_id is None else _given(producer_id)


async def _wait(producer_ids: ProducerIds) -> InitProducerIdResponse:
    try:
        return _given(await producer_ids.wait())
    except KafkaError as error:
        return _refused(error.code)


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


API = Api(KEY, handle)
