"""AssignReplicasToDirs (73), version 0, on controller listeners.

A broker reports the log directories of its replicas, so that the controller knows which ones are lost when a
directory goes offline. Each replica has its own result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.decisions import decision_for
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 73


async def handle(
    parts: HasQuorum, request: AssignReplicasToDirsRequest, context: RequestContext
) -> AssignReplicasToDirsResponse:
    try:
        response: AssignReplicasToDirsResponse = await decide(
            parts.quorum, decision_for(request, context.version)
        )
    except KafkaError as error:
        return AssignReplicasToDirsResponse(error_code=error.code)
    return response


API = Api(KEY, handle)
