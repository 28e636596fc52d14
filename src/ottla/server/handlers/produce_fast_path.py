"""The fast path of the most common produce request: one batch for one partition, answered at once.

It reads and answers the bytes of the frame without message objects. Compiled, it costs a quarter of the
same steps as Python calls; this file also runs as plain Python. Two rules keep it correct. It handles only
success: in any other case it changes nothing and returns None, and `produce.handle` runs. And its response
has the same bytes: a test sends the same requests both ways.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from ottla.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, TRANSACTIONAL_BIT
from ottla.records.plain_batch import NOT_PLAIN
from ottla.records.validate import TakesLong
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.libc.string import memcpy, memset
    from cython.cimports.ottla.records.native import byte_count, first_byte

if not cython.compiled:
    from ottla.records.big_endian import int_at, put_int, put_long, short_at
    from ottla.server.replicas.plain_append import append_as_leader

    byte_count = len

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from ottla.server.broker import Broker
    from ottla.server.replicas.partition import Partition

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte

VERSIONS = range(9, 14)
"""The versions that have a fast path."""

_PRODUCE = 0
_BY_ID = 13  # from this version on, a request names its topic by id
_FIRST = VERSIONS.start
_LAST = VERSIONS.stop - 1
_ONE = 2  # how a compact array says that it has one element
_ID_BYTES = 16
_START_BYTES = 8  # no transactional id, acks, timeout, count of topics
_PARTITION_BYTES = 5  # count of partitions, index
_END_BYTES = 3  # no tagged fields: of the partition, of the topic, of the request
_HEADER_BYTES = HEADER_BYTES
_FLAGS_AT = ATTRIBUTES_POSITION + 1
_TRANSACTIONAL_BIT = TRANSACTIONAL_BIT
_NOT_PLAIN = NOT_PLAIN
# Of the answer, beside the topic: size, correlation id, no tags, count of topics; count of partitions, index,
# no error, offset, time, start of the log, no record errors, no message, no tags, no throttling, no tags.
_ANSWER_START_BYTES = 10
_ANSWER_PARTITION_BYTES = 1 + 4 + 2 + 3 * 8 + 1 + 8
_TAIL_BYTES = 8  # no message, no tags, no throttling, no tags


class ProduceExpress:
    """Answers produce requests of a listener, from frame to frame."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lateness = broker.lateness

    def answer_read(self, data: memoryview, count: int) -> bytes | None:
        """`answer`, if the first `count` bytes are one request with its size before it."""
        if count < 4 or count > byte_count(data):
            return None
        if cython.compiled:
            size = int_at(cython.cast("const unsigned char *", first_byte(data)), 0)
        else:
            size = int_at(data, 0)
        return self.answer(data, 4, count) if size == count - 4 else None

    def answer(self, data: memoryview, start: int, end: int) -> bytes | None:
        """The answer's frame to the request from `start` to `end`; or None, and nothing has happened."""
        size = end - start
        if start < 0 or size < 0 or end > byte_count(data):
            raise ValueError(f"no bytes {start} to {end} in a buffer of {len(data)}")
        if size < 10:
            return None
        if cython.compiled:
            raw = cython.cast("const unsigned char *", first_byte(data)) + start
        else:
            raw = data[start:end]
        version = short_at(raw, 2)
        if short_at(raw, 0) != _PRODUCE or version < _FIRST or version > _LAST:
            return None
        position = 10 + max(short_at(raw, 8), 0)  # after the client id
        # A topic with a name of one letter, or with an id, is the shortest.
        if size - position < 1 + _START_BYTES + 2 + _PARTITION_BYTES + 1 + _HEADER_BYTES + _END_BYTES:
            return None
        if raw[position] or raw[position + 1] or raw[position + 8] != _ONE:
            return None
        acks = short_at(raw, position + 2)
        topic = position + 1 + _START_BYTES
        broker = self._broker
        if version == _BY_ID:
            after_topic = topic + _ID_BYTES
        else:
            after_topic = topic + raw[topic]
            if raw[topic] < 2 or raw[topic] >= 128:
                return None
        position = after_topic + _PARTITION_BYTES
        if size - position < 1 + _HEADER_BYTES + _END_BYTES or raw[after_topic] != _ONE:
            return None
        index = int_at(raw, after_topic + 1)
        if version == _BY_ID:
            hosted = broker.partitions.by_id.get(_piece(raw, topic, after_topic))
        else:
            hosted = broker.partitions.by_name.get(
                _piece(raw, topic + 1, after_topic).decode("utf-8", "replace")
            )
        partition = hosted.get(index) if hosted is not None else None
        if partition is None:
            return None
        log = partition.log
        if log is None:
            return None

        # The size of the records, and that they reach to the end of the request.
        length = raw[position] & 0x7F
        shift = 7
        while raw[position] & 0x80 and shift < 28:
            position += 1
            length |= (raw[position] & 0x7F) << shift
            shift += 7
        if raw[position] & 0x80:  # a fifth byte: more than any frame, too long, or written wastefully
            return None
        position += 1
        stop = size - _END_BYTES
        if length - 1 <= _HEADER_BYTES or position + length - 1 != stop:
            return None
        if raw[stop] or raw[stop + 1] or raw[stop + 2]:
            return None
        if raw[position + _FLAGS_AT] & _TRANSACTIONAL_BIT:
            return None
        first = start + position
        last = start + stop
        log_append_time = -1
        try:
            offset = _NOT_PLAIN
            if not data.readonly:
                offset = append_as_leader(partition, data, first, last, acks, broker.clock)
            if offset == _NOT_PLAIN:
                if not partition.acknowledges_at_once(acks):
                    return None
                offset, log_append_time = _append(broker, partition, data[first:last], acks)
        except (KafkaError, TakesLong):
            return None
        except OSError as error:
            # Now: the general way finds the log closed to writes after some errors, and none after others.
            broker.directories.storage_error(log, error)
            return None
        self._lateness.latest_api = version
        return _answer(raw, topic, after_topic, offset, log_append_time, log.log_start_offset)


def _piece(raw: Bytes, start: int, end: int) -> bytes:
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast("const char *", raw) + start, end - start)  # type: ignore[no-any-return]
    return bytes(raw[start:end])


def _answer(raw: Bytes, topic: int, after_topic: int, offset: int, time_ms: int, log_start: int) -> bytes:
    """The frame of the answer. The topic and its partition are there as the request has them."""
    topic_bytes = after_topic - topic
    size = _ANSWER_START_BYTES + topic_bytes + _ANSWER_PARTITION_BYTES
    if cython.compiled:
        answer = PyBytes_FromStringAndSize(cython.NULL, size)
        out = cython.cast("unsigned char *", PyBytes_AS_STRING(answer))
        memcpy(out + _ANSWER_START_BYTES, raw + topic, topic_bytes)
        memset(out + size - _TAIL_BYTES, 0, _TAIL_BYTES)
    else:
        out = bytearray(size)
        out[_ANSWER_START_BYTES : _ANSWER_START_BYTES + topic_bytes] = raw[topic:after_topic]
    put_int(out, 0, size - 4)
    put_int(out, 4, int_at(raw, 4))
    out[8] = 0
    out[9] = _ONE
    at = _ANSWER_START_BYTES + topic_bytes
    out[at] = _ONE
    at = put_int(out, at + 1, int_at(raw, after_topic + 1))
    out[at] = out[at + 1] = 0
    at = put_long(out, at + 2, offset)
    at = put_long(out, at, time_ms)
    at = put_long(out, at, log_start)
    out[at] = 1
    return answer if cython.compiled else bytes(out)


def _append(broker: Broker, partition: Partition, records: memoryview, acks: int) -> tuple[int, int]:
    """Append a batch that is not plain: (offset, append time)."""
    header = bytes(records[:_HEADER_BYTES])
    try:
        appended = partition.append(records, acks=acks, now_ms=broker.clock.now_ms())
    except (KafkaError, OSError, TakesLong):
        if not records.readonly:  # then a copy got its offset
            records[:_HEADER_BYTES] = header  # a failed write comes after the batch got its offset
        raise
    return appended.first_offset, appended.log_append_time_ms
