"""SCRAM credentials: users and mechanisms. Salts and keys never leave the image.

A client sends a salted password, never the password itself. The log keeps two keys that are derived from it:
whoever reads them can check a login, but not log in.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass

from ottla.controller.feature_levels import SCRAM_LEVEL
from ottla.controller.image import ClusterImage
from ottla.controller.result import RECORDS_PER_REQUEST_MAX, TOO_LARGE, Result, Steps
from ottla.controller.state import ControllerState
from ottla.wire.errors import (
    DuplicateResource,
    KafkaError,
    PolicyViolation,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from ottla.wire.message import Message
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from ottla.wire.messages.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

_Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_Info = DescribeUserScramCredentialsResponse.CredentialInfo

_Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
_Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """How the protocol, the records and `hashlib` call a mechanism."""

    name: str
    code: int
    digest: str


MECHANISMS = (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384

_BY_CODE = {mechanism.code: mechanism for mechanism in MECHANISMS}

# Kafka's words, since its tools print them.
_ALTERED_TWICE = "A user credential cannot be altered twice in the same request"
_NOT_SUPPORTED = "The current metadata.version does not support SCRAM"
_NOTHING_TO_DELETE = "Attempt to delete a user credential that does not exist"
_DUPLICATE = "Cannot describe SCRAM credentials for the same user twice in a single request"
_MISSING = "Attempt to describe a user credential that does not exist"


def credential_record(
    mechanism: ScramMechanism, user: str, salted_password: bytes, salt: bytes, iterations: int
) -> UserScramCredentialRecord:
    """What the log keeps of a credential."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism.code,
        salt=salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", mechanism.digest),
        iterations=iterations,
    )


def alter_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest
) -> Steps[Result[AlterUserScramCredentialsResponse]]:
    """Set and delete credentials. A user occurs once in a request and succeeds or fails on its own."""
    changes: list[_Deletion | _Upsertion] = [*request.deletions, *request.upsertions]
    counts = Counter(change.name for change in changes)
    records: list[Message] = []
    response = AlterUserScramCredentialsResponse()
    answered: set[str] = set()
    for change in changes:
        yield
        if change.name in answered:
            continue
        answered.add(change.name)
        result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
            user=change.name, error_message=None
        )
        response.results.append(result)
        try:
            record = _record_of(state.image, change)
            if counts[change.name] > 1:
                raise DuplicateResource(_ALTERED_TWICE)
            records.append(record)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    if len(records) > RECORDS_PER_REQUEST_MAX:
        raise PolicyViolation(TOO_LARGE)
    return Result(response, records)


def _record_of(image: ClusterImage, change: _Deletion | _Upsertion) -> Message:
    if image.metadata_version < SCRAM_LEVEL:
        raise UnsupportedVersion(_NOT_SUPPORTED)
    if not change.name:
        raise UnacceptableCredential("Username must not be empty")
    mechanism = _BY_CODE.get(change.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if isinstance(change, _Deletion):
        if (change.mechanism, change.name) not in image.scram:
            raise ResourceNotFound(_NOTHING_TO_DELETE)
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < ITERATIONS_MIN:
        raise UnacceptableCredential("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise UnacceptableCredential("Too many iterations")
    return credential_record(mechanism, change.name, change.salted_password, change.salt, change.iterations)


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
