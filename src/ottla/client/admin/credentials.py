"""SCRAM credentials of users, and delegation tokens.

A password never leaves the client: it sends the salted form that the cluster stores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ottla.client.admin.codes import Code
from ottla.client.admin.engine import Engine, Role
from ottla.client.admin.results import Results, check, failure
from ottla.wire.errors import ErrorCode, NotController, UnacceptableCredential
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

_SALT_BYTES = 20


class ScramMechanism(Code):
    """The hash of a SCRAM credential. The numbers are the protocol's."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A user's credential, without its secret."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A credential to set. Without a salt, a random one is used."""

    user: str
    mechanism: ScramMechanism
    password: str | bytes = field(repr=False)
    iterations: int = 4096
    salt: bytes | None = None


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A credential to remove."""

    user: str
    mechanism: ScramMechanism


async def describe_user_scram_credentials(
    engine: Engine, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
) -> Results[str, tuple[ScramCredential, ...]]:
    """Describe the credentials of users; without users: of all users that have any."""
    names = None if users is None else list(dict.fromkeys(users))
    wanted = None
    if names is not None:
        wanted = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
    return await engine.call(
        "describe_user_scram_credentials",
        Role.BROKER,
        lambda timeout_ms: DescribeUserScramCredentialsRequest(users=wanted),
        read_credentials,
        deadline=engine.deadline(timeout_ms),
    )


def read_credentials(
    answer: DescribeUserScramCredentialsResponse,
) -> Results[str, tuple[ScramCredential, ...]]:
    """Read the credentials in a response; pure."""
    check(answer.error_code, answer.error_message)
    return Results(
        {
            told.user: failure(told.error_code, told.error_message)
            if told.error_code
            else tuple(
                ScramCredential(ScramMechanism(one.mechanism), one.iterations)
                for one in told.credential_infos
            )
            for told in answer.results
        }
    )


async def alter_user_scram_credentials(
    engine: Engine, changes: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: int | None = None
) -> Results[str, None]:
    """Set and delete credentials; the results are by user."""
    listed = list(changes)
    refused = {one.user: error for one in listed if (error := _refusal(one)) is not None}
    sent = [one for one in listed if one.user not in refused]
    request = AlterUserScramCredentialsRequest(
        deletions=[
            AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=one.user, mechanism=one.mechanism)
            for one in sent
            if isinstance(one, ScramDeletion)
        ],
        upsertions=[
            _upsertion(one, one.salt or engine.random.bytes(_SALT_BYTES))
            for one in sent
            if isinstance(one, ScramUpsertion)
        ],
    )

    def read(
        users: Collection[str], answer: AlterUserScramCredentialsResponse
    ) -> dict[str, Exception | None]:
        if any(told.error_code == ErrorCode.NOT_CONTROLLER for told in answer.results):
            raise NotController("The controller has moved.")
        return {
            told.user: failure(told.error_code, told.error_message) if told.error_code else None
            for told in answer.results
        }

    places = {one.user: Role.CONTROLLER for one in sent}
    done: Results[str, None] = await engine.items(
        "alter_user_scram_credentials",
        places,
        lambda users, timeout_ms: request,
        read,
        deadline=engine.deadline(timeout_ms),
    )
    return Results({**refused, **done})


def _refusal(change: ScramUpsertion | ScramDeletion) -> Exception | None:
    if not change.user:
        return UnacceptableCredential("The user name must not be empty.")
    if change.mechanism is ScramMechanism.UNKNOWN:
        return failure(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism.")
    if isinstance(change, ScramUpsertion) and not change.password:
        return UnacceptableCredential("The password must not be empty.")
    return None


def _upsertion(
    wanted: ScramUpsertion, salt: bytes
) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    password = wanted.password.encode() if isinstance(wanted.password, str) else wanted.password
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(wanted.mechanism.hash_name, password, salt, wanted.iterations),
    )


# Delegation tokens


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal: `Principal("User", "ann")`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token with its secret (`hmac`) and the principals that may renew it."""

    owner: Principal
    requester: Principal
    issued_ms: int
    expires_ms: int
    lifetime_end_ms: int
    token_id: str
    hmac: bytes
    renewers: tuple[Principal, ...] = ()


async def create_delegation_token(
    engine: Engine,
    *,
    renewers: Iterable[Principal] = (),
    owner: Principal | None = None,
    max_lifetime_ms: int = -1,
    timeout_ms: int | None = None,
) -> DelegationToken:
    """Create a token for the calling user, or for `owner`."""
    from ottla.wire.messages.create_delegation_token import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )

    allowed = tuple(renewers)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner.type if owner else None,
        owner_principal_name=owner.name if owner else None,
        renewers=[
            CreateDelegationTokenRequest.CreatableRenewers(principal_type=one.type, principal_name=one.name)
            for one in allowed
        ],
        max_lifetime_ms=max_lifetime_ms,
    )

    def read(answer: CreateDelegationTokenResponse) -> DelegationToken:
        check(answer.error_code)
        return DelegationToken(
            Principal(answer.principal_type, answer.principal_name),
            Principal(answer.token_requester_principal_type, answer.token_requester_principal_name),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
            answer.token_id,
            bytes(answer.hmac),
            allowed,
        )

    return await engine.call(
        "create_delegation_token",
        Role.BROKER,
        lambda timeout_ms: request,
        read,
        deadline=engine.deadline(timeout_ms),
    )


async def renew_delegation_token(
    engine: Engine, hmac: bytes, *, renew_period_ms: int = -1, timeout_ms: int | None = None
) -> int:
    """Extend the life of a token. The result is its new expiry time in ms."""
    from ottla.wire.messages.renew_delegation_token import (
        RenewDelegationTokenRequest,
        RenewDelegationTokenResponse,
    )

    def read(answer: RenewDelegationTokenResponse) -> int:
        check(answer.error_code)
        return answer.expiry_timestamp_ms

    return await engine.call(
        "renew_delegation_token",
        Role.BROKER,
        lambda timeout_ms: RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms),
        read,
        deadline=engine.deadline(timeout_ms),
    )


async def expire_delegation_token(
    engine: Engine, hmac: bytes, *, expiry_period_ms: int = -1, timeout_ms: int | None = None
) -> int:
    """Expire a token after a time; -1: now. The result is its expiry time in ms."""
    from ottla.wire.messages.expire_delegation_token import (
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
    )

    def read(answer: ExpireDelegationTokenResponse) -> int:
        check(answer.error_code)
        return answer.expiry_timestamp_ms

    return await engine.call(
        "expire_delegation_token",
        Role.BROKER,
        lambda timeout_ms: ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_period_ms),
        read,
        deadline=engine.deadline(timeout_ms),
    )


async def describe_delegation_tokens(
    engine: Engine, owners: Iterable[Principal] | None = None, *, timeout_ms: int | None = None
) -> tuple[DelegationToken, ...]:
    """Describe the tokens that the calling user may see; `owners`: only theirs."""
    from ottla.wire.messages.describe_delegation_token import (
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )

    wanted = None
    if owners is not None:
        wanted = [
            DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(
                principal_type=one.type, principal_name=one.name
            )
            for one in owners
        ]

    def read(answer: DescribeDelegationTokenResponse) -> tuple[DelegationToken, ...]:
        check(answer.error_code)
        return tuple(
            DelegationToken(
                Principal(told.principal_type, told.principal_name),
                Principal(told.token_requester_principal_type, told.token_requester_principal_name),
                told.issue_timestamp,
                told.expiry_timestamp,
                told.max_timestamp,
                told.token_id,
                bytes(told.hmac),
                tuple(Principal(one.principal_type, one.principal_name) for one in told.renewers),
            )
            for told in answer.tokens
        )

    return await engine.call(
        "describe_delegation_tokens",
        Role.BROKER,
        lambda timeout_ms: DescribeDelegationTokenRequest(owners=wanted),
        read,
        deadline=engine.deadline(timeout_ms),
    )
