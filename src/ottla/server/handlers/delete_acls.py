"""DeleteAcls (31), versions 1 to 3.

A node without an authorizer has no ACLs: SECURITY_DISABLED for each filter.
"""

from __future__ import annotations

from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse

KEY = 31


def handle(_parts: object, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    refusal = DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
    )
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))


API = Api(KEY, handle)
