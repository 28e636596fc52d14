"""The fast path of the usual produce requests: batches for some partitions, with acks=1 or acks=all.

It reads and answers the bytes of the frame without message objects. Compiled, it costs a quarter of the
same steps as Python calls; this file also runs as plain Python. Three rules keep it correct.
- It reads the whole request before it appends anything. If the request is not of this form, or the first
  batch cannot be appended, it changes nothing and returns None, and `produce.handle` runs.
- It handles only success. At a later batch that cannot be appended, or that takes too long, it notes in
  `begun` what it has appended and returns None: `produce.handle` goes on with that batch.
- Its response has the same bytes as that of `produce.handle`: a test sends the same requests both ways.
"""

from __future__ import annotations

from struct import Struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from ottla.rare_paths import rarely
from ottla.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, TRANSACTIONAL_BIT
from ottla.records.plain_batch import NOT_PLAIN
from ottla.records.validate import TakesLong
from ottla.server.net.turns import TURN_MS
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
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ottla.server.broker import Broker
    from ottla.server.replicas.partition import Partition
    from ottla.waiting.pending_response import PendingResponse

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte

VERSIONS = range(9, 14)
"""The versions that have a fast path."""

PARTITIONS_MAX = 1000
"""A request with more partitions takes the general way, which runs in steps."""

_PRODUCE = 0
_BY_ID = 13  # from this version on, a request names its topic by id
_FIRST = VERSIONS.start
_LAST = VERSIONS.stop - 1
_ID_BYTES = 16
_NAME_BYTES_MAX = 126  # of a name whose length fits one byte
_START_BYTES = 9  # no tags, no transactional id, acks, timeout; the count of topics follows
_HEADER_BYTES = HEADER_BYTES
_FLAGS_AT = ATTRIBUTES_POSITION + 1
_TRANSACTIONAL_BIT = TRANSACTIONAL_BIT
_NOT_PLAIN = NOT_PLAIN
_PARTITIONS_MAX = PARTITIONS_MAX
_PARTITIONS_AT_ONCE = 8  # how many of them have one rare path in common
# Of the response: size, correlation id, no tags; index, no error, offset, time, start of the log, no record
# errors, no message, no tags; no throttling, no tags.
_ANSWER_START_BYTES = 9
_ANSWER_PARTITION_BYTES = 4 + 2 + 3 * 8 + 3
_ANSWER_END_BYTES = 5
_FACTS = Struct(">qqq")


class Written(NamedTuple):
    """A batch that was appended here: the facts of its response."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Begun(NamedTuple):
    """A request of which these batches, the first ones, are appended. Its slice of time ends at `stop_at`.

    `failure`: a bug that the next batch met. It may be in the log, so it is not appended again.
    """

    written: list[Written]
    stop_at: float
    failure: Exception | None


class ProduceExpress:
    """Answers produce requests of a listener, from frame to frame.

    `wait(version, response, appends, timeout_ms)` returns the response that comes once the replicas have the
    given appends: (number of the partition in the response, partition, end offset).
    """

    def __init__(
        self,
        broker: Broker,
        wait: Callable[[int, bytes, list[tuple[int, Partition, int]], int], PendingResponse],
    ) -> None:
        self._broker = broker
        self._lateness = broker.lateness
        self._wait = wait
        self.begun: Begun | None = None

    def answer_read(self, data: memoryview, count: int) -> bytes | PendingResponse | None:
        """`answer`, if the first `count` bytes are one request with its size before it."""
        if count < 4 or count > byte_count(data):
            return None
        if cython.compiled:
            size = int_at(cython.cast("const unsigned char *", first_byte(data)), 0)
        else:
            size = int_at(data, 0)
        return self.answer(data, 4, count) if size == count - 4 else None

    def answer(self, data: memoryview, start: int, end: int) -> bytes | PendingResponse | None:
        """The frame of the response to the request from `start` to `end`, now or later.

        None: either nothing has happened, or `begun` says what has, and the caller takes it and goes on.
        """
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
        if size <= position + _START_BYTES or raw[position] or raw[position + 1]:
            return None
        acks = short_at(raw, position + 2)
        if acks != 1 and acks != -1:
            return None
        timeout_ms = int_at(raw, position + 4)
        position += _START_BYTES - 1
        by_id = version == _BY_ID
        answer_size = _answer_size(raw, position, size, by_id)
        if answer_size < 0:
            return None

        if cython.compiled:
            answer = PyBytes_FromStringAndSize(cython.NULL, answer_size)
            out = cython.cast("unsigned char *", PyBytes_AS_STRING(answer))
            memset(out, 0, answer_size)
        else:
            answer = out = bytearray(answer_size)
        put_int(out, 0, answer_size - 4)
        put_int(out, 4, int_at(raw, 4))
        at = _ANSWER_START_BYTES
        packed = _count(raw, position, size)
        at = _copy(out, at, raw, position, position + (packed & 7))
        position += packed & 7
        broker = self._broker
        clock = broker.clock
        now_ms = clock.now_ms()
        is_writable = not data.readonly
        waiting = None
        number = 0
        stop_at = 0.0
        topics = (packed >> 3) - 1
        for _ in range(topics):
            if by_id:
                after_topic = position + _ID_BYTES
                hosted = broker.partitions.by_id.get(_piece(raw, position, after_topic))
            else:
                after_topic = position + raw[position]
                hosted = broker.partitions.by_name.get(_piece(raw, position + 1, after_topic).decode())
            packed = _count(raw, after_topic, size)
            at = _copy(out, at, raw, position, after_topic + (packed & 7))
            position = after_topic + (packed & 7)
            count = (packed >> 3) - 1
            if stop_at == 0.0 and (topics > 1 or count > 1):
                stop_at = clock.monotonic() + TURN_MS / 1000
            for _ in range(count):
                if number and (
                    clock.monotonic() >= stop_at
                    or (number % _PARTITIONS_AT_ONCE == 1 and rarely("a produce request is left half done"))
                ):
                    return self._stop(answer, number, by_id, waiting, stop_at)
                partition = hosted.get(int_at(raw, position)) if hosted is not None else None
                log = partition.log if partition is not None else None
                if partition is None or log is None:
                    return self._stop(answer, number, by_id, waiting, stop_at)
                put_int(out, at, int_at(raw, position))
                packed = _count(raw, position + 4, size)
                position += 4 + (packed & 7)
                first = start + position
                position += (packed >> 3) - 1
                last = start + position
                position += 1
                log_append_time = -1
                try:
                    offset = _NOT_PLAIN
                    if is_writable:
                        offset = append_as_leader(partition, data, first, last, acks, now_ms)
                    if offset != _NOT_PLAIN:
                        end_offset = log.log_end_offset if acks == -1 else 0
                    elif not partition.can_append_at_once():
                        return self._stop(answer, number, by_id, waiting, stop_at)
                    else:
                        appended = _append(partition, data[first:last], acks, now_ms)
                        offset, end_offset, log_append_time = appended
                except (KafkaError, TakesLong):
                    return self._stop(answer, number, by_id, waiting, stop_at)
                except OSError as error:
                    # Now: the general way finds the log closed to writes after some errors, and none after
                    # others.
                    broker.directories.storage_error(log, error)
                    return self._stop(answer, number, by_id, waiting, stop_at)
                except Exception as failure:  # noqa: BLE001  it concerns this partition alone
                    return self._stop(answer, number, by_id, waiting, stop_at, failure)
                put_long(out, at + 6, offset)
                put_long(out, at + 14, log_append_time)
                put_long(out, at + 22, log.log_start_offset)
                out[at + 30] = 1
                at += _ANSWER_PARTITION_BYTES
                if acks == -1 and log.high_watermark < end_offset:
                    if waiting is None:
                        waiting = []
                    waiting.append((number, partition, end_offset))
                number += 1
            position += 1
            at += 1
        self._lateness.latest_api = version
        frame = answer if cython.compiled else bytes(answer)
        return frame if waiting is None else self._wait(version, frame, waiting, timeout_ms)

    def _stop(
        self,
        answer: bytes | bytearray,
        number: int,
        by_id: bool,
        waiting: list[tuple[int, Partition, int]] | None,
        stop_at: float,
        failure: Exception | None = None,
    ) -> bytes | None:
        """Note the first `number` partitions, which are appended; `answer` has their part of the response.

        `failure`: a bug that the next one met.
        """
        if not number and failure is None:
            return None
        last_offsets = {index: end_offset - 1 for index, _, end_offset in waiting or ()}
        written: list[Written] = []
        at = _number_end(answer, _ANSWER_START_BYTES)
        while len(written) < number:
            at += _ID_BYTES if by_id else answer[at]
            start, at = at, _number_end(answer, at)
            count = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(answer[start:at])) - 1
            for _ in range(min(count, number - len(written))):
                first_offset, time_ms, log_start_offset = _FACTS.unpack_from(answer, at + 6)
                # One that waits for nothing is below the high watermark, and so is -1.
                last_offset = last_offsets.get(len(written), -1)
                written.append(Written(first_offset, last_offset, time_ms, log_start_offset))
                at += _ANSWER_PARTITION_BYTES
            at += 1
        self.begun = Begun(written, stop_at, failure)
        return None


def _number_end(answer: bytes | bytearray, at: int) -> int:
    while answer[at] & 0x80:
        at += 1
    return at + 1


def _count(raw: Bytes, at: int, end: int) -> int:
    """The number at `at` and its size: number << 3 | size. -1 if it is too large, or not written shortest."""
    number = size = 0
    while size < 4 and at + size < end:
        byte = raw[at + size]
        number |= (byte & 0x7F) << 7 * size
        size += 1
        if byte < 0x80:
            return -1 if size > 1 and byte == 0 else number << 3 | size
    return -1


def _answer_size(raw: Bytes, position: int, end: int, by_id: bool) -> int:
    """The size of the response to the topics from `position` on; -1 if this is not the usual request."""
    packed = _count(raw, position, end)
    topics = (packed >> 3) - 1
    if packed < 0 or topics < 1:
        return -1
    position += packed & 7
    size = _ANSWER_START_BYTES + (packed & 7) + _ANSWER_END_BYTES
    total = 0
    for _ in range(topics):
        if position >= end:
            return -1
        if by_id:
            at = position + _ID_BYTES
        else:
            at = position + raw[position]
            if raw[position] < 2 or raw[position] > _NAME_BYTES_MAX + 1 or at > end:
                return -1
            for place in range(position + 1, at):
                if raw[place] >= 128:
                    return -1
        packed = _count(raw, at, end)
        count = (packed >> 3) - 1
        total += count
        if packed < 0 or count < 1 or total > _PARTITIONS_MAX:
            return -1
        at += packed & 7
        size += at - position + count * _ANSWER_PARTITION_BYTES + 1
        for _ in range(count):
            packed = _count(raw, at + 4, end)
            length = (packed >> 3) - 1
            if packed < 0 or length <= _HEADER_BYTES:
                return -1
            at += 4 + (packed & 7)
            if at + length >= end or raw[at + length]:  # its tagged fields
                return -1
            if raw[at + _FLAGS_AT] & _TRANSACTIONAL_BIT:
                return -1
            at += length + 1
        if at >= end or raw[at]:
            return -1
        position = at + 1
    return size if position == end - 1 and not raw[position] else -1


def _copy(out: Bytes, at: int, raw: Bytes, start: int, end: int) -> int:
    """Copy a piece of the request into the response; the end of the copy."""
    if cython.compiled:
        memcpy(out + at, raw + start, end - start)
    else:
        out[at : at + end - start] = raw[start:end]
    return at + end - start


def _piece(raw: Bytes, start: int, end: int) -> bytes:
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast("const char *", raw) + start, end - start)  # type: ignore[no-any-return]
    return bytes(raw[start:end])


def _append(partition: Partition, records: memoryview, acks: int, now_ms: int) -> tuple[int, int, int]:
    """Append a batch that is not plain: (offset, end offset, append time)."""
    header = bytes(records[:_HEADER_BYTES])
    try:
        appended = partition.append(records, acks=acks, now_ms=now_ms)
    except (KafkaError, OSError, TakesLong):
        if not records.readonly:  # then a copy got its offset
            records[:_HEADER_BYTES] = header  # a failed write comes after the batch got its offset
        raise
    return appended.first_offset, appended.last_offset + 1, appended.log_append_time_ms
