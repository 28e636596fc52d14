"""DescribeAcls (29), versions 1 to 3.

A node without an authorizer has no ACLs: SECURITY_DISABLED.
"""

from __future__ import annotations

from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

KEY = 29


def handle(_parts: object, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


API = Api(KEY, handle)
