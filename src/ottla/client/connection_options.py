"""How a client connects: what `security/` makes of its settings, and every connection of `net/` follows."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

ANSWER_BYTES_MAX = 512 * 1024 * 1024


class Conversation(Protocol):
    """The client's side of one SASL exchange."""

    def start(self) -> bytes:
        """What is sent first."""

    def step(self, challenge: bytes) -> bytes | None:
        """What follows an answer of the server; None at the end. AuthenticationFailed where it lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How to connect: the same for every connection of a client."""

    client_id: str | None = None
    tls: Callable[[], ssl.SSLContext] | None = None
    server_hostname: str | None = None
    sasl_mechanism: str | None = None
    conversation: Callable[[str], Awaitable[Conversation]] | None = None
    """Makes the exchange with a server, by its host name."""
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    answer_bytes_max: int = ANSWER_BYTES_MAX
