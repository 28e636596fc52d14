"""ControllerRegistration (70), version 0, on controller listeners.

A starting controller sends its endpoints and supported features to the active controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.decisions import decision_for
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 70


async def handle(
    parts: HasQuorum, request: ControllerRegistrationRequest, context: RequestContext
) -> ControllerRegistrationResponse:
    try:
        response: ControllerRegistrationResponse = await decide(
            parts.quorum, decision_for(request, context.version)
        )
    except KafkaError as error:
        return ControllerRegistrationResponse(error_code=error.code, error_message=error.message)
    return response


API = Api(KEY, handle)
