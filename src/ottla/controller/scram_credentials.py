"""SCRAM credentials: users and mechanisms. Salts and keys never leave the image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from ottla.controller.image import ClusterImage
from ottla.wire.errors import DuplicateResource, KafkaError, ResourceNotFound
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

_Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_Info = DescribeUserScramCredentialsResponse.CredentialInfo

# Kafka's words, since its tools print them.
_DUPLICATE = "Cannot describe SCRAM credentials for the same user twice in a single request"
_MISSING = "Attempt to describe a user credential that does not exist"


def describe_scram_credentials(
    image: ClusterImage, request: DescribeUserScramCredentialsRequest
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    """Mechanisms and iterations of the users that a request names, or of all users if it names none."""
    infos: dict[str, list[_Info]] = {}
    for (mechanism, user), record in sorted(image.scram.items()):
        infos.setdefault(user, []).append(_Info(mechanism=mechanism, iterations=record.iterations))
    asked = Counter(user.name for user in request.users or ()) or dict.fromkeys(infos, 1)
    response = DescribeUserScramCredentialsResponse()
    for user, count in asked.items():
        response.results.append(_result(user, count, infos.get(user)))
        yield
    return response


def _result(user: str, count: int, infos: list[_Info] | None) -> _Result:
    if count > 1:
        return _failed(user, DuplicateResource(f"{_DUPLICATE}: {user}"))
    if infos is None:
        return _failed(user, ResourceNotFound(f"{_MISSING}: {user}"))
    return _Result(user=user, credential_infos=infos)


def _failed(user: str, error: KafkaError) -> _Result:
    return _Result(user=user, error_code=error.code, error_message=error.message)
