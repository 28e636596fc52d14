"""ListPartitionReassignments (46), version 0.

Answers which partitions are on their way to other brokers: of those that are named, or of all where the list
is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.reassignments import list_partition_reassignments
from ottla.server.dispatch import Api, RequestContext
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.server.broker import Broker

KEY = 46


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return list_partition_reassignments(broker.image, request)


API = Api(KEY, handle)
