"""ListPartitionReassignments (46), version 0.

Returns the reassignments in progress: of the named partitions, or of all if the list is null.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from ottla.controller.reassignments import list_partition_reassignments
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.server.parts import HasImage

KEY = 46

TOPICS_IN_STEP = 200


def handle(
    parts: HasImage, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Steps[ListPartitionReassignmentsResponse]:
    if request.topics is None:
        return list_partition_reassignments(parts.image, request)
    response = ListPartitionReassignmentsResponse(error_message=None)
    for first in range(0, len(request.topics), TOPICS_IN_STEP):
        part = copy(request)
        part.topics = request.topics[first : first + TOPICS_IN_STEP]
        response.topics += list_partition_reassignments(parts.image, part).topics
        yield
    return response


API = Api(KEY, handle)
