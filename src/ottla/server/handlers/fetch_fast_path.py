"""The fast path of a fetch in a session: its request names few partitions or none, and all of them are sound.

That is what followers send, and consumers of the newer clients. It reads and answers the bytes of the frame
without message objects. Compiled, it costs a fraction of the general way; this file also runs as plain
Python. Two rules keep it correct. It handles only partitions that this node leads in the epoch of the request
and whose fetch offsets are in their logs: where anything else turns up, `fetch.py` goes on with the same
session. And its responses have the same bytes: a test sends the same requests both ways.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ottla.log.file_slice import FileSlice
from ottla.rare_paths import rarely
from ottla.waiting.pending_response import PendingResponse

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.ottla.records.native import byte_count, first_byte

if not cython.compiled:
    from ottla.records.big_endian import int_at, long_at, put_int, put_long, short_at

    byte_count = len

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ottla.log.log import Log
    from ottla.ports import Buffer
    from ottla.replication.leader import FollowerProgress
    from ottla.server.broker import Broker
    from ottla.server.net.connection import Connection
    from ottla.server.replicas.fetch_sessions import FetchedPartition, FetchSession
    from ottla.server.replicas.partition import Partition

    Bytes: TypeAlias = Any  # in C, a pointer to the first byte

VERSIONS = range(15, 19)
"""The versions that have a fast path."""

READ_NOW_BYTES_MAX = 64 * 1024
"""A slice up to this size is read when the answer is made, a larger one as it is sent."""

PARTITIONS_MAX = 1000
"""A session with more partitions is handled in steps."""

_FIRST = VERSIONS.start
_LAST = VERSIONS.stop - 1
_READ_NOW_BYTES_MAX = READ_NOW_BYTES_MAX
_PARTITIONS_MAX = PARTITIONS_MAX
_ID_BYTES = 16
# Of a request: wait, min and max bytes, isolation level, session id and epoch.
_FIXED_BYTES = 4 + 4 + 4 + 1 + 4 + 4
# Of a partition in it: index, epoch, offset, last epoch, log start, max bytes, tags.
_ASKED_BYTES = 4 + 4 + 8 + 4 + 8 + 4 + 1
# The tagged field of a follower: count, tag, size, id, epoch, no tags.
_STATE_BYTES = 1 + 1 + 1 + 4 + 8 + 1
# Of a response: size, correlation id, no tags, throttle time, error, session id.
_START_BYTES = 4 + 4 + 1 + 4 + 2 + 4
# Of a partition in it: index, error, watermark, stable offset, log start, no aborted list, no other replica.
_ANSWERED_BYTES = 4 + 2 + 8 + 8 + 8 + 1 + 4
_TIMER_STEP_S = 0.001  # a timer may be early by this much
_TIMER_MAX_S = 5.0
_NO_TIMER = float("inf")


class FetchFastPath:
    """The fast path of one listener."""

    def __init__(
        self,
        broker: Broker,
        continued: Callable[[Connection, memoryview, int, int, FetchSession], Any],
        send: Callable[[Connection, int, Any, int], None],
        frame_of: Callable[[int, Any, int], list[Any]],
    ) -> None:
        """What goes on the general way: `continued(connection, frame, version, correlation_id, session)` is
        the fetch, `send(connection, version, outcome, correlation_id)` answers, and `frame_of(version,
        response, correlation_id)` encodes.
        """
        self._broker = broker
        self.continued = continued
        self.send = send
        self.frame_of = frame_of

    def take(self, connection: Connection, frame: memoryview, version: int, correlation_id: int) -> bool:
        """Handle a request. False: nothing has happened."""
        size = byte_count(frame)
        if not _FIRST <= version <= _LAST or size < 10:
            return False
        if cython.compiled:
            raw = cython.cast("const unsigned char *", first_byte(frame))
        else:
            raw = frame
        at = 10 + max(short_at(raw, 8), 0)  # after the client id
        # No tags; the fixed fields, topics, no forgotten ones, no rack, and tags.
        if size - at < 1 + _FIXED_BYTES + 4 or raw[at]:
            return False
        at += 1
        session_epoch = int_at(raw, at + 17)
        if session_epoch <= 0 or raw[at + 12]:
            return False
        sessions = self._broker.fetch_sessions
        session = sessions.current(int_at(raw, at + 13), session_epoch)
        if session is None or not session.by_id:
            return False
        known = session.partitions
        wait: _Waiting | None = session.waiting
        if not 0 < len(known) <= _PARTITIONS_MAX or (wait is not None and wait.is_waiting()):
            return False

        # The whole request is read before anything is changed.
        fixed = at
        named: list[Any] = []
        at += _FIXED_BYTES
        topics = raw[at]
        at += 1
        if topics == 0 or topics >= 128:
            return False
        while topics > 1:
            topics -= 1
            if size - at < _ID_BYTES + 2:
                return False
            topic_id = bytes(frame[at : at + _ID_BYTES])
            at += _ID_BYTES
            count = raw[at]
            at += 1
            if count == 0 or count >= 128 or size - at < (count - 1) * _ASKED_BYTES + 1:
                return False
            while count > 1:
                count -= 1
                fetched = known.get((topic_id, int_at(raw, at)))
                if fetched is None or raw[at + _ASKED_BYTES - 1]:
                    return False
                named.append((fetched, at))
                at += _ASKED_BYTES
            if raw[at]:
                return False
            at += 1
        if size - at < 3 or raw[at] != 1 or raw[at + 1] != 1:
            return False
        at += 2
        replica_id = broker_epoch = -1
        if raw[at]:
            if size - at != _STATE_BYTES or raw[at] != 1 or raw[at + 1] != 1 or raw[at + 2] != 13:
                return False
            replica_id = int_at(raw, at + 3)
            broker_epoch = long_at(raw, at + 7)
            if raw[at + 15] or replica_id < 0:
                return False
        elif size - at != 1:
            return False
        if session.is_follower != (replica_id >= 0) or rarely("a fetch takes the general way"):
            return False

        sessions.advance(session)
        for fetched, at in named:
            fetched.leader_epoch = int_at(raw, at + 4)
            fetched.fetch_offset = long_at(raw, at + 8)
            fetched.last_fetched_epoch = int_at(raw, at + 16)
            fetched.log_start_offset = long_at(raw, at + 20)
            fetched.max_bytes = int_at(raw, at + 28)
            fetched.hosted = None
            if replica_id >= 0:
                fetched.told_high_watermark = -1
        if wait is None:
            wait = session.waiting = _Waiting(self, self._broker, session)
        wait.begin(
            int_at(raw, fixed), int_at(raw, fixed + 4), int_at(raw, fixed + 8), replica_id, broker_epoch
        )
        wait.answer(connection, frame, version, correlation_id)
        return True


class _Waiting:
    """The fetch of a session that is answered now, or waits."""

    def __init__(self, quick: FetchFastPath, broker: Broker, session: FetchSession) -> None:
        self._quick = quick
        self._broker = broker
        self._session = session
        self._connection: Connection | None = None
        self._pending: PendingResponse | None = None
        self._frame = b""
        self._version = self._correlation_id = 0
        self._wait_ms = self._min_bytes = self._max_bytes = 0
        self._replica_id = self._broker_epoch = -1
        self._is_due = False
        self._deadline = 0.0
        self._timer: Any = None
        self._timer_at = _NO_TIMER
        self._loop: Any = None

    def is_waiting(self) -> bool:
        return self._pending is not None and not self._pending.is_completed

    def begin(self, wait_ms: int, min_bytes: int, max_bytes: int, replica_id: int, broker_epoch: int) -> None:
        self._wait_ms = wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._replica_id = replica_id
        self._broker_epoch = broker_epoch

    def answer(self, connection: Connection, frame: memoryview, version: int, correlation_id: int) -> None:
        """Answer now, or wait."""
        self._version = version
        self._correlation_id = correlation_id
        self._pending = None
        parts = self._look_safely(True, False)
        if parts is None or (not parts and self._wait_ms <= 0):
            # Also if it was looked at already: to note the same fetch again changes nothing.
            fetch = self._quick.continued(connection, frame, version, correlation_id, self._session)
            self._quick.send(connection, version, fetch.outcome(), correlation_id)
        elif not parts:
            self._wait(connection, bytes(frame))
        elif connection.owes_nothing:
            connection.answer_now(parts)
        else:
            pending = PendingResponse()
            pending.complete(parts)
            connection.answer_later(pending, _as_it_is)

    # Waiting

    def _wait(self, connection: Connection, frame: bytes) -> None:
        self._connection = connection
        self._frame = frame
        pending = self._pending = PendingResponse()
        is_follower = self._replica_id >= 0
        has_grown = False
        watched: list[Any] = []
        for fetched in self._session.partitions.values():
            partition = fetched.hosted
            assert partition is not None  # which the look has found
            watched.append(partition.appends if is_follower else partition.growth)
            log = partition.log
            if is_follower and (log is None or log.log_end_offset > fetched.fetch_offset):
                has_grown = True  # a producer whose records it has acknowledged may have sent more
        pending.watch_all(watched, self.on_growth)
        self._is_due = False
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        wait_ms = 0 if rarely("a fetch waits for nothing") else self._wait_ms
        self._deadline = loop.time() + wait_ms / 1000.0  # in C, without the point, a whole number
        if self._deadline < self._timer_at:  # else the timer of an earlier fetch goes on for this one
            self._set_timer()
        connection.answer_later(pending, _as_it_is)
        if has_grown:
            self.on_growth()

    def _set_timer(self) -> None:
        """Have `on_time` called at the deadline or before, so that nothing outlives the fetch by long."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = min(self._deadline, self._loop.time() + _TIMER_MAX_S)
        self._timer = self._loop.call_at(self._timer_at, self.on_time)

    def on_growth(self) -> bool:
        """A partition has changed. Whether this is of no interest any more."""
        pending = self._pending
        if pending is None or pending.is_completed:
            return True
        if self._replica_id < 0:
            self.answer_if_enough()
        elif not self._is_due:
            # What else comes in this turn of the loop, to this partition or another, goes in the same answer.
            self._is_due = True
            self._loop.call_soon(self.answer_if_enough)
        return pending.is_completed

    def answer_if_enough(self) -> None:
        self._is_due = False
        if self.is_waiting():
            parts = self._look_again(False)
            if parts is None or parts:
                self._complete(parts)

    def on_time(self) -> None:
        """The deadline of the fetch that waits, or of an earlier one, or nearer."""
        self._timer = None
        self._timer_at = _NO_TIMER
        if not self.is_waiting():
            self._forget()
        elif self._deadline > self._loop.time() + _TIMER_STEP_S:
            self._set_timer()
        else:
            self._complete(self._look_again(True))

    def _complete(self, parts: Any) -> None:
        pending = self._pending
        self._forget()
        if pending is not None:
            pending.complete(parts)

    def _forget(self) -> None:
        """Keep neither the request nor its response: the session may not be used again for long."""
        self._connection = self._pending = None
        self._frame = b""

    def _look_again(self, is_late: bool) -> Any:
        """The parts of the response's frame; none if it has too little to answer yet. None: a bug of ours,
        and the connection must be closed, so that the client does not wait.
        """
        try:
            parts = self._look_safely(False, is_late)
            if parts is not None:
                return parts
            assert self._connection is not None
            fetch = self._quick.continued(
                self._connection, memoryview(self._frame), self._version, self._correlation_id, self._session
            )
            found = fetch.collect(at_deadline=is_late)
            if found is None:
                return []
            return self._quick.frame_of(self._version, fetch.respond(found), self._correlation_id)
        except Exception as error:  # noqa: BLE001 - those whose append has called this are not concerned
            self._broker.failures.note("Fetch", "", error)
            return None

    # Looking

    def _look_safely(self, is_first: bool, must_answer: bool) -> Any:
        """`_look`; the general way meets and reports a bug of ours, for the partition alone."""
        try:
            return self._look(is_first, must_answer)
        except Exception:  # noqa: BLE001 - see above
            return None

    def _look(self, is_first: bool, must_answer: bool) -> Any:
        """The parts of the response's frame; none if it has too little to answer yet. None: the general way
        must look.
        """
        broker = self._broker
        replica_id = self._replica_id
        is_follower = replica_id >= 0
        replication: Any = None
        if is_follower:
            replication = broker.replication
            if replication is None or replication.leader_throttle.has_topics:
                return None
            status = broker.image.brokers.get(replica_id)
            if status is None or status.fenced or status.epoch != self._broker_epoch:
                return None
        awake: list[Any] = []
        staying: list[Any] = []
        topics = broker.partitions.by_id
        fetched: Any
        for fetched in self._session.partitions.values():
            partition = fetched.hosted
            if is_follower and partition is not None:
                # Most partitions of a follower have no news, and few of these facts suffice to see that.
                log = partition.log
                leadership = partition.leadership
                if (
                    log is not None
                    and leadership is not None
                    and log.log_end_offset == fetched.fetch_offset
                    and log.high_watermark == fetched.told_high_watermark
                    and log.log_start_offset == fetched.told_log_start_offset
                    and partition.leader_epoch == fetched.leader_epoch
                    and partition.is_leader
                ):
                    if not is_first:
                        continue
                    progress = leadership.followers.get(replica_id)
                    if (
                        progress is not None
                        and progress.log_end_offset == fetched.fetch_offset
                        and progress.log_start_offset == fetched.log_start_offset
                        and progress.broker_epoch == self._broker_epoch
                        and replica_id in leadership.isr
                    ):
                        staying.append(progress)
                        continue
            hosted = topics.get(fetched.topic)
            partition = hosted.get(fetched.index) if hosted is not None else None
            if partition is None:
                return None
            fetched.hosted = partition
            log = partition.log
            epoch = fetched.leader_epoch
            if (
                log is None
                or not partition.is_leader
                or (epoch != partition.leader_epoch and (is_follower or epoch >= 0))
            ):
                return None
            offset = fetched.fetch_offset
            end_offset = log.log_end_offset
            last_epoch = fetched.last_fetched_epoch
            if (
                offset > end_offset
                or offset < log.log_start_offset
                or (last_epoch != -1 and last_epoch != log.epochs.latest_epoch)
            ):
                return None
            progress = None
            if is_follower:
                leadership = partition.leadership
                if leadership is None or replica_id not in leadership.isr:
                    return None
                progress = leadership.followers.get(replica_id)
                if progress is None:
                    return None
            awake.append((fetched, partition, log, progress))

        now_ms = 0
        if is_follower and is_first:
            now_ms = replication.now_ms()
            for progress in staying:
                progress.stay(now_ms)
        budget = -1
        total = 0
        found: list[Any] = []
        for fetched, partition, log, progress in awake:
            offset = fetched.fetch_offset
            if is_follower and offset == log.log_end_offset:
                if is_first:
                    self._note(fetched, partition, log, progress, now_ms)
                found.append((fetched, log, 0, 0, 0, None))
                continue
            if budget < 0:
                budget = max(min(self._max_bytes, broker.config.int_of("fetch.max.bytes")), 0)
            limit_bytes = min(budget, fetched.max_bytes)
            log_start_offset = log.log_start_offset
            try:
                limit_offset = log.log_end_offset if is_follower else log.high_watermark
                records = _locate(log, offset, limit_bytes, limit_offset, total == 0)
            except OSError as error:
                # Now: the general way finds the log closed after some errors, and none after others.
                broker.directories.storage_error(log, error)
                return None
            if is_follower and is_first:
                self._note(fetched, partition, log, progress, now_ms)
            count = records.length
            budget = max(budget - count, 0)
            total += count
            found.append(
                (fetched, log, log.high_watermark, log.last_stable_offset, log_start_offset, records)
            )
        if total < self._min_bytes and not must_answer:
            return []
        return self._parts_of(found)

    def _note(
        self,
        fetched: FetchedPartition,
        partition: Partition,
        log: Log,
        progress: FollowerProgress,
        now_ms: int,
    ) -> None:
        """Record that a follower has everything below its fetch offset."""
        log_start_before = progress.log_start_offset
        end_before = progress.log_end_offset
        progress.take(
            fetched.fetch_offset, fetched.log_start_offset, log.log_end_offset, now_ms, self._broker_epoch
        )
        if progress.log_end_offset != end_before:
            partition.update_high_watermark()
        if fetched.log_start_offset != log_start_before:
            partition.watermark_moved()  # DeleteRecords waits for the low watermark

    # Answering

    def _parts_of(self, found: list[Any]) -> Any:
        """The response's frame, with what is new to the client. None if records cannot be read."""
        contents: list[Any] = []
        for _, log, _, _, _, records in found:
            content = b""
            if records is not None and records.length:
                content = records
                if records.length <= _READ_NOW_BYTES_MAX:
                    try:
                        content = records.read()
                    except OSError as error:
                        self._broker.directories.storage_error(log, error)
                        return None
            contents.append(content)
        session = self._session
        pieces: list[Any] = [b""]
        topic: Any = None
        topics = in_topic = topic_place = 0
        for number in range(len(found)):
            fetched, log, high_watermark, stable_offset, log_start_offset, records = found[number]
            content = contents[number]
            if records is None:
                high_watermark = log.high_watermark
                stable_offset = log.last_stable_offset
                log_start_offset = log.log_start_offset
            count = len(content)
            is_told = (
                not count
                and fetched.told_high_watermark == high_watermark
                and fetched.told_log_start_offset == log_start_offset
            )
            fetched.told_high_watermark = high_watermark
            fetched.told_log_start_offset = log_start_offset
            if is_told:
                continue
            if fetched.topic != topic:
                if topics:
                    pieces[topic_place] = _count(in_topic)
                    pieces.append(b"\0")
                topic = fetched.topic
                topics += 1
                in_topic = 0
                pieces.append(topic)
                topic_place = len(pieces)
                pieces.append(b"")
            in_topic += 1
            pieces.append(_answered(fetched.index, high_watermark, stable_offset, log_start_offset))
            pieces.append(_varint(count + 1))
            if count:
                pieces.append(content)
                session.serve_last(fetched)
            pieces.append(b"\0")
        if topics:
            pieces[topic_place] = _count(in_topic)
            pieces.append(b"\0")
        pieces.append(b"\0")
        size = _START_BYTES - 4
        pieces[0] = _count(topics)
        for piece in pieces:
            size += len(piece)
        pieces[0] = _start(size, self._correlation_id, session.id) + pieces[0]
        for content in contents:
            if type(content) is FileSlice:
                return _joined(pieces)
        return [b"".join(pieces)]


def _locate(log: Log, offset: int, limit_bytes: int, limit_offset: int, at_least_one: bool) -> FileSlice:
    """What `Log.locate` returns, for the reader of the last batches in few steps."""
    end_offset = log.log_end_offset
    if limit_offset >= end_offset:
        segments = log.segments
        positions = segments._positions
        kept = positions.get(offset)
        if kept is not None:
            segment, position = kept
            items = segments._items
            if segment is items[len(items) - 1]:
                end = segment.size_bytes
                if end_offset not in positions:
                    segments.remember(end_offset, segment, end)  # where the reader will continue
                if 0 < end - position <= limit_bytes:
                    return FileSlice(segment.file, position, end - position, segment.base_offset)
    return log.locate(offset, limit_bytes, limit_offset=limit_offset, at_least_one=at_least_one)


def _as_it_is(response: Any) -> Any:
    """The encoding of a response that is encoded already."""
    return response


def _joined(pieces: list[Any]) -> list[Any]:
    """Parts with the bytes between slices of files in one piece."""
    parts: list[Any] = []
    run: list[Buffer] = []
    for piece in pieces:
        if type(piece) is FileSlice:
            parts.append(b"".join(run))
            parts.append(piece)
            run = []
        else:
            run.append(piece)
    parts.append(b"".join(run))
    return parts


def _count(count: int) -> bytes:
    """The length of a compact array."""
    return _varint(count + 1)


def _varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _start(size: int, correlation_id: int, session_id: int) -> bytes:
    """The response up to its topics. `size` is that of the frame without its size field."""
    if cython.compiled:
        start = PyBytes_FromStringAndSize(cython.NULL, _START_BYTES)
        out = cython.cast("unsigned char *", PyBytes_AS_STRING(start))
    else:
        out = bytearray(_START_BYTES)
    put_int(out, 0, size)
    put_int(out, 4, correlation_id)
    out[8] = 0
    put_int(out, 9, 0)
    out[13] = out[14] = 0
    put_int(out, 15, session_id)
    return start if cython.compiled else bytes(out)


def _answered(index: int, high_watermark: int, stable_offset: int, log_start_offset: int) -> bytes:
    """A partition of the response up to its records."""
    if cython.compiled:
        answered = PyBytes_FromStringAndSize(cython.NULL, _ANSWERED_BYTES)
        out = cython.cast("unsigned char *", PyBytes_AS_STRING(answered))
    else:
        out = bytearray(_ANSWERED_BYTES)
    put_int(out, 0, index)
    out[4] = out[5] = 0
    put_long(out, 6, high_watermark)
    put_long(out, 14, stable_offset)
    put_long(out, 22, log_start_offset)
    out[30] = 0
    put_int(out, 31, -1)
    return answered if cython.compiled else bytes(out)
