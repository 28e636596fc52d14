"""DescribeClientQuotas (48), versions 0 to 1.

Returns the quotas of the entities that match a filter: by exact name, the default, or any name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.quotas import describe_client_quotas
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import KafkaError
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from ottla.server.parts import HasImage

KEY = 48


def handle(
    parts: HasImage, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    try:
        return describe_client_quotas(parts.image, request)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


API = Api(KEY, handle)
