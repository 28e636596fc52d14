"""CreateAcls (30), versions 1 to 3.

A node without an authorizer stores no ACLs: SECURITY_DISABLED for each.
"""

from __future__ import annotations

from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse

KEY = 30


def handle(_parts: object, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            CreateAclsResponse.AclCreationResult(
                error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
            )
            for _ in request.creations
        ]
    )


API = Api(KEY, handle)
