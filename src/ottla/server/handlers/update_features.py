"""UpdateFeatures (57), versions 0 to 2.

Changes the levels of the cluster's features, including `metadata.version`: all of the updates or none. v1
adds the type of an update (upgrade, safe and unsafe downgrade) instead of a flag, and `validate_only`; v2 has
no results of single features, since they succeed or fail together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.features import update_features
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 57


async def handle(
    parts: HasQuorum, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    return await decide(parts.quorum, lambda state: update_features(state, request, context.version))


def refuse(request: UpdateFeaturesRequest, error: KafkaError, version: int) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


API = Api(KEY, handle, refuse=refuse)
