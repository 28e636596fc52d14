"""Requests tokens from the token endpoint of an OAuth provider: client credentials, or a JWT assertion.

One small HTTP request per token, over the Network port, limited in time and size.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ottla.client.config import CommonSettings
from ottla.client.errors import AuthenticationFailed, ConfigError
from ottla.client.security.tls import context_of
from ottla.ports import Network

_ANSWER_BYTES_MAX = 1024 * 1024
_TIME_S = 30.0


class Endpoint:
    """One token endpoint, with the client's credentials."""

    def __init__(
        self,
        network: Network,
        url: str,
        headers: Mapping[str, str],
        form: Mapping[str, str],
        context: ssl.SSLContext | None,
        *,
        assertion_file: str | None = None,
        connect_s: float = _TIME_S,
        read_s: float = _TIME_S,
        pause_s: float = 0.1,
        pause_s_max: float = 10.0,
    ) -> None:
        self._network = network
        self._url = url
        self._parts = urlsplit(url)
        self._headers = headers
        self._form = form
        self._context = context
        self._assertion_file = assertion_file
        self._connect_s = connect_s
        self._read_s = read_s
        self._pause_s = pause_s
        self._pause_s_max = pause_s_max

    @classmethod
    def of(cls, settings: CommonSettings, options: Mapping[str, str], network: Network) -> Endpoint:
        url = settings.sasl_oauthbearer_token_endpoint_url or ""
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ConfigError(f"sasl.oauthbearer.token.endpoint.url={url} is not an http or https URL.")
        scope = settings.sasl_oauthbearer_scope or options.get("scope")
        form = {"scope": scope} if scope else {}
        headers: dict[str, str] = {}
        assertion = settings.sasl_oauthbearer_assertion_file
        if assertion is None:
            headers["Authorization"] = f"Basic {_credentials(settings, options)}"
            form = {"grant_type": "client_credentials"} | form
        else:
            form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"} | form
        return cls(
            network,
            url,
            headers,
            form,
            context_of(settings) if urlsplit(url).scheme == "https" else None,
            assertion_file=assertion,
            connect_s=(settings.sasl_login_connect_timeout_ms or _TIME_S * 1000) / 1000,
            read_s=(settings.sasl_login_read_timeout_ms or _TIME_S * 1000) / 1000,
            pause_s=settings.sasl_login_retry_backoff_ms / 1000,
            pause_s_max=settings.sasl_login_retry_backoff_max_ms / 1000,
        )

    async def token(self) -> str:
        form = dict(self._form)
        if self._assertion_file is not None:
            form["assertion"] = (await asyncio.to_thread(Path(self._assertion_file).read_text)).strip()
        body = urlencode(form).encode()
        status, answer = await self._post_patiently(body)
        if status != 200:
            raise AuthenticationFailed(f"The token endpoint {self._url} answered {status}: {_error(answer)}.")
        found = _parsed(answer)
        token = found.get("access_token") or found.get("id_token")
        if not isinstance(token, str) or not token:
            raise AuthenticationFailed(
                f"The response of the token endpoint {self._url} contains no access_token."
            )
        return token

    async def _post_patiently(self, body: bytes) -> tuple[int, bytes]:
        """Retry after a temporary failure, up to the maximum total pause."""
        pause_s, waited_s = max(self._pause_s, 0.001), 0.0
        while True:
            fault: Exception | None = None
            status, answer = 0, b""
            try:
                status, answer = await self._post(body)
            except (OSError, TimeoutError) as error:
                fault = error
            is_last = waited_s + pause_s > self._pause_s_max
            if fault is None and (status < 500 or is_last):
                return status, answer
            if is_last:
                told = f"The request to the token endpoint {self._url} failed: {fault!r}."
                raise AuthenticationFailed(told) from fault
            await asyncio.sleep(pause_s)
            waited_s += pause_s
            pause_s *= 2

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        parts = self._parts
        port = parts.port or (443 if self._context is not None else 80)
        host = parts.hostname or ""
        async with asyncio.timeout(self._connect_s):
            transport, protocol = await self._network.connect(_Answer, host, port, ssl=self._context)
        assert isinstance(protocol, _Answer)
        assert isinstance(transport, asyncio.Transport)
        target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (
            f"?{parts.query}" if parts.query else ""
        )
        headers = {
            "Host": parts.netloc.rpartition("@")[2],
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **self._headers,
        }
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        transport.write("\r\n".join(lines).encode("latin-1") + body)
        try:
            async with asyncio.timeout(self._read_s):
                return _read_http(await protocol.whole)
        finally:
            transport.close()


class _Answer(asyncio.Protocol):
    """Collects bytes until the server has finished."""

    def __init__(self) -> None:
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._received = bytearray()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > _ANSWER_BYTES_MAX and not self.whole.done():
            self.whole.set_exception(ConnectionError("the response is too long"))
        elif _is_whole(self._received) and not self.whole.done():
            self.whole.set_result(bytes(self._received))

    def connection_lost(self, error: Exception | None) -> None:
        if self.whole.done():
            return
        if error is not None:
            self.whole.set_exception(error)
        else:
            self.whole.set_result(bytes(self._received))


def _is_whole(received: bytes | bytearray) -> bool:
    """Whether a response that declares its length is complete; one that does not ends with the connection."""
    head, blank, body = bytes(received).partition(b"\r\n\r\n")
    headers = _headers(head)
    if not blank:
        return False
    if "chunked" in headers.get("transfer-encoding", ""):
        return body.endswith(b"0\r\n\r\n")
    length = headers.get("content-length", "")
    return length.isdigit() and len(body) >= int(length)


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip().lower() for name, _, value in pairs}


def _read_http(received: bytes) -> tuple[int, bytes]:
    head, _, body = received.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ConnectionError("the response is not HTTP")
    if "chunked" in _headers(head).get("transfer-encoding", ""):
        body = _joined(body)
    return int(words[1]), body


def _joined(body: bytes) -> bytes:
    """Join the chunks of a body."""
    parts: list[bytes] = []
    while body:
        size_text, _, rest = body.partition(b"\r\n")
        try:
            size = int(size_text.partition(b";")[0], 16)
        except ValueError as error:
            raise ConnectionError("the response is truncated or damaged") from error
        if size <= 0:
            break
        parts.append(rest[:size])
        body = rest[size + 2 :]
    return b"".join(parts)


def _parsed(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _error(answer: bytes) -> str:
    found = _parsed(answer)
    told = [str(found[name]) for name in ("error", "error_description") if name in found]
    return ": ".join(told) or "no reason given"


def _credentials(settings: CommonSettings, options: Mapping[str, str]) -> str:
    name = settings.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    secret = settings.sasl_oauthbearer_client_credentials_client_secret or options.get("clientSecret")
    if not name or secret is None:
        raise ConfigError(
            "sasl.oauthbearer.token.endpoint.url needs sasl.oauthbearer.client.credentials.client.id "
            "and sasl.oauthbearer.client.credentials.client.secret."
        )
    if settings.sasl_oauthbearer_header_urlencode:
        name, secret = quote(name, safe=""), quote(secret, safe="")
    return base64.b64encode(f"{name}:{secret}".encode()).decode()
