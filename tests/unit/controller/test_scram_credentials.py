"""SCRAM credentials: what is kept of them, and who is told what."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.coordinator.groups.shards import outcome_of

from ottla.controller.bootstrap import parse_scram
from ottla.controller.image import ClusterImage
from ottla.controller.result import RECORDS_PER_REQUEST_MAX
from ottla.controller.scram_credentials import alter_scram_credentials, describe_scram_credentials
from ottla.wire.errors import ErrorCode, PolicyViolation
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.wire.messages.metadata_records import FeatureLevelRecord


def image_with(*arguments: str) -> ClusterImage:
    image = ClusterImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=11))
    for argument in arguments:
        image.replay(parse_scram(argument, bytes))
    return image


def described(image: ClusterImage, *users: str) -> dict[str, object]:
    """Of each user the mechanisms with their iterations, or the error code."""
    names = [DescribeUserScramCredentialsRequest.UserName(name=user) for user in users]
    response = outcome_of(
        describe_scram_credentials(image, DescribeUserScramCredentialsRequest(users=names or None))
    )
    assert response.error_code == 0
    return {
        one.user: one.error_code or [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in response.results
    }


IMAGE = image_with(
    "SCRAM-SHA-512=[name=alice,password=a,iterations=8192]",
    "SCRAM-SHA-256=[name=alice,password=a]",
    "SCRAM-SHA-256=[name=bob,password=b]",
)


def test_all_users_are_described_where_a_request_names_none() -> None:
    assert described(IMAGE) == {"alice": [(1, 4096), (2, 8192)], "bob": [(1, 4096)]}
    assert described(ClusterImage()) == {}


def test_only_the_named_users_are_described() -> None:
    assert described(IMAGE, "bob") == {"bob": [(1, 4096)]}


def test_an_unknown_user_and_a_repeated_one_get_errors_of_their_own() -> None:
    assert described(IMAGE, "carol", "bob", "alice", "bob") == {
        "carol": ErrorCode.RESOURCE_NOT_FOUND,
        "bob": ErrorCode.DUPLICATE_RESOURCE,
        "alice": [(1, 4096), (2, 8192)],
    }


Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096, password: str = "p") -> Upsertion:
    digest = "sha512" if mechanism == 2 else "sha256"
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), b"salt", iterations)
    return Upsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def altered(image: ClusterImage, *changes: Deletion | Upsertion) -> dict[str, int]:
    """Change the image; return the error code of each user."""
    state: Any = SimpleNamespace(image=image)
    request = AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, Deletion)],
        upsertions=[change for change in changes if isinstance(change, Upsertion)],
    )
    result = outcome_of(alter_scram_credentials(state, request))
    for record in result.records:
        image.replay(record)
    return {one.user: one.error_code for one in result.response.results}


@pytest.mark.parametrize(("name", "mechanism"), [("SCRAM-SHA-256", 1), ("SCRAM-SHA-512", 2)])
def test_a_credential_is_kept_as_the_formatter_keeps_it(name: str, mechanism: int) -> None:
    image = image_with()
    assert altered(image, upsertion("ann", mechanism, 8192, "secret")) == {"ann": 0}
    formatted = image_with(f"{name}=[name=ann,password=secret,iterations=8192,salt=c2FsdA==]")
    assert image.scram == formatted.scram


def test_a_credential_is_replaced_and_deleted() -> None:
    image = image_with("SCRAM-SHA-256=[name=ann,password=a]", "SCRAM-SHA-512=[name=ann,password=a]")
    assert altered(image, upsertion("ann", iterations=5000)) == {"ann": 0}
    assert described(image) == {"ann": [(1, 5000), (2, 4096)]}
    assert altered(image, Deletion(name="ann", mechanism=2)) == {"ann": 0}
    assert described(image) == {"ann": [(1, 5000)]}


def test_each_user_fails_alone() -> None:
    image = image_with("SCRAM-SHA-256=[name=ann,password=a]")
    assert altered(
        image,
        Deletion(name="ann", mechanism=2),
        Deletion(name="", mechanism=1),
        Deletion(name="odd", mechanism=7),
        upsertion("few", iterations=4095),
        upsertion("many", iterations=16385),
        upsertion("most", iterations=16384),
        upsertion("twice"),
        upsertion("twice", 2),
    ) == {
        "ann": ErrorCode.RESOURCE_NOT_FOUND,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "odd": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "most": 0,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert described(image) == {"ann": [(1, 4096)], "most": [(1, 16384)]}


def test_a_user_is_not_deleted_and_set_in_one_request() -> None:
    image = image_with("SCRAM-SHA-256=[name=ann,password=a]")
    assert altered(image, Deletion(name="ann", mechanism=1), upsertion("ann", 2)) == {
        "ann": ErrorCode.DUPLICATE_RESOURCE
    }
    assert described(image) == {"ann": [(1, 4096)]}


def test_an_old_metadata_version_keeps_no_credentials() -> None:
    image = ClusterImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=10))
    assert altered(image, upsertion("ann"), Deletion(name="bob", mechanism=1)) == {
        "ann": ErrorCode.UNSUPPORTED_VERSION,
        "bob": ErrorCode.UNSUPPORTED_VERSION,
    }


def test_a_request_with_too_many_credentials_changes_nothing() -> None:
    many = [
        Upsertion(name=f"user-{number}", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
        for number in range(RECORDS_PER_REQUEST_MAX + 1)
    ]
    image = image_with()
    with pytest.raises(PolicyViolation):
        altered(image, *many)
    assert not image.scram
