"""DescribeUserScramCredentials (50), version 0.

Returns the SCRAM mechanisms for which users have credentials, and their iterations; all users if the request
names none. A user without credentials is RESOURCE_NOT_FOUND, one named twice DUPLICATE_RESOURCE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.scram_credentials import describe_scram_credentials
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from ottla.server.parts import HasImage

KEY = 50


def handle(
    parts: HasImage, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> Steps[DescribeUserScramCredentialsResponse]:
    return describe_scram_credentials(parts.image, request)


API = Api(KEY, handle)
