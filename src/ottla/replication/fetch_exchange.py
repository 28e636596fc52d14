"""The fast path of a follower: from the frame of a response to the frame of the next request.

Most fetches of a session bring a few batches for partitions that continue where they were. This appends them,
moves the high watermarks and writes the next request straight from and to bytes. Compiled, it costs a
fraction of the general way through messages and plans; this file also runs as plain Python. Two rules keep it
correct. It handles only success: anything else it leaves to `Fetcher`, which gets the same response. And its
requests have the same bytes: a test runs the same responses both ways.
"""

from __future__ import annotations

import logging
from struct import Struct
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ottla.log.config import FLUSH_MESSAGES_NEVER
from ottla.rare_paths import rarely
from ottla.records.plain_batch import NOT_PLAIN
from ottla.replication.follower import PartitionFetch
from ottla.wire.frame import request_frame

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.ottla.records.native import byte_count, first_byte

if not cython.compiled:
    from ottla.log.follower_append import append_from_leader
    from ottla.records.big_endian import int_at, long_at, put_int, put_long, short_at

    byte_count = len

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ottla.replication.fetcher import Replica, Storage
    from ottla.replication.follower import Following, Key, Plan
    from ottla.replication.throttle import Throttle
    from ottla.wire.messages.fetch import FetchRequest

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte

VERSIONS = range(15, 19)
"""The versions of Fetch that have a fast path."""

PARTITIONS_MAX = 1000
"""A session with more partitions takes the general way."""

_PARTITIONS_MAX = PARTITIONS_MAX
_FIRST = VERSIONS.start
_LAST = VERSIONS.stop - 1
_FLUSH_NEVER = FLUSH_MESSAGES_NEVER
_NOT_PLAIN = NOT_PLAIN
_ID_BYTES = 16
# Of a response: correlation id, tags, throttle time, error, session id, and the count of topics.
_RESPONSE_START_BYTES = 4 + 1 + 4 + 2 + 4
# Of a partition in it: index, error, high watermark, stable offset, log start, aborted, preferred replica.
_ANSWERED_BYTES = 4 + 2 + 8 + 8 + 8 + 1 + 4
# Of a request: size, key, version, correlation id, length of the client id, tags.
_HEADER_BYTES = 4 + 8 + 2 + 1
# wait, min and max bytes, isolation level, session id and epoch.
_FIXED_BYTES = 4 + 4 + 4 + 1 + 4 + 4
# Of a partition in it: index, epoch, offset, last epoch, log start, max bytes, tags.
_ASKED_BYTES = 4 + 4 + 8 + 4 + 8 + 4 + 1

_put = Struct(">i").pack_into

logger = logging.getLogger("ottla.replication.fetcher")


class FetchExchange:
    """The responses and requests of one fetcher between two of its general fetches."""

    def __init__(
        self,
        following: Following,
        replicas: dict[Key, Replica],
        storage: Storage,
        throttle: Throttle,
        broker_epoch: Callable[[], int],
        partition_bytes_max: int,
    ) -> None:
        self._following = following
        self._replicas = replicas
        self._storage = storage
        self._throttle = throttle
        self._broker_epoch = broker_epoch
        self._partition_bytes_max = partition_bytes_max
        self._known: dict[Key, PartitionFetch] = {}
        self._starts: dict[Key, tuple[Replica, int]] = {}
        """The replicas, and where their logs start as far as the leader has been told."""
        self._changes = -1  # of the following, when its last general fetch was planned
        self._session_id = 0
        self._asked_epoch = -1  # of the broker, as the requests name it
        self._template: tuple[Any, ...] = ()
        self._head = b""
        self._tail = b""
        self._loses_answer = False

    def may_follow(self, plan: Plan) -> bool:
        """Whether responses may be handled here after this general fetch, which is about to be sent."""
        following = self._following
        if plan.session_epoch <= 0 or not len(following.positions) == len(plan.fetches) <= _PARTITIONS_MAX:
            return False
        self._known = following.session.known
        self._changes = following.changes
        self._starts = {
            key: (self._replicas[key], fetch.log_start_offset) for key, fetch in self._known.items()
        }
        return True

    def begin(self, request: FetchRequest, version: int, client_id: str) -> bool:
        """Follow this general fetch. False if its version has no fast path."""
        if not _FIRST <= version <= _LAST:
            return False
        state = request.replica_state
        template = (version, client_id, request.session_id, state.replica_epoch)
        if template != self._template:
            self._template = template
            self._session_id = request.session_id
            self._asked_epoch = state.replica_epoch
            empty = type(request)(
                replica_state=state,
                max_wait_ms=request.max_wait_ms,
                min_bytes=request.min_bytes,
                max_bytes=request.max_bytes,
                session_id=request.session_id,
            )
            frame = request_frame(empty, version, 0, client_id)
            end = _HEADER_BYTES + len(client_id.encode()) + _FIXED_BYTES
            self._head, self._tail = frame[:end], frame[end + 1 :]
        return True

    def has_lost_answer(self) -> bool:
        """Whether a simulation wants the last response to be lost; then it is forgotten."""
        loses, self._loses_answer = self._loses_answer, False
        return loses

    def take(self, frame: bytes, correlation_id: int) -> bytes | None:
        """Handle the response with this correlation id: the frame of the next request, whose id is the next
        one. None: `Fetcher` handles the response.
        """
        try:
            return self._take(frame, correlation_id)
        except Exception:  # the general way meets it again, or finds the partition's offset changed
            logger.exception("Failed to handle a fetch response the short way")
            return None

    def _take(self, frame: bytes, correlation_id: int) -> bytes | None:
        data = memoryview(frame)
        size = byte_count(data)
        following = self._following
        if (
            size <= _RESPONSE_START_BYTES + 1
            or following.changes != self._changes
            or self._throttle.has_topics
            or self._broker_epoch() != self._asked_epoch
        ):
            return None
        if rarely("a follower loses an answer"):
            self._loses_answer = True
            return None
        if cython.compiled:
            raw = cython.cast("const unsigned char *", first_byte(data))
        else:
            raw = data
        if (
            int_at(raw, 0) != correlation_id
            or raw[4]
            or short_at(raw, 9)
            or int_at(raw, 11) != self._session_id
            or raw[size - 1]
        ):
            return None
        found = self._read(frame, raw, size)
        if found is None:
            return None
        for replica, log_start_offset in self._starts.values():
            log = replica.log
            if log is None or log.log_start_offset != log_start_offset:
                return None  # the next request must tell the leader
        for position, replica, log, high_watermark, start, end in found:
            if end > start:
                try:
                    end_offset = append_from_leader(log, data, start, end, position.leader_epoch)
                except OSError as error:
                    # Now: the general way finds the log closed after some errors, and none after others.
                    self._storage.storage_error(log, error)
                    return None
                if end_offset == _NOT_PLAIN:
                    return None
            if high_watermark > log.high_watermark and log.advance_high_watermark(high_watermark):
                replica.watermark_moved()
            if following.changes != self._changes:
                return None  # a waiter has changed what is followed
            following.appended(position, log, high_watermark)
        return self._next_request(found, correlation_id + 1)

    def _read(self, frame: bytes, raw: Bytes, size: int) -> list[Any] | None:
        """The partitions of a response, each with what to append; None if one of them is not plain."""
        positions = self._following.positions
        replicas = self._replicas
        known = self._known
        found: list[Any] = []
        at = _RESPONSE_START_BYTES
        topics = raw[at]
        at += 1
        if topics == 0 or topics >= 128:
            return None
        while topics > 1:
            topics -= 1
            if size - at < _ID_BYTES + 2:
                return None
            topic_id = frame[at : at + _ID_BYTES]
            at += _ID_BYTES
            partitions = raw[at]
            at += 1
            if partitions == 0 or partitions >= 128:
                return None
            while partitions > 1:
                partitions -= 1
                if size - at < _ANSWERED_BYTES + 5:  # an end of two bytes and its own tags follow at least
                    return None
                key = (topic_id, int_at(raw, at))
                high_watermark = long_at(raw, at + 6)
                log_start_offset = long_at(raw, at + 22)
                if short_at(raw, at + 4) or raw[at + 30]:
                    return None
                at += _ANSWERED_BYTES
                length = raw[at] & 0x7F
                shift = 7
                while raw[at] & 0x80 and shift < 28:
                    at += 1
                    if at >= size:
                        return None
                    length |= (raw[at] & 0x7F) << shift
                    shift += 7
                if raw[at] & 0x80:
                    return None
                at += 1
                start = at
                at += max(length - 1, 0)
                if at >= size or raw[at]:
                    return None
                position = positions.get(key)
                fetch = known.get(key)
                replica = replicas.get(key)
                if position is None or fetch is None or replica is None:
                    return None
                log = replica.log
                if (
                    log is None
                    or position.offset != fetch.offset
                    or position.leader_epoch != fetch.leader_epoch
                    or log.log_end_offset != position.offset
                    or log_start_offset > log.log_start_offset
                    or log.flush_messages != _FLUSH_NEVER
                ):
                    return None
                found.append((position, replica, log, high_watermark, start, at))
                at += 1
            if at >= size or raw[at]:
                return None
            at += 1
        if at != size - 1:
            return None
        return found

    def _next_request(self, found: list[Any], correlation_id: int) -> bytes:
        """The request for all positions: it names those that have changed."""
        following = self._following
        known = self._known
        fetch: Any
        log: Any
        changed: list[Any] = []
        for position, _, log, _, _, _ in found:
            fetch = known[position.key]
            if fetch.offset != position.offset or fetch.last_fetched_epoch != position.last_fetched_epoch:
                changed.append((position.key, position.next_fetch(log.log_start_offset)))
        topics: dict[bytes, list[bytes]] = {}
        for key, fetch in changed:
            pieces = topics.get(key[0])
            if pieces is None:
                pieces = topics[key[0]] = []
            pieces.append(_asked(fetch, self._partition_bytes_max))
        head = bytearray(self._head)
        parts: list[Any] = [head, _count(len(topics))]
        for topic_id, pieces in topics.items():
            parts.append(topic_id)
            parts.append(_count(len(pieces)))
            parts += pieces
            parts.append(b"\0")
        parts.append(self._tail)
        session = following.session
        _put(head, 0, sum(map(len, parts)) - 4)
        _put(head, 8, correlation_id)
        _put(head, len(head) - 4, session.epoch_after_answer)
        request = b"".join(parts)
        session.on_response(0, self._session_id)
        for key, fetch in changed:
            known[key] = fetch
        return request


def _count(count: int) -> bytes:
    """The length of a compact array."""
    count += 1
    return bytes((count,)) if count < 128 else bytes((count & 0x7F | 0x80, count >> 7))


def _asked(fetch: PartitionFetch, bytes_max: int) -> bytes:
    """A partition as a request names it."""
    if cython.compiled:
        asked = PyBytes_FromStringAndSize(cython.NULL, _ASKED_BYTES)
        out = cython.cast("unsigned char *", PyBytes_AS_STRING(asked))
    else:
        out = bytearray(_ASKED_BYTES)
    put_int(out, 0, fetch.index)
    put_int(out, 4, fetch.leader_epoch)
    put_long(out, 8, fetch.offset)
    put_int(out, 16, fetch.last_fetched_epoch)
    put_long(out, 20, fetch.log_start_offset)
    put_int(out, 28, bytes_max)
    out[_ASKED_BYTES - 1] = 0
    return asked if cython.compiled else bytes(out)
