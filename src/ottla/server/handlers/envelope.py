"""Envelope (58), version 0, on controller listeners.

A broker forwards a client's request that only the controller can answer: the request as the client sent it,
the client's principal, and its address. The response contains the response for the client. NOT_CONTROLLER if
another node is the controller, UNSUPPORTED_VERSION if the inner request cannot be read, INVALID_REQUEST if it
cannot be forwarded, PRINCIPAL_DESERIALIZATION_FAILURE if the principal is invalid.
"""

from __future__ import annotations

from typing import Protocol

from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasDispatchers, HasQuorum
from ottla.wire import codec
from ottla.wire.errors import ErrorCode, InvalidRequest, KafkaError, MalformedMessage
from ottla.wire.errors import PrincipalDeserializationFailure as UnclearPrincipal
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.protocol_data import DefaultPrincipalData

KEY = 58


class Parts(HasQuorum, HasDispatchers, Protocol):
    """The parts of a node that Envelope needs."""


async def handle(parts: Parts, request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
    if not parts.quorum.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        principal = _principal(request.request_principal)
        if len(request.client_host_address) not in (4, 16):
            raise InvalidRequest("The client address in the envelope is invalid.")
        dispatcher = parts.dispatchers[context.listener]
        data = await dispatcher.answer_embedded(request.request_data, context, principal)
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    return EnvelopeResponse(response_data=data)


def _principal(data: bytes | None) -> str:
    """The principal as brokers serialize it: a version, then the message."""
    try:
        if data is None or len(data) < 2:
            raise MalformedMessage("The principal is missing.")
        version = int.from_bytes(data[:2], "big")
        if version not in DefaultPrincipalData.VERSIONS:
            raise MalformedMessage(f"Unsupported principal version {version}.")
        principal = codec.decode(DefaultPrincipalData, data, version, 2)
    except MalformedMessage as error:
        raise UnclearPrincipal(str(error)) from error
    return f"{principal.type}:{principal.name}"


API = Api(KEY, handle)
