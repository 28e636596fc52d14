"""The fast path of the usual OffsetCommit: partitions that exist, no metadata, a client that may commit.

It reads the bytes of the frame, and makes the records and the answer from them without message objects.
Compiled, it costs a fraction of the same steps; this file also runs as plain Python. Two rules keep it
correct. It takes only a commit that succeeds: in any other case it changes nothing and returns False, and
`offset_commit.handle` runs. And its records and its answer have the same bytes: a test sends the same
requests both ways. The answer leaves once the records are committed; if that fails, it reports the error.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ottla.coordinator.groups.offsets.records import (
    KEY_TYPE,
    PARTITION_BYTES,
    OffsetRecord,
    plain_value_parts,
)
from ottla.coordinator.runtime import client_error
from ottla.server.handlers.offset_common import PARTITIONS_PER_DECISION
from ottla.server.net.connection import AS_IT_IS
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import codec
from ottla.wire.errors import KafkaError
from ottla.wire.messages.offset_commit import OffsetCommitResponse

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

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte

VERSIONS = range(8, 11)
"""The versions that have a fast path: those with compact strings."""

FRAME_BYTES_MAX = 8 * 1024
"""Above this, what the usual path does in slices of time is worth more than its cost."""

_BY_ID = 10  # from this version on, a request names its topics by id
_FIRST = VERSIONS.start
_LAST = VERSIONS.stop - 1
_BYTES_MIN = 32  # of a request, without its client id
_BYTES_MAX = FRAME_BYTES_MAX
_ID_BYTES = 16
_PARTITION_BYTES = PARTITION_BYTES
_ROW_BYTES = 18  # of a partition in the request: index, offset, leader epoch, metadata, no tags
_POSITION_BYTES = 12  # its offset and leader epoch, as they are in the record
_ROWS_MAX = PARTITIONS_PER_DECISION
_ONE_BYTE = 0x80  # a number from here on needs more than one byte
_ROW_END = b"\0\0\0"  # of a partition in the answer: no error, no tags
_ANSWER_HEAD_BYTES = 9  # of its frame: size, correlation id, no tags


class CommitFastPath:
    """Takes the commits of a listener, frame by frame."""

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
        if version < _FIRST or version > _LAST:
            return False
        position = 10 + max(short_at(raw, 8), 0)  # after the client id
        if position + 1 >= size or raw[position]:
            return False
        # The group, its generation, the member, its instance id, the count of topics.
        group_at = position + 2
        group_end = group_at + raw[position + 1] - 1
        if raw[position + 1] < 2 or raw[position + 1] >= _ONE_BYTE or group_end + 5 > size:
            return False
        epoch = int_at(raw, group_end)
        position = group_end + 4
        if raw[position] < 1 or raw[position] >= _ONE_BYTE or position + raw[position] + 1 > size:
            return False
        member_at = position + 1
        position += raw[position]
        member_end = position
        if raw[position] >= _ONE_BYTE or position + raw[position] + 2 > size:
            return False
        instance_at = position + 1
        instance_size = raw[position] - 1  # -1: it has none
        position += raw[position] if raw[position] else 1
        topics_at = position
        topics_left = raw[position] - 1
        position += 1
        if topics_left < 1 or topics_left >= _ONE_BYTE - 1 or position >= size:
            return False

        broker = self._broker
        image = broker.image
        coordinator = broker.groups.coordinator
        group_bytes = _piece(raw, group_at, group_end)
        try:
            group_id = group_bytes.decode()
            member_id = _piece(raw, member_at, member_end).decode()
            instance_id = None
            if instance_size >= 0:
                instance_id = _piece(raw, instance_at, instance_at + instance_size).decode()
            active = coordinator.loaded_one(coordinator.partition_for(group_id))
            if active is None:
                return False
            check, session = active.shard.offsets.admit(group_id, member_id, instance_id, epoch, version)
            now_ms = broker.clock.now_ms()
            group_part = KEY_TYPE + len(group_bytes).to_bytes(2, "big") + group_bytes
            records: list[OffsetRecord] = []
            record_bytes = 0
            answer: list[bytes] = [b"\0\0\0\0", _piece(raw, topics_at, topics_at + 1)]
            while topics_left:
                topics_left -= 1
                topic_at = position
                if version == _BY_ID:
                    position += _ID_BYTES
                    if position >= size:
                        return False
                    known = image.topics.get(_piece(raw, topic_at, position))
                else:
                    position += raw[position]
                    if raw[topic_at] < 2 or raw[topic_at] >= _ONE_BYTE or position >= size:
                        return False
                    known = image.topics_by_name.get(_piece(raw, topic_at + 1, position).decode())
                rows_left = raw[position] - 1
                if known is None or rows_left < 1 or rows_left >= _ONE_BYTE - 1:
                    return False
                position += 1
                if position + rows_left * _ROW_BYTES + 2 > size:
                    return False
                name = known.name
                partitions = known.partitions
                topic_id = known.id
                name_bytes = name.encode()
                key_start = group_part + len(name_bytes).to_bytes(2, "big") + name_bytes
                value_start, value_end = plain_value_parts(now_ms, topic_id)
                answer.append(_piece(raw, topic_at, position))
                while rows_left:
                    rows_left -= 1
                    index = int_at(raw, position)
                    if index not in partitions:
                        return False
                    if raw[position + _ROW_BYTES - 2] > 1 or raw[position + _ROW_BYTES - 1]:
                        return False
                    if check is not None:
                        check(name, topic_id, index)
                    index_bytes = _piece(raw, position, position + _PARTITION_BYTES)
                    key = key_start + index_bytes
                    position += _PARTITION_BYTES
                    value = value_start + _piece(raw, position, position + _POSITION_BYTES) + value_end
                    position += _ROW_BYTES - _PARTITION_BYTES
                    records.append(OffsetRecord(group_id, name, index, key, value))
                    record_bytes += len(key) + len(value)
                    answer.append(index_bytes)
                    answer.append(_ROW_END)
                if raw[position]:
                    return False
                answer.append(b"\0")
                position += 1
                if position >= size:
                    return False
            if raw[position] or position + 1 != size or len(records) > _ROWS_MAX:
                return False
        except (KafkaError, UnicodeDecodeError):
            return False
        answer.append(b"\0")
        body = b"".join(answer)
        head = (len(body) + _ANSWER_HEAD_BYTES - 4).to_bytes(4, "big") + _piece(raw, 4, 8) + b"\0"
        frame_out = head + body
        pending = PendingResponse(partial(_failed, frame_out, version))
        if not active.add_encoded(records, record_bytes, now_ms, session, pending, frame_out):
            return False
        connection.answer_later(pending, AS_IT_IS)
        return True


def _piece(raw: Bytes, start: int, end: int) -> bytes:
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast("const char *", raw) + start, end - start)  # type: ignore[no-any-return]
    return bytes(raw[start:end])


def _failed(answer: bytes, version: int, error: KafkaError) -> bytes:
    """The answer that reports an error of the coordinator's log for each partition."""
    response = codec.decode(OffsetCommitResponse, answer, version, _ANSWER_HEAD_BYTES)
    code = client_error(error).code
    for topic in response.topics:
        for answered in topic.partitions:
            answered.error_code = code
    return answer[:_ANSWER_HEAD_BYTES] + codec.encode(response, version)
