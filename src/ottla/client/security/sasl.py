"""The client's side of SASL, as conversations: bytes in, bytes out. Pure.

`start` returns the first message, `step` the next one after a message of the server, and None at the end. A
server that does not prove that it knows the password too, or that sends an invalid message, is
AuthenticationFailed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping

from ottla.client.errors import AuthenticationFailed

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 1_000_000
"""More iterations would keep the client busy for seconds."""


class Plain:
    """PLAIN: user name and password in plain text. Without TLS, anyone on the network can read them."""

    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def start(self) -> bytes:
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    """SCRAM: both sides prove that they know the password, and neither sends it.

    `token` marks a delegation token: its id is the user name and its HMAC the password.
    """

    def __init__(
        self, mechanism: str, username: str, password: str, nonce: bytes, *, token: bool = False
    ) -> None:
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self._password = password.encode()
        self._nonce = base64.b64encode(nonce).decode()
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={self._nonce}" + (",tokenauth=true" if token else "")
        self._server_signature: bytes | None = None

    def start(self) -> bytes:
        return f"n,,{self._first}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        fields = _fields(challenge)
        if "e" in fields:
            raise AuthenticationFailed(f"The server rejected the credentials: {fields['e']}.")
        if self._server_signature is None:
            return self._prove(challenge.decode(), fields)
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._server_signature):
            raise AuthenticationFailed(
                "The server could not prove that it knows the password: it may not be who it claims to be."
            )
        return None

    def _prove(self, server_first: str, fields: Mapping[str, str]) -> bytes:
        nonce, salt = fields.get("r", ""), _decoded(fields.get("s", ""))
        count = fields.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salt:
            raise AuthenticationFailed("The nonce or salt in the server's SCRAM message is invalid.")
        iterations = int(count) if count.isascii() and count.isdigit() and len(count) < 12 else 0
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailed(
                f"The server requests {count or 'no'} SCRAM iterations; the client accepts {ITERATIONS_MIN} "
                f"to {ITERATIONS_MAX}."
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        final = f"c=biws,r={nonce}"
        message = f"{self._first},{server_first},{final}".encode()
        signature = hmac.digest(stored_key, message, self._hash)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._server_signature = hmac.digest(server_key, message, self._hash)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()


class OAuthBearer:
    """OAUTHBEARER: a token of an OAuth provider, with optional extensions for the broker."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        pairs = "".join(f"{name}={value}\x01" for name, value in (extensions or {}).items())
        self._message = f"n,,\x01auth=Bearer {token}\x01{pairs}\x01".encode()

    def start(self) -> bytes:
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        if not challenge:
            return None
        raise AuthenticationFailed(f"The server rejected the token: {_reason(challenge)}.")


def _reason(challenge: bytes) -> str:
    try:
        told = json.loads(challenge)
    except ValueError:
        return "its response is unreadable"
    return str(told.get("status", told)) if isinstance(told, dict) else str(told)


def _fields(challenge: bytes) -> dict[str, str]:
    try:
        parts = challenge.decode().split(",")
    except UnicodeDecodeError as error:
        raise AuthenticationFailed("The server's SCRAM message is not UTF-8.") from error
    return {name: value for name, equals, value in (part.partition("=") for part in parts) if equals}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationFailed("The server's SCRAM message contains invalid base64.") from error
