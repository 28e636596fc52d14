"""Frames: a size of four bytes, a header, a message. How they are limited, split, decoded and built.

The size of a frame is checked before any of it is stored. If the bytes belong to another protocol (a TLS
handshake or an HTTP request on this port), the error says so, for a single log line.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as layout_error
from typing import Any

from ottla.wire import codec
from ottla.wire.apis import API_BY_KEY, request_header_version, response_header_version
from ottla.wire.errors import MalformedMessage
from ottla.wire.message import Buffer, Message
from ottla.wire.primitives import read_unknown_tags

SIZE_BYTES = 4
"""The length of the size field before each frame."""
FRAME_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`."""

_PARTS_MAX = 4096

_SIZE = Layout(">i")
_START = Layout(">hhi")
_CLIENT_ID = Layout(">h")
_TWO = Layout(">ii")
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI ", b"CONN", b"PATC")


def read_size(buffer: Buffer, position: int, size_max: int = FRAME_BYTES_MAX) -> int:
    """The size of the frame that starts here (at least four bytes are present); raises if it exceeds the
    limit."""
    size: int = _SIZE.unpack_from(buffer, position)[0]
    if 0 <= size <= size_max:
        return size
    first = bytes(buffer[position : position + SIZE_BYTES])
    if first.startswith(_TLS_HANDSHAKE):
        raise MalformedMessage("Received a TLS handshake, but this listener does not use TLS.")
    if first in _HTTP_METHODS:
        raise MalformedMessage("Received an HTTP request, but this listener speaks Kafka's protocol.")
    if size < 0:
        raise MalformedMessage(f"Frame size {size} is negative: this is not Kafka's protocol.")
    raise MalformedMessage(f"A frame of {size} bytes exceeds the maximum of {size_max}.")


class FrameReader:
    """Splits a stream of bytes into frames. It stores at most one incomplete frame.

    Buffers are stored uncopied until the frame is complete, and then copied once. So the caller must not
    change what it passes to `feed`.
    """

    __slots__ = ("_held", "_held_bytes", "_size_max", "_wanted_bytes")

    def __init__(self, size_max: int = FRAME_BYTES_MAX) -> None:
        self._size_max = size_max
        self._held: list[Buffer] = []
        self._held_bytes = 0
        self._wanted_bytes = SIZE_BYTES  # to continue: the whole frame, or its size field

    def feed(self, received: Buffer) -> list[bytes]:
        """The frames, without their sizes, that these bytes complete."""
        self._hold(received)
        if self._held_bytes < self._wanted_bytes:
            return []
        held, is_whole = self._held, self._held_bytes == self._wanted_bytes > SIZE_BYTES
        self._held, self._held_bytes, self._wanted_bytes = [], 0, SIZE_BYTES
        if is_whole and len(held[0]) >= SIZE_BYTES:
            held[0] = memoryview(held[0])[SIZE_BYTES:]
            return [b"".join(held)]
        view = memoryview(held[0] if len(held) == 1 else b"".join(held))
        frames: list[bytes] = []
        position, end = 0, len(view)
        while end - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            after = start + read_size(view, position, self._size_max)
            if after > end:
                self._wanted_bytes = after - position
                break
            frames.append(bytes(view[start:after]))
            position = after
        if position < end:
            self._hold(view[position:])
        return frames

    def _hold(self, part: Buffer) -> None:
        held = self._held
        held.append(part)
        self._held_bytes += len(part)
        if len(held) >= _PARTS_MAX:  # many small parts take more memory than their bytes
            self._held = [b"".join(held)]


def read_request_start(frame: Buffer) -> tuple[int, int, int]:
    """(api key, api version, correlation id): the same bytes in every version of the header."""
    try:
        key, version, correlation_id = _START.unpack_from(frame)
    except layout_error as error:
        raise MalformedMessage(f"A request of {len(frame)} bytes is too short for its header.") from error
    return key, version, correlation_id


def read_client_id(frame: Buffer, flexible: bool) -> tuple[str | None, int]:
    """(client id, position of the body). `flexible`: the header has tagged fields, which are skipped.

    Invalid UTF-8 in a client id is replaced, as in Kafka: it is only a label.
    """
    try:
        length: int = _CLIENT_ID.unpack_from(frame, 8)[0]
        if length < 0:
            client_id, position = None, 10
        else:
            position = 10 + length
            client_id = str(frame[10:position], "utf-8", "replace")
        if flexible:
            tags = frame[position]
            position += 1
            if tags:
                _, position = read_unknown_tags(frame, position, tags)
    except (IndexError, layout_error) as error:
        raise MalformedMessage("A request ends inside its header.") from error
    if position > len(frame):
        raise MalformedMessage("A request ends inside its header.")
    return client_id, position


def read_request_header(frame: Buffer) -> tuple[int, int, int, str | None, int]:
    """(api key, api version, correlation id, client id, position of the body).

    The api version determines the header version, even for an unknown version, as in Kafka; for an unknown
    api key the header version is unknown, so that is an error.
    """
    key, version, correlation_id = read_request_start(frame)
    if key not in API_BY_KEY:
        raise MalformedMessage(f"Unknown API key {key}.")
    client_id, position = read_client_id(frame, request_header_version(key, version) >= 2)
    return key, version, correlation_id, client_id, position


def read_request(frame: Buffer) -> tuple[int, int, int, str | None, Any]:
    """As `read_request_header`, with the decoded message instead of its position."""
    key, version, correlation_id, client_id, position = read_request_header(frame)
    request = codec.decode(API_BY_KEY[key].request_class(), frame, version, position, exact=False)
    return key, version, correlation_id, client_id, request


def request_frame(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request with its header and size, ready to send."""
    body = codec.encode(message, version)
    return _request_start(message, version, correlation_id, client_id, len(body)) + body


def request_parts(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Any]:
    """As `request_frame`, for one vectored write: records are not copied."""
    parts = codec.encode_parts(message, version) or [b""]
    size = sum(map(len, parts))
    parts[0] = _request_start(message, version, correlation_id, client_id, size) + parts[0]
    return parts


def _request_start(
    message: Message, version: int, correlation_id: int, client_id: str | None, body_bytes: int
) -> bytes:
    key = _key_of(message)
    name = client_id.encode() if client_id is not None else b""
    tags = b"\x00" if request_header_version(key, version) >= 2 else b""
    header = _START.pack(key, version, correlation_id) + _CLIENT_ID.pack(
        -1 if client_id is None else len(name)
    )
    size = _SIZE.pack(len(header) + len(name) + len(tags) + body_bytes)
    return b"".join((size, header, name, tags))


def response_frame(message: Message, version: int, correlation_id: int) -> bytes:
    """A response with its header and size, ready to send."""
    tags = b"\x00" if response_header_version(_key_of(message), version) >= 1 else b""
    body = codec.encode(message, version)
    return _TWO.pack(4 + len(tags) + len(body), correlation_id) + tags + body


def read_response(frame: Buffer, key: int, version: int) -> tuple[int, Any]:
    """(correlation id, message) of the response to a request of this key and version."""
    try:
        correlation_id: int = _SIZE.unpack_from(frame)[0]
        position = 4
        if response_header_version(key, version) >= 1:
            tags = frame[position]
            position += 1
            if tags:
                _, position = read_unknown_tags(frame, position, tags)
    except (IndexError, layout_error) as error:
        raise MalformedMessage("A response ends inside its header.") from error
    return correlation_id, codec.decode(API_BY_KEY[key].response_class(), frame, version, position)


def _key_of(message: Message) -> int:
    if message.API_KEY is None:
        raise ValueError(f"{message.NAME} has no API key, so it cannot be sent by itself.")
    return message.API_KEY


__all__ = [
    "FRAME_BYTES_MAX",
    "SIZE_BYTES",
    "FrameReader",
    "read_client_id",
    "read_request",
    "read_request_header",
    "read_request_start",
    "read_response",
    "read_size",
    "request_frame",
    "request_parts",
    "response_frame",
]
