"""AlterUserScramCredentials (51), version 0.

Sets and deletes SCRAM credentials of users. A user that a request names twice is DUPLICATE_RESOURCE, a
credential to delete that is not there RESOURCE_NOT_FOUND, one with too few or too many iterations
UNACCEPTABLE_CREDENTIAL; the other users of the request are not affected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.scram_credentials import alter_scram_credentials
from ottla.server.handlers.common import decide
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.wire.errors import KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 51


async def handle(
    parts: HasQuorum, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    return await decide(parts.quorum, lambda state: alter_scram_credentials(state, request))


def refuse(
    request: AlterUserScramCredentialsRequest, error: KafkaError, version: int
) -> Steps[AlterUserScramCredentialsResponse]:
    response = AlterUserScramCredentialsResponse()
    users = {deletion.name for deletion in request.deletions}
    users.update(upsertion.name for upsertion in request.upsertions)
    for user in sorted(users):
        response.results.append(
            AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=error.message
            )
        )
        yield
    return response


API = Api(KEY, handle, refuse=refuse)
