"""The fast path of a rebalance: a known member rejoins as it was, and asks for its assignment.

A rebalance of a thousand members is two thousand such requests at once. As in `offset_commit_fast_path.py`,
the bytes of the frame are read without message objects, and two rules keep it correct. It takes only a
request from which nothing else follows (the group still waits for others, the leader has no part in it): in
any other case it changes nothing and returns False, and the handler runs. And its answers have the same
bytes: a test sends the same requests both ways.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ottla.coordinator.groups.classic.responses import join_refused, sync_refused
from ottla.coordinator.runtime import client_error
from ottla.server.net.connection import AS_IT_IS, WholeFrame
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import codec
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.ottla.records.native import byte_count, first_byte

if not cython.compiled:
    from ottla.records.big_endian import int_at, short_at

    byte_count = len

if TYPE_CHECKING:
    from typing import TypeAlias

    from ottla.server.broker import Broker
    from ottla.server.net.connection import Connection
    from ottla.wire.messages.join_group import JoinGroupResponse
    from ottla.wire.messages.sync_group import SyncGroupResponse

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte

JOIN_VERSIONS = range(6, 10)
SYNC_VERSIONS = range(4, 6)
"""The versions that have a fast path: those with compact strings."""

FRAME_BYTES_MAX = 8 * 1024

_JOIN_FIRST = JOIN_VERSIONS.start
_JOIN_LAST = JOIN_VERSIONS.stop - 1
_REASON_FROM = 8
_SYNC_FIRST = SYNC_VERSIONS.start
_SYNC_LAST = SYNC_VERSIONS.stop - 1
_PROTOCOL_FROM = 5  # from this version on, a SyncGroup names its protocol
_BYTES_MIN = 24
_BYTES_MAX = FRAME_BYTES_MAX
_ONE_BYTE = 0x80  # a number from here on needs more than one byte
_NO_ERROR = b"\0\0\0\0\0\0"  # no throttling, no error


class _Later(WholeFrame):
    """The frame of a response that comes as a message, or as a frame already."""

    __slots__ = ("_correlation", "_version")

    def __init__(self, correlation: bytes, version: int) -> None:
        self._correlation = correlation
        self._version = version

    def frame(self, response: Any) -> bytes:
        if type(response) is bytes:
            return response
        body = getattr(response, "body", None)
        if body is None:
            body = codec.encode(response, self._version)
        return _framed(self._correlation, body)


class JoinFastPath:
    """Takes the JoinGroup requests of a listener, frame by frame."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def take(self, connection: Connection, frame: memoryview, version: int, correlation_id: int) -> bool:
        """Whether the request of this frame was taken: its answer follows. If not, nothing has happened."""
        size = byte_count(frame)
        if size < _BYTES_MIN or size > _BYTES_MAX:
            return False
        if cython.compiled:
            raw = cython.cast("const unsigned char *", first_byte(frame))
        else:
            raw = frame
        if version < _JOIN_FIRST or version > _JOIN_LAST:
            return False
        position = 10 + max(short_at(raw, 8), 0)  # after the client id
        if position + 1 >= size or raw[position]:
            return False
        # The group, its two timeouts, the member, no instance id, the type of its protocols, their count.
        group_at = position + 2
        group_end = group_at + raw[position + 1] - 1
        if raw[position + 1] < 2 or raw[position + 1] >= _ONE_BYTE or group_end + 9 > size:
            return False
        session_ms = int_at(raw, group_end)
        rebalance_ms = int_at(raw, group_end + 4)
        position = group_end + 8
        if raw[position] < 2 or raw[position] >= _ONE_BYTE or position + raw[position] + 2 > size:
            return False
        member_at = position + 1
        position += raw[position]
        member_end = position
        if raw[position]:
            return False
        position += 1
        if raw[position] < 2 or raw[position] >= _ONE_BYTE or position + raw[position] + 1 > size:
            return False
        type_at = position + 1
        position += raw[position]
        type_end = position
        left = raw[position] - 1
        if left < 1 or left >= _ONE_BYTE - 1:
            return False
        position += 1
        broker = self._broker
        config = broker.config
        coordinator = broker.groups.coordinator
        try:
            group_id = _piece(raw, group_at, group_end).decode()
            protocols: list[tuple[str, bytes]] = []
            while left:
                left -= 1
                if position >= size or raw[position] < 1 or raw[position] >= _ONE_BYTE:
                    return False
                start = position + 1
                position += raw[position]
                if position + 2 > size:
                    return False
                name = _piece(raw, start, position).decode()
                length = raw[position]
                position += 1
                if length >= _ONE_BYTE:
                    if raw[position] >= _ONE_BYTE:
                        return False
                    length = (length & 0x7F) | (raw[position] << 7)
                    position += 1
                if length < 1 or position + length > size:  # the length is followed by the tags at least
                    return False
                protocols.append((name, _piece(raw, position, position + length - 1)))
                position += length
                if raw[position - 1]:
                    return False
            if version >= _REASON_FROM:
                if position >= size or raw[position] >= _ONE_BYTE:
                    return False
                if raw[position]:
                    start = position + 1
                    position += raw[position]
                    if position >= size:
                        return False
                    _piece(raw, start, position).decode()
                else:
                    position += 1
            if position + 1 != size or raw[position]:
                return False
            least_ms = config.int_of("group.min.session.timeout.ms")
            if session_ms < least_ms or session_ms > config.int_of("group.max.session.timeout.ms"):
                return False
            active = coordinator.loaded_one(coordinator.partition_for(group_id))
            if active is None or not active.is_open:
                return False
            correlation = _piece(raw, 4, 8)
            pending = PendingResponse(partial(_join_failed, correlation, version))
            if not active.shard.classic.rejoin(
                group_id,
                _piece(raw, member_at, member_end).decode(),
                _piece(raw, type_at, type_end).decode(),
                tuple(protocols),
                session_ms,
                rebalance_ms,
                version,
                pending,
            ):
                return False
        except (KafkaError, UnicodeDecodeError):
            return False
        connection.answer_later(pending, _Later(correlation, version))
        return True


class SyncFastPath:
    """Takes the SyncGroup requests of a listener, frame by frame."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def take(self, connection: Connection, frame: memoryview, version: int, correlation_id: int) -> bool:
        """Whether the request of this frame was taken: its answer follows. If not, nothing has happened."""
        size = byte_count(frame)
        if size < _BYTES_MIN or size > _BYTES_MAX:
            return False
        if cython.compiled:
            raw = cython.cast("const unsigned char *", first_byte(frame))
        else:
            raw = frame
        if version < _SYNC_FIRST or version > _SYNC_LAST:
            return False
        position = 10 + max(short_at(raw, 8), 0)  # after the client id
        if position + 1 >= size or raw[position]:
            return False
        # The group, its generation, the member, no instance id, the protocol, no assignments.
        group_at = position + 2
        group_end = group_at + raw[position + 1] - 1
        if raw[position + 1] < 2 or raw[position + 1] >= _ONE_BYTE or group_end + 5 > size:
            return False
        generation = int_at(raw, group_end)
        position = group_end + 4
        if raw[position] < 2 or raw[position] >= _ONE_BYTE or position + raw[position] + 2 > size:
            return False
        member_at = position + 1
        position += raw[position]
        member_end = position
        if raw[position]:
            return False
        position += 1
        protocol_at = position
        name_at = name_end = type_at = type_end = position
        if version >= _PROTOCOL_FROM:
            if raw[position] < 2 or raw[position] >= _ONE_BYTE or position + raw[position] + 1 > size:
                return False
            type_at = position + 1
            position += raw[position]
            type_end = position
            if raw[position] < 2 or raw[position] >= _ONE_BYTE or position + raw[position] + 1 > size:
                return False
            name_at = position + 1
            position += raw[position]
            name_end = position
        protocol_end = position
        if position + 2 != size or raw[position] != 1 or raw[position + 1]:
            return False
        coordinator = self._broker.groups.coordinator
        try:
            group_id = _piece(raw, group_at, group_end).decode()
            active = coordinator.loaded_one(coordinator.partition_for(group_id))
            if active is None or not active.is_open:
                return False
            protocol = None
            if version >= _PROTOCOL_FROM:
                protocol = (
                    _piece(raw, type_at, type_end).decode(),
                    _piece(raw, name_at, name_end).decode(),
                )
            correlation = _piece(raw, 4, 8)
            pending = PendingResponse(partial(_sync_failed, correlation, version))
            outcome = active.shard.classic.sync_plainly(
                group_id, generation, _piece(raw, member_at, member_end).decode(), protocol, pending
            )
        except (KafkaError, UnicodeDecodeError):
            return False
        if outcome is None:
            return False
        if not isinstance(outcome, bytes):  # it is held
            connection.answer_later(pending, _Later(correlation, version))
            return True
        body = _NO_ERROR + _piece(raw, protocol_at, protocol_end) + _compact(outcome) + b"\0"
        active.answer(pending, _framed(correlation, body))
        connection.answer_later(pending, AS_IT_IS)
        return True


def _piece(raw: Bytes, start: int, end: int) -> bytes:
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast("const char *", raw) + start, end - start)  # type: ignore[no-any-return]
    return bytes(raw[start:end])


def _compact(data: bytes) -> bytes:
    """Bytes with their length + 1 as a varint."""
    length = len(data) + 1
    out = bytearray()
    while length >= _ONE_BYTE:
        out.append((length & 0x7F) | _ONE_BYTE)
        length >>= 7
    out.append(length)
    return bytes(out) + data


def _framed(correlation: bytes, body: bytes) -> bytes:
    return (len(body) + 5).to_bytes(4, "big") + correlation + b"\0" + body


def _join_failed(correlation: bytes, version: int, error: KafkaError) -> bytes:
    response: JoinGroupResponse = join_refused(client_error(error).code, "", version)
    return _framed(correlation, codec.encode(response, version))


def _sync_failed(correlation: bytes, version: int, error: KafkaError) -> bytes:
    response: SyncGroupResponse = sync_refused(client_error(error).code)
    return _framed(correlation, codec.encode(response, version))
