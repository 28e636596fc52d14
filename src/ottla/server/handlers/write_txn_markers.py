"""WriteTxnMarkers (27), versions 1 and 2.

A transaction coordinator, or an admin who aborts a hanging transaction, has the ends of transactions written
into partitions that this node leads. Answered once they are committed, each partition for itself: stale
epochs are INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED. v2 names the version of the transaction,
by which the epoch is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transactions.marker_sender import Outcomes
from ottla.coordinator.transactions.states import TopicPartition
from ottla.server.coordinators.marker_writer import write_marker_in_steps
from ottla.server.net.answers import Answer
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 27


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext
) -> Steps[Steps[WriteTxnMarkersResponse] | Answer]:
    outcomes: dict[int, dict[TopicPartition, int]] = {}
    open_count = len(request.markers)
    answer: Answer | None = None

    def finish(producer_id: int, found: Outcomes) -> None:
        nonlocal open_count
        outcomes.setdefault(producer_id, {}).update(found)
        open_count -= 1
        if open_count == 0 and answer is not None:
            answer.settle(_response(outcomes))

    for marker in request.markers:
        producer_id = marker.producer_id
        yield from write_marker_in_steps(
            broker,
            marker,
            lambda found, producer_id=producer_id: finish(producer_id, found),  # type: ignore[misc]
        )
        yield
    if open_count == 0:
        return _response(outcomes)
    answer = Answer()
    return answer


def _response(outcomes: dict[int, dict[TopicPartition, int]]) -> Steps[WriteTxnMarkersResponse]:
    response = WriteTxnMarkersResponse()
    for producer_id, found in outcomes.items():
        topics: dict[str, list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
        for (topic, index), code in found.items():
            topics.setdefault(topic, []).append(
                WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=code
                )
            )
            yield
        yield
        marker = WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=producer_id)
        response.markers.append(marker)
        for name, results in topics.items():
            marker.topics.append(
                WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=name, partitions=results)
            )
            yield
    return response


API = Api(KEY, handle)
