"""Credentials and tokens from settings."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.credentials import ScramMechanism, ScramUpsertion
from ottla.client.config import AdminSettings
from ottla.client.errors import AuthenticationFailed, ConfigError
from ottla.client.security import connection_options_for
from ottla.client.security.login import Login, login_of
from ottla.client.security.token_endpoint import Endpoint
from ottla.client.security.tokens import Token, TokenSource, as_token, token_source
from ottla.host import HostNetwork, HostRandom
from ottla.ports import Clock


class FixedClock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


def sasl(mechanism: str = "PLAIN", **keywords: object) -> AdminSettings:
    return AdminSettings.parse(
        "a:1", security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **keywords
    )


def source(settings: AdminSettings, clock: Clock | None = None) -> TokenSource:
    return token_source(settings, clock or FixedClock(), HostRandom(), HostNetwork())


def jwt(claims: dict[str, Any]) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({}, claims))
    return b".".join((*parts, b"sig")).decode()


def test_a_login_is_in_its_own_settings_or_in_jaas_form() -> None:
    assert login_of(sasl(sasl_username="me", sasl_password="p")) == Login("me", "p")
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
        ' username="me" password=\'p"; =\\\'\' tokenauth="true" ;'
    )
    assert login_of(sasl("SCRAM-SHA-256", sasl_jaas_config=jaas)) == Login("me", "p\"; ='", True)


def test_a_password_is_in_no_text_of_what_holds_it() -> None:
    upsertion = ScramUpsertion("me", ScramMechanism.SCRAM_SHA_256, "S3CRET")
    for holder in (Login("me", "S3CRET"), upsertion):
        for text in (repr(holder), str(holder), f"{holder}"):
            assert "me" in text
            assert "S3CRET" not in text


@pytest.mark.parametrize(
    ("url", "is_protected"), [("https://idp/t", True), ("HTTPS://idp/t", True), ("http://idp/t", False)]
)
def test_a_token_endpoint_is_asked_over_tls_however_its_scheme_is_spelled(
    url: str, is_protected: bool
) -> None:
    settings = sasl(
        "OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=url,
        sasl_oauthbearer_client_credentials_client_id="me",
        sasl_oauthbearer_client_credentials_client_secret="secret",
    )
    assert (Endpoint.of(settings, {}, HostNetwork())._context is not None) == is_protected


@pytest.mark.parametrize(
    ("jaas", "told"),
    [
        ("PlainLoginModule required username=a password=b", "cannot be read"),
        ("PlainLoginModule required username a;", "cannot be read"),
        ("x.ScramLoginModule required username=a password=b;", "PlainLoginModule"),
        ("x.PlainLoginModule required username=a;", "sasl.password"),
    ],
)
def test_a_login_that_cannot_be_read_is_refused_without_showing_it(jaas: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        login_of(sasl(sasl_jaas_config=jaas))
    assert "password=b" not in str(caught.value)


def test_a_client_without_credentials_is_refused_when_it_is_made() -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"):
        with pytest.raises(ConfigError):
            connection_options_for(
                sasl(mechanism), clock=FixedClock(), network=HostNetwork(), random=HostRandom()
            )


def test_a_jwt_tells_when_it_ends() -> None:
    assert as_token(jwt({"exp": 12.5})).expires_ms == 12_500
    for text in ("opaque", "a.b.c", jwt({}), jwt({"exp": "x"}), jwt({"exp": None})):
        assert as_token(text) == Token(text)


def test_a_token_is_used_until_some_of_its_life_is_left() -> None:
    clock = FixedClock()
    given: list[int] = []

    async def ask() -> Token:
        given.append(clock.now)
        return Token("t", clock.now + 1_000_000)

    async def run() -> None:
        settings = sasl("OAUTHBEARER", sasl_oauthbearer_token=ask, sasl_login_refresh_window_jitter=0.0)
        tokens = source(settings, clock)
        await asyncio.gather(tokens.token(), tokens.token())
        assert len(given) == 1
        clock.now += 699_999  # 300 seconds before its end is before 80 percent of its life
        await tokens.token()
        assert len(given) == 1
        clock.now += 1
        await tokens.token()
        assert len(given) == 2

    asyncio.run(run())


def test_tokens_come_from_texts_functions_and_files(tmp_path: Path) -> None:
    def unlucky() -> str:
        raise OSError("no luck")

    file = tmp_path / "token"
    file.write_text(" from-file\n")

    async def value(**keywords: object) -> str:
        return (await source(sasl("OAUTHBEARER", **keywords)).token()).value

    async def run() -> None:
        assert await value(sasl_oauthbearer_token="text") == "text"
        assert await value(sasl_oauthbearer_token=lambda: "called") == "called"
        assert await value(sasl_login_callback_handler_class=lambda: "handler") == "handler"
        assert await value(sasl_oauthbearer_token_endpoint_url=f"file://{file}") == "from-file"
        jaas = 'x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="me";'
        assert (await value(sasl_jaas_config=jaas)).endswith(".")
        with pytest.raises(AuthenticationFailed, match="int"):
            await value(sasl_oauthbearer_token=lambda: 5)
        with pytest.raises(AuthenticationFailed, match="no luck"):
            await value(sasl_oauthbearer_token=unlucky)

    asyncio.run(run())


async def _serve(answers: list[bytes], asked: list[bytes]) -> asyncio.Server:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        asked.append(head + await reader.readexactly(int(length.split(b":")[1])))
        writer.write(answers.pop(0))
        await writer.drain()
        writer.close()

    return await asyncio.start_server(handle, "127.0.0.1", 0)


def test_a_token_endpoint_is_asked_with_client_credentials() -> None:
    body = b'{"access_token":"abc"}'
    answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n11\r\n%s\r\n0\r\n\r\n"
        % (body[:5], body[5:]),
        b'HTTP/1.0 401 No\r\n\r\n{"error":"invalid_client"}',
        b"HTTP/1.1 200 OK\r\n\r\nnot json",
        b"HTTP/1.1 503 Later\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
        b"SSH-2.0",
        b"SSH-2.0",
    ]
    asked: list[bytes] = []

    async def run() -> None:
        server = await _serve(answers, asked)
        port = server.sockets[0].getsockname()[1]
        settings = sasl(
            "OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=f"http://127.0.0.1:{port}/t?a=b",
            sasl_oauthbearer_client_credentials_client_id="me",
            sasl_oauthbearer_client_credentials_client_secret="s/",
            sasl_oauthbearer_scope="x y",
            sasl_login_retry_backoff_ms=1,
            sasl_login_retry_backoff_max_ms=2,
        )
        try:
            for _ in range(2):
                assert (await source(settings).token()).value == "abc"
            for told in ("401: invalid_client", "no access_token"):
                with pytest.raises(AuthenticationFailed, match=told):
                    await source(settings).token()
            assert (await source(settings).token()).value == "abc"  # the second answer counts, after 503
            with pytest.raises(AuthenticationFailed, match="HTTP"):
                await source(settings).token()
            assert answers == []
        finally:
            server.close()
            await server.wait_closed()

    asyncio.run(run())
    credentials = base64.b64encode(b"me:s/")
    assert asked[0].startswith(b"POST /t?a=b HTTP/1.1\r\n")
    assert b"Authorization: Basic " + credentials in asked[0]
    assert asked[0].endswith(b"grant_type=client_credentials&scope=x+y")
