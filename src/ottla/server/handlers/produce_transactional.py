"""Produce with a transactional id: the coordinator verifies partitions before anything is appended.

Up to v11, producers add partitions to their transaction themselves, and the first batch for each is verified;
from v12 on this broker adds them. A partition that may not be written to gets an error that its client can
handle: a temporary one is NOT_ENOUGH_REPLICAS (it retries the batch, without refreshing metadata). v11
supports TRANSACTION_ABORTABLE. A transaction that is already open in its partition is not verified again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transactions.states import TopicPartition
from ottla.records.batch import read_header
from ottla.records.validate import check_request
from ottla.server.coordinators.transaction_verification import Guards, Refusals, Writing, answer_when_verified
from ottla.server.handlers import produce
from ottla.server.net.dispatch import RequestContext
from ottla.server.net.long_requests import Steps
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
)
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from ottla.server.replicas.partition import Partitions

_ADDS_FROM = 12
_KNOWS_ABORTABLE_FROM = 11

_PASSING = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NetworkException, NotCoordinator)


def verify_and_append(
    parts: produce.Parts, request: ProduceRequest, context: RequestContext
) -> Steps[ProduceResponse | PendingResponse | None]:
    """The response, now or later.

    Later requests on its connection wait until this one is appended, or passed to another thread for that: so
    no batch overtakes another, and the waiting requests count in the request memory.
    """
    try:
        writing = yield from _writing(parts.partitions, request, context.version)
    except InvalidProducerIdMapping as error:
        return produce.append_all(parts, request, context, refusal=error)
    if writing is None:
        return produce.append_all(parts, request, context)

    connection = context.connection
    is_held = False

    def append(refusals: Refusals, guards: Guards) -> ProduceResponse | PendingResponse | None:
        shown = {key: _shown(error, adds=writing.adds) for key, error in refusals.items()}
        try:
            return produce.append_all(parts, request, context, refusals=shown, guards=guards)
        finally:
            if is_held:
                connection.release()

    def hold() -> None:
        nonlocal is_held
        is_held = True
        connection.hold(produce.keep_records(connection, request.topic_data))

    answer = answer_when_verified(parts.transactions.verification, writing, append, before_waiting=hold)
    return answer if request.acks != 0 else None


def _writing(partitions: Partitions, request: ProduceRequest, version: int) -> Steps[Writing | None]:
    """The transactional write in a request; None if there is none.

    InvalidProducerIdMapping: by more than one producer.
    """
    sequences: dict[TopicPartition, int] = {}
    producers: set[tuple[int, int]] = set()
    for topic in request.topic_data:
        hosted = partitions.by_id.get(topic.topic_id) if version >= 13 else partitions.by_name.get(topic.name)
        for data in topic.partition_data:
            yield
            partition = hosted.get(data.index) if hosted is not None else None
            if partition is None or data.records is None:
                continue
            try:
                check_request(data.records, version)
                header = read_header(data.records)
            except KafkaError:
                continue  # it is refused when it is appended
            if header.is_transactional and header.producer_id >= 0:
                producers.add((header.producer_id, header.producer_epoch))
                sequences[partition.topic, data.index] = header.base_sequence
    if not producers:
        return None
    if len(producers) > 1:
        raise InvalidProducerIdMapping("Transactional records contained more than one producer ID")
    ((producer_id, producer_epoch),) = producers
    assert request.transactional_id is not None
    return Writing(
        transactional_id=request.transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        sequences=sequences,
        adds=version >= _ADDS_FROM,
        knows_abortable=version >= _KNOWS_ABORTABLE_FROM,
    )


def _shown(error: KafkaError, *, adds: bool) -> KafkaError:
    if isinstance(error, InvalidTxnState):
        return InvalidTxnState("Partition was not added to the transaction")
    if isinstance(error, _PASSING) or (isinstance(error, ConcurrentTransactions) and not adds):
        return NotEnoughReplicas(
            f"Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{error.code.name}"
        )
    return error
