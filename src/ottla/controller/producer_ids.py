"""AllocateProducerIds: allocates blocks of ids for the brokers' producers. Every id is allocated once."""

from __future__ import annotations

from ottla.controller.result import Result
from ottla.controller.state import ControllerState
from ottla.wire.errors import UnknownServerError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.metadata_records import ProducerIdsRecord

BLOCK_SIZE = 1_000
_PRODUCER_ID_MAX = 2**63 - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest
) -> Result[AllocateProducerIdsResponse]:
    """Allocate the next block of ids to a broker."""
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    first = state.image.next_producer_id
    if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
        raise UnknownServerError(
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
        )
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Result(AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE), [record])
