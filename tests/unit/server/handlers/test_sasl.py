"""SaslHandshake and SaslAuthenticate where nobody needs to log in."""

from __future__ import annotations

import pytest
from tests.unit.server.handlers.support import CONTROLLER_LISTENER, LISTENER, ask, broker_of, image_of

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

LISTENERS = pytest.mark.parametrize("listener", [LISTENER, CONTROLLER_LISTENER])


@LISTENERS
@pytest.mark.parametrize("version", SaslHandshakeRequest.VERSIONS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "unheard of", ""])
def test_no_mechanism_is_offered_where_no_login_is_asked_for(
    listener: str, version: int, mechanism: str
) -> None:
    request = SaslHandshakeRequest(mechanism=mechanism)
    response = ask(broker_of(image_of()), request, version, listener=listener)
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@LISTENERS
@pytest.mark.parametrize("version", SaslAuthenticateRequest.VERSIONS)
@pytest.mark.parametrize("token", [b"", b"\0alice\0secret", b"x" * 100_000])
def test_a_token_is_refused_with_a_cure_and_not_told_back(listener: str, version: int, token: bytes) -> None:
    request = SaslAuthenticateRequest(auth_bytes=token)
    response = ask(broker_of(image_of()), request, version, listener=listener)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert response.error_message == "This listener does not use SASL. Connect without it."
    assert (response.auth_bytes, response.session_lifetime_ms) == (b"", 0)


@LISTENERS
def test_both_are_advertised_as_kafka_does_on_every_listener(listener: str) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    rows = ask(broker_of(image_of()), request, listener=listener).api_keys
    ranges = {one.api_key: (one.min_version, one.max_version) for one in rows}
    assert (ranges[17], ranges[36]) == ((0, 1), (0, 2))
