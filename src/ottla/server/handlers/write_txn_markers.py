"""WriteTxnMarkers (27), versions 1 and 2.

A transaction coordinator, or an admin client that aborts a hanging transaction, sends markers for partitions
that this node leads. The response is sent once they are committed; each partition has its own result: stale
epochs are INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED. v2 contains the transaction version,
which determines how the epoch is checked.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.transactions.markers import Outcomes
from ottla.coordinator.transactions.states import TopicPartition
from ottla.server.coordinators.marker_writer import write_marker
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.waiting.gather import Gather
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from ottla.server.coordinators.marker_writer import MarkerParts

KEY = 27


def handle(
    parts: MarkerParts, request: WriteTxnMarkersRequest, context: RequestContext
) -> Steps[Steps[WriteTxnMarkersResponse] | PendingResponse]:
    producer_ids = [marker.producer_id for marker in request.markers]
    gather: Gather[Outcomes, Steps[WriteTxnMarkersResponse]] = Gather(partial(_response, producer_ids))
    for marker in request.markers:
        gather.add((yield from write_marker(parts, marker)))
        yield
    return gather.response()


def _response(producer_ids: list[int], parts: list[Outcomes]) -> Steps[WriteTxnMarkersResponse]:
    outcomes: dict[int, dict[TopicPartition, int]] = {}
    for producer_id, part in zip(producer_ids, parts, strict=True):
        outcomes.setdefault(producer_id, {}).update(part)
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
