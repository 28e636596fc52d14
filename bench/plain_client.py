"""Plain sockets with our codec: one connection with one request at a time, and a fleet of parallel
connections.

It takes little CPU from the broker under measurement: the frames of a fleet are built in advance, and one
thread with epoll serves all its connections.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from ottla.wire.frame import FrameReader, read_response, request_frame
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest

CLIENT_ID = "bench"
RECEIVE_BYTES = 1 << 18
CONNECTIONS_AT_ONCE = 25
"""Half of a broker's default backlog of new connections."""
_RETRY_PAUSE_S = 0.02


class NotAnswered(RuntimeError):
    """The broker sent an unexpected response; the message contains it."""


class Client:
    """One connection, one request at a time."""

    def __init__(self, port: int, *, client_id: str = CLIENT_ID, timeout_s: float = 30.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._reader = FrameReader()

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and wait for its response."""
        assert request.API_KEY is not None
        self._socket.sendall(request_frame(request, version, 1, self._client_id))
        frames: list[bytes] = []
        while not frames:
            received = self._socket.recv(RECEIVE_BYTES)
            if not received:
                raise NotAnswered(f"The broker closed the connection at a {request.NAME}.")
            frames = self._reader.feed(received)
        return read_response(frames[0], request.API_KEY, version)[1]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Fleet:
    """Many connections, each with at most one request in flight."""

    def __init__(self, port: int, count: int, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._poll = select.epoll()
        self._sockets: list[socket.socket] = []
        self._readers: list[FrameReader] = []
        self._places: dict[int, int] = {}
        for first in range(0, count, CONNECTIONS_AT_ONCE):
            self._connect(port, min(CONNECTIONS_AT_ONCE, count - first))

    def _connect(self, port: int, count: int) -> None:
        """Open more connections, and send the first request of every client on each."""
        frame = request_frame(ApiVersionsRequest(), 0, 1, CLIENT_ID)
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._places[connection.fileno()] = len(self._sockets)
            self._sockets.append(connection)
            self._readers.append(FrameReader())
            self._poll.register(connection.fileno(), select.EPOLLIN)
            connection.sendall(frame)
        for _answer in self.collect(count):
            pass

    def __len__(self) -> int:
        return len(self._sockets)

    def send(self, place: int, frame: bytes) -> None:
        self._sockets[place].sendall(frame)

    def collect(self, count: int) -> Iterator[tuple[int, bytes]]:
        """The next `count` responses as they arrive: (connection, frame). A caller may send meanwhile."""
        while count > 0:
            if time.monotonic() > self._deadline:
                raise NotAnswered(f"{count} answers did not come in time.")
            for descriptor, _events in self._poll.poll(1.0):
                place = self._places[descriptor]
                received = self._sockets[place].recv(RECEIVE_BYTES)
                if not received:
                    raise NotAnswered(f"The broker closed connection {place}.")
                for frame in self._readers[place].feed(received):
                    count -= 1
                    yield place, frame

    def close(self) -> None:
        self._poll.close()
        for connection in self._sockets:
            connection.close()


def ask_until(
    client: Client, request: Message, version: int, timeout_s: float, error_of: Callable[[Any], int]
) -> None:
    """Repeat a request until `error_of` finds no error in the response."""
    deadline = time.monotonic() + timeout_s
    while True:
        error = error_of(client.ask(request, version))
        if not error:
            return
        if time.monotonic() > deadline:
            raise NotAnswered(f"{request.NAME} still gets error {error} after {timeout_s:g} s.")
        time.sleep(_RETRY_PAUSE_S)
