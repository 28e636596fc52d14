"""InitProducerId (22), versions 0 to 6 (6 is not stable).

Gives an idempotent producer a fresh id with epoch 0. A producer that names its old id and epoch (v3) gets a
fresh id as well; naming only one of them is INVALID_REQUEST. A transactional id needs the transaction
coordinator: COORDINATOR_NOT_AVAILABLE while this node has none, which producers try again.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.server.dispatch import Api, RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 22

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer_id = broker.producer_ids.take()
    return _wait(broker) if producer_id is None else _given(producer_id)


async def _wait(broker: Broker) -> InitProducerIdResponse:
    try:
        return _given(await broker.producer_ids.wait())
    except KafkaError as error:
        return _refused(error.code)


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


API = Api(KEY, handle)
