"""The admin on each cluster: quotas, credentials, rules and tokens; what a broker does not serve it says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    Admin,
    Match,
    PatternType,
    QuotaFilter,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    quota_entity,
)
from ottla.wire.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenRequestNotAllowed,
    GroupIdNotFound,
    InvalidRequest,
    ResourceNotFound,
    SecurityDisabled,
    UnacceptableCredential,
    UnsupportedVersion,
)
from tests.interop import peers
from tests.interop.library.support import LibraryCluster, eventually, unique

PATIENCE_MS = 120_000
SECURE = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def admin(cluster: LibraryCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, default_api_timeout_ms=PATIENCE_MS) as made:
        yield made


@pytest.fixture(scope="module")
def guarded() -> Iterator[Admin]:
    """Kafka with rules of access, in which everybody may do everything."""
    with (
        peers.running("kafka", properties=SECURE) as broker,
        Admin(broker.bootstrap, default_api_timeout_ms=PATIENCE_MS) as made,
    ):
        yield made


def test_quotas_are_set_read_and_removed(admin: Admin) -> None:
    user, both = quota_entity(user=unique("ann")), quota_entity(user=unique("bob"), client_id="c")
    default = quota_entity(user=None)

    results = admin.alter_client_quotas(
        {
            user: {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0},
            both: {"request_percentage": 50.0},
            default: {"no_such_quota": 1.0},
        }
    )

    assert {entity: type(error) for entity, error in results.failed.items()} == {default: InvalidRequest}
    name = user[0][1]
    exact = [QuotaFilter("user", Match.EXACT, name)]
    told = {user: {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0}}
    eventually(lambda: admin.describe_client_quotas(exact) == told, "the quota")
    eventually(lambda: both in admin.describe_client_quotas([QuotaFilter("user")]), "the quota of two parts")
    assert both not in admin.describe_client_quotas([QuotaFilter("user")], strict=True)
    eventually(lambda: both in admin.describe_client_quotas(), "all quotas")
    admin.alter_client_quotas({user: {"producer_byte_rate": None, "consumer_byte_rate": None}}).all()
    eventually(lambda: not admin.describe_client_quotas(exact), "the quota to go")


def test_credentials_are_set_read_and_removed(admin: Admin) -> None:
    user, second, missing = unique("ann"), unique("bob"), unique("missing")
    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramUpsertion(user, ScramMechanism.SCRAM_SHA_256, "secret", 8192),
        ScramUpsertion(second, ScramMechanism.SCRAM_SHA_512, b"secret"),
        ScramUpsertion("", ScramMechanism.SCRAM_SHA_256, "secret"),
        ScramDeletion(missing, ScramMechanism.SCRAM_SHA_256),
    ]
    results = admin.alter_user_scram_credentials(changes)
    assert isinstance(results[""], UnacceptableCredential)
    assert results[user] is results[second] is None
    assert isinstance(results[missing], ResourceNotFound)
    eventually(lambda: {user, second} <= admin.describe_user_scram_credentials().keys(), "the credentials")
    described = admin.describe_user_scram_credentials([user, second, missing])
    assert described.result(user) == (ScramCredential(ScramMechanism.SCRAM_SHA_256, 8192),)
    assert described.result(second) == (ScramCredential(ScramMechanism.SCRAM_SHA_512, 4096),)
    assert isinstance(described[missing], ResourceNotFound)
    admin.alter_user_scram_credentials([ScramDeletion(user, ScramMechanism.SCRAM_SHA_256)]).all()


def test_rules_and_tokens_are_refused_where_they_are_switched_off(
    admin: Admin, cluster: LibraryCluster
) -> None:
    tokens = (
        (DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed)
        if cluster.kind == "kafka"
        else (UnsupportedVersion,)
    )

    with pytest.raises(SecurityDisabled):
        admin.describe_acls()
    for refused in (
        admin.create_delegation_token,
        admin.describe_delegation_tokens,
        lambda: admin.renew_delegation_token(b"none"),
        lambda: admin.expire_delegation_token(b"none"),
    ):
        with pytest.raises(tokens):
            refused()


def test_groups_of_newer_kinds_are_not_found_or_not_served(admin: Admin, cluster: LibraryCluster) -> None:
    group = unique("none")
    expected = GroupIdNotFound if cluster.kind == "kafka" else UnsupportedVersion

    assert isinstance(admin.describe_share_groups([group])[group], expected)
    assert isinstance(admin.describe_streams_groups([group])[group], expected)


def test_rules_are_made_found_and_deleted(guarded: Admin) -> None:
    topic = unique("topic")
    read = Acl(AclResourceType.TOPIC, topic, "User:ann", AclOperation.READ)
    prefix = Acl(AclResourceType.GROUP, topic, "User:*", AclOperation.ALL, pattern_type=PatternType.PREFIXED)
    vague = Acl(AclResourceType.ANY, topic, "User:ann", AclOperation.READ)
    wrong = Acl(AclResourceType.TOPIC, topic, "ann", AclOperation.READ)

    results = guarded.create_acls([read, prefix, vague, wrong])

    assert set(results.failed) == {vague, wrong}
    assert isinstance(results[vague], InvalidRequest)
    by_topic = AclFilter(AclResourceType.TOPIC, topic)
    eventually(lambda: guarded.describe_acls(by_topic) == (read,), "the rule")
    eventually(lambda: {read, prefix} <= set(guarded.describe_acls()), "both rules")
    nothing = AclFilter(principal="User:nobody")
    deleted = guarded.delete_acls([AclFilter(resource_name=topic), nothing]).all()
    assert set(deleted[AclFilter(resource_name=topic)]) == {read, prefix}
    assert deleted[nothing] == ()
    eventually(lambda: not guarded.describe_acls(by_topic), "the rules to go")
