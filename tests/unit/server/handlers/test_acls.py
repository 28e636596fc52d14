"""DescribeAcls, CreateAcls and DeleteAcls of a node without an authorizer."""

from __future__ import annotations

from tests.unit.server.handlers.support import ask, broker_of, image_of

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest


def test_there_are_no_rules_to_describe() -> None:
    response = ask(broker_of(image_of(1)), DescribeAclsRequest(), 3)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"
    assert response.resources == []


def test_each_new_rule_is_refused() -> None:
    creations = [CreateAclsRequest.AclCreation() for _ in range(2)]
    response = ask(broker_of(image_of(1)), CreateAclsRequest(creations=creations), 3)
    assert [one.error_code for one in response.results] == [ErrorCode.SECURITY_DISABLED] * 2
    assert {one.error_message for one in response.results} == {"No Authorizer is configured."}


def test_each_filter_of_rules_to_delete_is_refused() -> None:
    filters = [DeleteAclsRequest.DeleteAclsFilter() for _ in range(2)]
    response = ask(broker_of(image_of(1)), DeleteAclsRequest(filters=filters), 3)
    assert [one.error_code for one in response.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2
    assert {one.error_message for one in response.filter_results} == {"No Authorizer is configured."}
