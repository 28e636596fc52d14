"""The client's side of SASL, against published exchanges and against servers that lie."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from ottla.client.errors import AuthenticationFailed
from ottla.client.security import OAuthBearer, Plain, Scram

NONCE = base64.b64decode("rOprNGfwEbeRWgbNEkqO")
SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_plain_sends_name_and_password_at_once() -> None:
    conversation = Plain("ä", "p,=")
    assert conversation.start() == b"\0\xc3\xa4\0p,="
    assert conversation.step(b"") is None


def test_scram_goes_as_in_rfc_7677() -> None:
    conversation = scram()
    assert conversation.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert conversation.step(FIRST) == (
        f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    assert conversation.step(FINAL) is None


def test_scram_with_sha_512_proves_what_a_server_can_check() -> None:
    conversation = Scram("SCRAM-SHA-512", "a=b,c", "secret", b"n" * 18, token=True)
    first = conversation.start().decode()
    nonce = base64.b64encode(b"n" * 18).decode()
    assert first == f"n,,n=a=3Db=2Cc,r={nonce},tokenauth=true"
    server_first = f"r={nonce}srv,s={base64.b64encode(b'salt').decode()},i=5000"
    final = conversation.step(server_first.encode())
    assert final is not None
    without_proof, _, proof = final.decode().rpartition(",p=")
    message = f"{first.removeprefix('n,,')},{server_first},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 5000)
    stored = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    signature = hmac.digest(stored, message, "sha512")
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.sha512(key).digest() == stored
    answer = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), message, "sha512")
    assert conversation.step(b"v=" + base64.b64encode(answer)) is None


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"e=other-error",
        FIRST.replace(b"rOpr", b"XOpr"),
        FIRST.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""),
        FIRST.replace(b"4096", b"4095"),
        FIRST.replace(b"4096", b"9" * 11),
        FIRST.replace(b"4096", b"-4096"),
        FIRST.replace(b"W22Z", b"!!!!"),
        FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b""),
    ],
)
def test_a_first_answer_that_makes_no_sense_ends_scram(first: bytes) -> None:
    conversation = scram()
    conversation.start()
    with pytest.raises(AuthenticationFailed):
        conversation.step(first)


@pytest.mark.parametrize(
    "final", [b"", b"v=", b"v=AAAA", b"e=invalid-proof", FINAL.replace(b"6rri", b"7rri")]
)
def test_a_server_that_does_not_know_the_password_is_found_out(final: bytes) -> None:
    conversation = scram()
    conversation.start()
    conversation.step(FIRST)
    with pytest.raises(AuthenticationFailed):
        conversation.step(final)


def test_a_bearer_sends_its_token_with_extensions() -> None:
    conversation = OAuthBearer("abc.def", {"logicalCluster": "x"})
    assert conversation.start() == b"n,,\x01auth=Bearer abc.def\x01logicalCluster=x\x01\x01"
    assert conversation.step(b"") is None


def test_a_refused_token_is_an_authentication_error_with_the_servers_reason() -> None:
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        OAuthBearer("t").step(b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationFailed):
        OAuthBearer("t").step(b"\xff[")
