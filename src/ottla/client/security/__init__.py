"""TLS and SASL of a client.

`connection_options_for` turns settings into the options of a connection, and rejects settings that cannot
work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.client.config import CommonSettings
from ottla.client.connection_options import ConnectionOptions, Conversation
from ottla.client.security.login import login_of
from ottla.client.security.sasl import OAuthBearer, Plain, Scram
from ottla.ports import Clock, Network, Random

if TYPE_CHECKING:
    from ottla.client.security.tokens import Token

_NONCE_BYTES = 24


def connection_options_for(
    settings: CommonSettings, *, clock: Clock, network: Network, random: Random
) -> ConnectionOptions:
    """The options for connections of a client with these settings."""
    tls = None
    if settings.security_protocol.endswith("SSL"):
        from ottla.client.security.tls import context_of

        context = context_of(settings)
        tls = lambda: context  # noqa: E731
    is_sasl = settings.security_protocol.startswith("SASL_")
    return ConnectionOptions(
        client_id=settings.client_id or None,
        tls=tls,
        sasl_mechanism=settings.sasl_mechanism if is_sasl else None,
        conversation=_conversations(settings, clock, network, random) if is_sasl else None,
        send_buffer_bytes=settings.send_buffer_bytes,
        receive_buffer_bytes=settings.receive_buffer_bytes,
    )


def _conversations(
    settings: CommonSettings, clock: Clock, network: Network, random: Random
) -> Callable[[str], Awaitable[Conversation]]:
    mechanism = settings.sasl_mechanism
    if mechanism == "OAUTHBEARER":
        from ottla.client.security.tokens import token_source

        source = token_source(settings, clock, random, network)

        async def bearer(host: str) -> Conversation:
            token = await source.token()
            return OAuthBearer(token.value, token.extensions)

        return bearer
    login = login_of(settings)

    async def conversation(host: str) -> Conversation:
        if mechanism == "PLAIN":
            return Plain(login.username, login.password)
        nonce = random.bytes(_NONCE_BYTES)
        return Scram(mechanism, login.username, login.password, nonce, token=login.token)

    return conversation


def __getattr__(name: str) -> type[Token]:
    if name == "Token":
        from ottla.client.security.tokens import Token

        return Token
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["OAuthBearer", "Plain", "Scram", "Token", "connection_options_for"]
