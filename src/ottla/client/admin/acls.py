"""ACLs: which principal may do what with which resource."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ottla.client.admin.codes import Code
from ottla.client.admin.engine import Engine, Role
from ottla.client.admin.permissions import AclOperation
from ottla.client.admin.results import Results, check, failure
from ottla.wire.errors import InvalidRequest
from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

ANY_HOST = "*"
CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class AclResourceType(Code):
    """The type of the resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(Code):
    """How the resource name is matched. MATCH and ANY are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(Code):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL. `principal` is for example "User:ann"; "User:*" matches every user."""

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = ANY_HOST
    pattern_type: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Matches ACLs by all fields that are set; None and ANY match everything."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


async def describe_acls(
    engine: Engine, wanted: AclFilter | None = None, *, timeout_ms: int | None = None
) -> tuple[Acl, ...]:
    """Return the ACLs that match a filter; without a filter, all."""
    by = wanted or AclFilter()
    request = DescribeAclsRequest(
        resource_type_filter=by.resource_type,
        resource_name_filter=by.resource_name,
        pattern_type_filter=by.pattern_type,
        principal_filter=by.principal,
        host_filter=by.host,
        operation=by.operation,
        permission_type=by.permission,
    )
    return await engine.call(
        "describe_acls",
        Role.BROKER_OR_CONTROLLER,
        lambda timeout_ms: request,
        read_acls,
        deadline=engine.deadline(timeout_ms),
    )


def read_acls(answer: DescribeAclsResponse) -> tuple[Acl, ...]:
    """Read the ACLs in a response; pure."""
    check(answer.error_code, answer.error_message)
    return tuple(
        Acl(
            AclResourceType(resource.resource_type),
            resource.resource_name,
            one.principal,
            AclOperation(one.operation),
            AclPermission(one.permission_type),
            one.host,
            PatternType(resource.pattern_type),
        )
        for resource in answer.resources
        for one in resource.acls
    )


async def create_acls(
    engine: Engine, acls: Iterable[Acl], *, timeout_ms: int | None = None
) -> Results[Acl, None]:
    """Create ACLs. An ACL that already exists is not an error."""
    listed = list(dict.fromkeys(acls))
    vague = {acl: error for acl in listed if (error := _vagueness(acl)) is not None}

    def build(acls: Collection[Acl], timeout_ms: int) -> CreateAclsRequest:
        return CreateAclsRequest(
            creations=[
                CreateAclsRequest.AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ]
        )

    def read(acls: Collection[Acl], answer: CreateAclsResponse) -> dict[Acl, Exception | None]:
        return {
            acl: failure(told.error_code, told.error_message) if told.error_code else None
            for acl, told in zip(acls, answer.results, strict=False)
        }

    places = {acl: Role.BROKER_OR_CONTROLLER for acl in listed if acl not in vague}
    done: Results[Acl, None] = await engine.items(
        "create_acls", places, build, read, deadline=engine.deadline(timeout_ms)
    )
    return Results({acl: vague[acl] if acl in vague else done[acl] for acl in listed})


def _vagueness(acl: Acl) -> Exception | None:
    """The error of an ACL that does not specify everything."""
    vague = {
        "resource type": acl.resource_type in (AclResourceType.ANY, AclResourceType.UNKNOWN),
        "pattern type": acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED),
        "operation": acl.operation in (AclOperation.ANY, AclOperation.UNKNOWN),
        "permission": acl.permission in (AclPermission.ANY, AclPermission.UNKNOWN),
    }
    open_parts = [name for name, is_vague in vague.items() if is_vague]
    if open_parts:
        return InvalidRequest(f"An ACL to create must specify exactly one of each: {', '.join(open_parts)}.")
    return None


async def delete_acls(
    engine: Engine, filters: Iterable[AclFilter], *, timeout_ms: int | None = None
) -> Results[AclFilter, tuple[Acl, ...]]:
    """Delete the ACLs that match filters; the results are the deleted ACLs."""

    def build(filters: Collection[AclFilter], timeout_ms: int) -> DeleteAclsRequest:
        return DeleteAclsRequest(
            filters=[
                DeleteAclsRequest.DeleteAclsFilter(
                    resource_type_filter=by.resource_type,
                    resource_name_filter=by.resource_name,
                    pattern_type_filter=by.pattern_type,
                    principal_filter=by.principal,
                    host_filter=by.host,
                    operation=by.operation,
                    permission_type=by.permission,
                )
                for by in filters
            ]
        )

    places = dict.fromkeys(filters, Role.BROKER_OR_CONTROLLER)
    return await engine.items(
        "delete_acls", places, build, read_deleted, deadline=engine.deadline(timeout_ms)
    )


def read_deleted(
    filters: Collection[AclFilter], answer: DeleteAclsResponse
) -> dict[AclFilter, tuple[Acl, ...] | Exception]:
    """Read the deleted ACLs in a response; an error of one of them fails its filter. Pure."""
    outcomes: dict[AclFilter, tuple[Acl, ...] | Exception] = {}
    for by, told in zip(filters, answer.filter_results, strict=False):
        failed = next((one for one in told.matching_acls if one.error_code), None)
        if told.error_code:
            outcomes[by] = failure(told.error_code, told.error_message)
        elif failed is not None:
            outcomes[by] = failure(failed.error_code, failed.error_message)
        else:
            outcomes[by] = tuple(
                Acl(
                    AclResourceType(one.resource_type),
                    one.resource_name,
                    one.principal,
                    AclOperation(one.operation),
                    AclPermission(one.permission_type),
                    one.host,
                    PatternType(one.pattern_type),
                )
                for one in told.matching_acls
            )
    return outcomes
