"""Shows which requests arrive where, so that a fault can hit a certain step of a protocol.

A listener is called with each complete request just before the server receives its last bytes: if it kills
the server, the server dies before it has read the request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.wire import apis, codec
from ottla.wire.messages.protocol_data import RequestHeader

if TYPE_CHECKING:
    from ottla.testing.world.network import Wires
    from ottla.testing.world.transport import SimulatedTransport

_LENGTH_BYTES = 4
_HEADER_BYTES = 8
_FIRST_CLIENT_PORT = 30_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that arrives at its server. `frame` includes the length prefix."""

    source: str
    target: str
    port: int
    api_key: int
    version: int
    frame: bytes

    def decode(self) -> Any:
        """Decode the request."""
        header_version = apis.request_header_version(self.api_key, self.version)
        _, end = codec.decoder(RequestHeader, header_version)(self.frame, _LENGTH_BYTES)
        request = apis.API_BY_KEY[self.api_key].request_class()
        return codec.decode(request, self.frame, self.version, end)


Listener = Callable[[Arrival], None]


class Tap:
    """Created by `Nemesis.tap`: a world has one."""

    def __init__(self, wires: Wires) -> None:
        self.listeners: list[Listener] = []
        self._parts: dict[int, bytearray] = {}
        wires.watch = self._read

    def _read(self, transport: SimulatedTransport, data: bytes) -> None:
        host, port = transport.get_extra_info("sockname")
        if port >= _FIRST_CLIENT_PORT:
            return  # a response
        number = transport.incoming.number
        parts = self._parts.pop(number, None)
        buffer = bytearray(data) if parts is None else parts + data
        while len(buffer) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(buffer[:_LENGTH_BYTES], "big")
            if len(buffer) < end:
                break
            frame = bytes(buffer[:end])
            del buffer[:end]
            if len(frame) >= _LENGTH_BYTES + _HEADER_BYTES:
                self._notify(
                    Arrival(
                        transport.peer_host,
                        host,
                        port,
                        int.from_bytes(frame[4:6], "big"),
                        int.from_bytes(frame[6:8], "big"),
                        frame,
                    )
                )
        if buffer:
            self._parts[number] = buffer

    def _notify(self, arrival: Arrival) -> None:
        for listener in list(self.listeners):
            listener(arrival)
