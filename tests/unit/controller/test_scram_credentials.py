"""DescribeUserScramCredentials: who has credentials, without what they are made of."""

from __future__ import annotations

from tests.unit.coordinator.groups.shards import outcome_of

from ottla.controller.bootstrap import parse_scram
from ottla.controller.image import ClusterImage
from ottla.controller.scram_credentials import describe_scram_credentials
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest


def image_with(*arguments: str) -> ClusterImage:
    image = ClusterImage()
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
