"""Tokens for OAUTHBEARER: their source, and when to refresh them.

A source is a string, a callable (async or not), a file, or the token endpoint of an OAuth provider. A token
is reused until `sasl.login.refresh.window.factor` of its lifetime has passed; one without an expiry is
requested for each connection.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ottla.client.config import CommonSettings
from ottla.client.errors import AuthenticationFailed, ClientError, ConfigError
from ottla.client.security.login import jaas_options
from ottla.client.security.token_endpoint import Endpoint
from ottla.ports import Clock, Network, Random

_KAFKAS_HANDLER = "OAuthBearerLoginCallbackHandler"
_KAFKAS_RETRIEVERS = tuple(
    f"{kind}JwtRetriever" for kind in ("Default", "ClientCredentials", "File", "JwtBearer")
)
"""Kafka's classes whose work follows from the other settings: an address, a file, an assertion."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, its expiry (in milliseconds since 1970; None: unknown), and its extensions."""

    value: str = field(repr=False)
    expires_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


Ask: TypeAlias = Callable[[], Awaitable[Token]]


class TokenSource:
    """Returns the current token. Connections that ask at the same time share one request for a new one."""

    def __init__(self, settings: CommonSettings, ask: Ask, clock: Clock, random: Random) -> None:
        self._settings = settings
        self._ask = ask
        self._clock = clock
        self._random = random
        self._token: Token | None = None
        self._fresh_until_ms = 0
        self._lock = asyncio.Lock()

    async def token(self) -> Token:
        async with self._lock:
            if self._token is None or self._clock.now_ms() >= self._fresh_until_ms:
                try:
                    self._token = await self._ask()
                except ClientError:
                    raise
                except Exception as error:
                    raise AuthenticationFailed(f"Cannot get a token for OAUTHBEARER: {error!r}") from error
                self._fresh_until_ms = self._refresh_ms(self._token)
            return self._token

    def _refresh_ms(self, token: Token) -> int:
        """When to refresh the token: some time before its expiry."""
        if token.expires_ms is None:
            return 0
        settings, now_ms = self._settings, self._clock.now_ms()
        factor = settings.sasl_login_refresh_window_factor
        factor += self._random.fraction() * settings.sasl_login_refresh_window_jitter
        life_ms = token.expires_ms - now_ms
        wanted_ms = now_ms + int(life_ms * min(factor, 1.0))
        latest_ms = token.expires_ms - settings.sasl_login_refresh_buffer_seconds * 1000
        least_ms = now_ms + settings.sasl_login_refresh_min_period_seconds * 1000
        # A life that is too short for buffer and period: then the factor alone counts.
        return min(wanted_ms, latest_ms) if min(wanted_ms, latest_ms) >= least_ms else wanted_ms


def token_source(settings: CommonSettings, clock: Clock, random: Random, network: Network) -> TokenSource:
    """The source that the settings name; ConfigError if there is none."""
    given = settings.sasl_oauthbearer_token
    handler = settings.sasl_login_callback_handler_class
    if given is None and handler is not None and not _is_kafkas(handler):
        given = handler
    retriever = settings.sasl_oauthbearer_jwt_retriever_class
    if isinstance(retriever, str) and retriever.rpartition(".")[2] not in _KAFKAS_RETRIEVERS:
        raise ConfigError(
            f"sasl.oauthbearer.jwt.retriever.class={retriever} is a Java class. Set sasl.oauthbearer.token "
            "to a callable that returns a token."
        )
    if given is None and callable(retriever):
        given = retriever
    if given is None:
        ask = _from_endpoint(settings, clock, network)
    elif isinstance(given, str | Token):
        ask = _fixed(given)
    elif callable(given):
        ask = _called(given)
    else:
        raise ConfigError("sasl.oauthbearer.token must be a string, a Token, or a callable that returns one.")
    return TokenSource(settings, ask, clock, random)


def _is_kafkas(handler: Any) -> bool:
    if not isinstance(handler, str):
        return False
    if handler.rpartition(".")[2] == _KAFKAS_HANDLER:
        return True
    raise ConfigError(
        f"sasl.login.callback.handler.class={handler} is a Java class. Set a callable that returns a token."
    )


def _fixed(given: str | Token) -> Ask:
    token = as_token(given)

    async def ask() -> Token:
        return token

    return ask


def _called(given: Callable[[], Any]) -> Ask:
    async def ask() -> Token:
        if inspect.iscoroutinefunction(given):
            found = await given()
        else:
            found = await asyncio.to_thread(given)  # it may block: ask a provider, read a file
            if inspect.isawaitable(found):
                found = await found
        if not isinstance(found, str | Token):
            raise AuthenticationFailed(
                f"The callable for OAUTHBEARER returned a {type(found).__name__} instead of a string or a "
                "Token."
            )
        return as_token(found)

    return ask


def _from_endpoint(settings: CommonSettings, clock: Clock, network: Network) -> Ask:
    address = settings.sasl_oauthbearer_token_endpoint_url
    options = jaas_options(settings)
    if not address and "unsecuredLoginStringClaim_sub" in options:
        return _unsecured(options, clock)
    if not address:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token, or sasl.oauthbearer.token.endpoint.url."
        )
    if address.startswith("file:"):
        path = Path(address.removeprefix("file:").replace("///", "/", 1))

        async def read() -> Token:
            return as_token((await asyncio.to_thread(path.read_text)).strip())

        return read
    endpoint = Endpoint.of(settings, options, network)

    async def ask() -> Token:
        return as_token(await endpoint.token())

    return ask


def _unsecured(options: Mapping[str, str], clock: Clock) -> Ask:
    """A token without a signature, like Kafka's own module makes: only for tests."""

    async def ask() -> Token:
        now_s = clock.now_ms() // 1000
        life_s = int(options.get("unsecuredLoginLifetimeSeconds", "3600"))
        claims = {"sub": options["unsecuredLoginStringClaim_sub"], "iat": now_s, "exp": now_s + life_s}
        parts = ({"alg": "none"}, claims)
        encoded = (
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
        )
        return as_token(".".join(encoded) + ".")

    return ask


def as_token(given: str | Token) -> Token:
    """A string as a token; a JWT contains its expiry."""
    if isinstance(given, Token):
        return given
    parts = given.split(".")
    if len(parts) != 3:
        return Token(given)
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        expires_ms = int(float(claims["exp"]) * 1000)
    except (ValueError, KeyError, TypeError, OverflowError):
        return Token(given)
    return Token(given, expires_ms)
