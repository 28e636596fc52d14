"""One client connection: bytes in, frames to the dispatcher, responses back in the order of the requests.

Rules:
- Reading is bounded. A frame is at most `socket.request.max.bytes`; all frames in memory share one budget
  (`request_memory.py`); the connection does not read while too many requests are unanswered, while the peer
  does not read, or while a handler holds it.
- Serving is bounded. One read may bring thousands of requests: what is left after a slice of time is kept,
  and served in a later turn of the event loop (`turns.py`), before anything else is read.
- Writing is bounded. A response is a list of parts; slices of files go from their file to the socket as it
  drains, so a slow reader holds one chunk and not the whole response. sendfile, which bypasses the transport,
  runs only while the transport's buffer is empty, so that it overtakes nothing. Responses that may be large
  for a small request share a budget (`response_memory.py`).
- Responses are sent in the order of their requests, in whatever order they are completed.
- Small frames are views on a buffer shared by all connections: a handler that needs the bytes after it
  returns must copy them. Frames that arrive in several pieces have their own buffer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.log.file_slice import FileSlice
from ottla.ports import Buffer
from ottla.rare_paths import rarely
from ottla.server.net.request_memory import BUFFER_BYTES_MIN
from ottla.server.net.response_memory import SMALL_ANSWER_BYTES, LoneRequest
from ottla.server.net.turns import TURN_MS
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import MalformedMessage
from ottla.wire.frame import read_size

if TYPE_CHECKING:
    from ottla.server.net.listener import Listener

READ_BUFFER_BYTES = 256 * 1024
READ_LITTLE_BYTES = 4 * 1024
BUFFER_STEP_BYTES_MAX = 4 * 1024 * 1024
WRITE_CHUNK_BYTES = 64 * 1024
WRITE_PAUSE_BYTES = WRITE_CHUNK_BYTES // 2  # below a chunk: the transport sends a chunk at once
SEND_FILE_BYTES_MIN = 2 * WRITE_CHUNK_BYTES
UNANSWERED_MAX = 64
HELD_REPORTED_S = 0.01  # shorter holds of the loop are not worth a call

_SIZE = Struct(">i")

logger = logging.getLogger("ottla.server.net.connection")


class Encoded(Protocol):
    """Encodes a response message into the parts of its frame."""

    def __call__(self, response: Any) -> list[Buffer | FileSlice]: ...


class WholeFrame:
    """An `Encoded` whose responses are one part each: a frame with its size."""

    __slots__ = ()

    def frame(self, response: Any) -> bytes:
        """This one: for a response that is a frame already."""
        frame: bytes = response
        return frame

    def __call__(self, response: Any) -> list[Buffer | FileSlice]:
        return [self.frame(response)]


AS_IT_IS = WholeFrame()


class Connection(asyncio.BufferedProtocol):
    """The server side of one connection."""

    __slots__ = (
        "_charged_bytes",
        "_corked",
        "_corked_bytes",
        "_descriptor",
        "_filled",
        "_frame",
        "_frame_bytes",
        "_granted_bytes",
        "_head",
        "_holds",
        "_is_flush_due",
        "_is_read_paused",
        "_is_turn_asked",
        "_is_write_paused",
        "_leftover",
        "_listener",
        "_lone",
        "_memory",
        "_monotonic",
        "_parts",
        "_queue",
        "_waits_for_memory",
        "_wanted_bytes",
        "_whole_frame",
        "client_software",
        "is_closed",
        "last_active",
        "peer_host",
        "peer_port",
        "transport",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._memory = listener.memory
        self._monotonic: Callable[[], float] = listener.clock.monotonic
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.peer_host = "?"
        self.peer_port = 0
        self.client_software = ("unknown", "unknown")
        self.last_active = 0.0
        self.is_closed = True
        self._frame: bytearray | None = None  # one that arrives in several reads: as much as was granted
        self._frame_bytes = 0
        self._granted_bytes = 0
        self._wanted_bytes = 0
        self._filled = 0
        self._head = b""
        self._descriptor = -1  # of the socket; -1 where bytes may only go through the transport
        self._corked: list[Buffer] | None = None  # answers that leave together
        self._corked_bytes = 0
        self._is_flush_due = False
        self._leftover = b""  # what was read and not served yet; then nothing more is read
        self._whole_frame: bytearray | None = None  # one that has arrived and waits for its turn
        self._is_turn_asked = False
        self._holds = 0
        self._charged_bytes = 0  # of frames that the handlers who hold the connection still use
        self._queue: deque[tuple[PendingResponse, Encoded]] = deque()
        self._parts: deque[Buffer | FileSlice] = deque()
        self._lone: LoneRequest | None = None  # of a request whose answer may be large, until that has left
        self._is_read_paused = False
        self._is_write_paused = False
        self._waits_for_memory = False

    # Life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        self.last_active = self._monotonic()
        self.transport.set_write_buffer_limits(high=WRITE_PAUSE_BYTES, low=0)
        socket = transport.get_extra_info("socket")
        if socket is not None and transport.get_extra_info("sslcontext") is None:
            self._descriptor = socket.fileno()
        self.is_closed = False
        refusal, delay_s = self._listener.admit(self)
        if delay_s:
            self._wait_for_quota(refusal, delay_s)
        elif refusal is not None:
            self.close(refusal)

    def _wait_for_quota(self, refusal: str | None, delay_s: float) -> None:
        """Do not read until the rate of new connections allows this one; or close it then."""
        self.hold()
        self._update_reading()
        then = self.release if refusal is None else lambda: self.close(refusal)
        asyncio.get_running_loop().call_later(delay_s, then)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._listener.forget(self)
        for answer, _ in self._queue:
            answer.abandon()
        self._queue.clear()
        self._parts.clear()
        if (lone := self._lone) is not None:
            self._lone = None
            self._listener.answers.withdraw(self)
            if not lone.is_answered:
                self.release()
        self._forget_received()

    def _forget_received(self) -> None:
        memory = self._memory
        memory.withdraw(self)
        memory.give_back(len(self._leftover))
        self._leftover = b""
        if self._frame is not None or self._whole_frame is not None:
            self._frame = self._whole_frame = None
            memory.give_back(self._granted_bytes)
            memory.completed(self)

    def close(self, reason: str | None = None) -> None:
        """Close now. A reason is logged with the peer's address."""
        if self.is_closed:
            return
        self.is_closed = True
        if reason is not None:
            logger.warning("Closed the connection from %s:%d: %s", self.peer_host, self.peer_port, reason)
        self.transport.abort()

    def close_unwritable(self, error: Exception) -> None:
        """Close after a response that cannot be encoded, a bug of ours: the client must not wait for it."""
        logger.error(
            "Failed to encode a response to %s:%d: %s", self.peer_host, self.peer_port, error, exc_info=error
        )
        self.close()

    @property
    def has_unanswered(self) -> bool:
        return bool(
            self._queue
            or self._parts
            or self._leftover
            or self._whole_frame is not None
            or (self._lone is not None and not self._lone.is_answered)
        )

    def is_shared(self, view: memoryview) -> bool:
        """Whether these bytes of a request are in the buffer that the next read overwrites, or among kept
        ones.

        The bytes of a request with its own buffer already count in the budget.
        """
        return view.readonly or view.obj is self._listener.read_buffer.obj

    @property
    def received_bytes(self) -> int | None:
        """The received bytes of the arriving frame; None if this node does not read it now."""
        is_kept_back = self._waits_for_memory or self._holds or len(self._queue) >= UNANSWERED_MAX
        return None if is_kept_back else self._filled

    # Bytes in

    def get_buffer(self, size_hint: int) -> memoryview:
        if self._frame is not None:
            if self._granted_bytes > len(self._frame):
                self._grow(self._frame)
            return memoryview(self._frame)[self._filled :]
        shared = self._listener.read_buffer
        head = self._head
        memory = self._memory
        is_full = memory.used_bytes >= memory.limit_bytes
        if not head and not is_full:
            return shared
        shared[: len(head)] = head
        # With the budget used up, what is read may have to be kept aside: then read little.
        return shared[len(head) : READ_LITTLE_BYTES if is_full else len(shared)]

    def _grow(self, frame: bytearray) -> None:
        """Grow the buffer to the granted size. Not in `buffer_updated`: there it is in use."""
        try:
            frame.extend(bytes(self._granted_bytes - len(frame)))
        except BufferError:  # an event loop that keeps the last view on it
            self._frame = grown = bytearray(self._granted_bytes)
            grown[: self._filled] = frame

    def buffer_updated(self, count: int) -> None:
        begun = self.last_active = self._monotonic()
        listener = self._listener
        if self._frame is not None:
            self._take_part(self._frame, count)
        elif self._leftover or self._whole_frame is not None:  # it arrived although reading is paused
            self._keep(self._leftover + bytes(listener.read_buffer[: len(self._head) + count]))
        else:
            is_lone = not (self._head or self._queue or self._parts or self._holds or self._is_write_paused)
            answer = None
            if is_lone and count <= listener.frame_bytes_max:
                try:
                    answer = listener.answer_read(listener.read_buffer, count)
                except Exception as error:  # noqa: BLE001  the last line of defence
                    listener.request_failed(self, error)
                    return
            if answer is None:
                end = count + len(self._head)
                self._head = b""
                stop_at = begun if listener.turns.is_due else begun + TURN_MS / 1000
                self._serve(listener.read_buffer, end, stop_at, is_declined=is_lone)
            elif isinstance(answer, PendingResponse):
                self.answer_later(answer, _as_one_part)
            elif not self.is_closed:
                self.transport.write(answer)
        if (held_s := self._monotonic() - begun) > HELD_REPORTED_S:
            listener.lateness.held(held_s)

    def _serve(self, data: memoryview, end: int, stop_at: float, *, is_declined: bool = False) -> None:
        """Serve what was read, and send small responses in one write."""
        self._corked = []
        self._corked_bytes = 0
        self._split(data, end, stop_at, is_declined)
        corked, self._corked = self._corked, None
        if corked and not self.is_closed:
            self.transport.write(corked[0] if len(corked) == 1 else b"".join(corked))

    def _split(self, data: memoryview, end: int, stop_at: float, is_declined: bool) -> None:
        """Serve each whole frame of what was read, and keep the rest. `is_declined`: if it is a single frame,
        that has no fast path."""
        size_max = self._listener.frame_bytes_max
        monotonic = self._monotonic
        position = 0
        while end - position >= 4:
            size = _SIZE.unpack_from(data, position)[0]
            if not 0 <= size <= size_max:
                self._refuse_size(data, position, size_max)
                return
            start = position + 4
            if start + size > end:
                self._begin_large_frame(data[start:end], size)
                return
            if self._is_write_paused or self._holds or len(self._queue) >= UNANSWERED_MAX:
                self._keep(bytes(data[position:end]))
                return
            position = start + size
            is_single = start == 4 and position == end
            if not (is_declined and is_single) and self._answer_express(data, start, position):
                pass
            elif self._listener.dispatch(self, data[start:position]):
                self._keep(bytes(data[start - 4 : end]))
                return
            if self.is_closed:
                return
            if self._queue or self._is_write_paused or self._holds:
                self._update_reading()
            if position < end and (
                monotonic() >= stop_at or (start == 4 and rarely("a read of requests is cut short"))
            ):
                self._keep(bytes(data[position:end]))
                self._ask_for_turn()
                return
        if position < end:
            self._head = bytes(data[position:end])

    def _answer_express(self, data: memoryview, start: int, end: int) -> bool:
        """Answer the request if it has a fast path."""
        try:
            answer = self._listener.express(data, start, end)
        except Exception as error:  # noqa: BLE001  the last line of defence
            self._listener.request_failed(self, error)
            return True
        if answer is None:
            return False
        if isinstance(answer, PendingResponse):
            self.answer_later(answer, _as_one_part)
        elif self._queue:  # after the responses to the requests before it
            later = PendingResponse()
            later.complete(answer)
            self.answer_later(later, _as_one_part)
        else:
            self.answer_now([answer])
        return True

    def _refuse_size(self, shared: memoryview, position: int, size_max: int) -> None:
        try:
            read_size(shared, position, size_max)
        except MalformedMessage as error:
            self.close(str(error))

    def _keep(self, rest: bytes) -> None:
        """Keep what cannot be served now, with the frames in order."""
        self._memory.take_now(len(rest) - len(self._leftover))
        self._leftover = rest
        self._head = b""
        self._update_reading()

    def _begin_large_frame(self, first: memoryview, size: int) -> None:
        self._frame_bytes = size
        self._filled = len(first)
        self._frame = bytearray(first)
        self._granted_bytes = 0
        self._ask_for_memory(min(size, max(2 * self._filled, BUFFER_BYTES_MIN)))

    def _ask_for_memory(self, count: int) -> None:
        """Request `count` more bytes for the arriving frame; continue reading when they are granted."""
        self._wanted_bytes = count
        self._waits_for_memory = True
        if self._memory.take(self, self._frame_bytes, count, self._on_memory):
            self._waits_for_memory = False
            self._granted_bytes += count
        else:
            self._update_reading()

    def _on_memory(self) -> None:
        self._waits_for_memory = False
        self._granted_bytes += self._wanted_bytes
        self._update_reading()

    def _take_part(self, frame: bytearray, count: int) -> None:
        """Append a part of a frame that arrives in several reads."""
        self._filled += count
        if self._filled == self._frame_bytes:
            self._frame = None
            self._whole_frame = frame
            self._go_on_if_ready()
        elif self._filled == len(frame):
            step = min(max(self._filled, BUFFER_BYTES_MIN), BUFFER_STEP_BYTES_MAX)
            self._ask_for_memory(min(step, self._frame_bytes - self._filled))

    def _is_stalled(self) -> bool:
        return len(self._queue) >= UNANSWERED_MAX or self._is_write_paused or self._holds > 0

    def _update_reading(self) -> None:
        stalled = (
            bool(self._leftover)
            or self._whole_frame is not None
            or self._waits_for_memory
            or self._is_stalled()
        )
        if stalled == self._is_read_paused or self.is_closed:
            return
        self._is_read_paused = stalled
        if stalled:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    # What was read and could not be served at once

    def hold(self, kept_bytes: int = 0) -> None:
        """Serve no other request until `release`: a handler is in the middle of its request, and later ones
        must not overtake it. `kept_bytes`: the bytes of the request that the handler keeps.
        """
        self._holds += 1
        self._memory.take_now(kept_bytes)
        self._charged_bytes += kept_bytes

    def release(self) -> None:
        self._holds -= 1
        if not self._holds:
            charged, self._charged_bytes = self._charged_bytes, 0
            self._memory.give_back(charged)
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        if self.is_closed:
            return
        if self._leftover or self._whole_frame is not None:
            if not self._is_stalled():
                self._ask_for_turn()
        elif self._is_read_paused:
            self._update_reading()

    def _ask_for_turn(self) -> None:
        if not self._is_turn_asked:
            self._is_turn_asked = True
            self._listener.turns.ask(self)

    def go_on(self, end: float) -> None:
        """Serve what was kept, until the clock shows `end`; then read again."""
        self._is_turn_asked = False
        begun = self._monotonic()
        lone = self._lone
        if lone is not None and lone.is_to_repeat and not self.is_closed:
            lone.is_to_repeat = False
            self._listener.dispatch(self, lone.frame)
        if not self.is_closed and not self._is_stalled():
            self._go_on_if_ready()
            if self._leftover and not self._is_stalled() and not self.is_closed:
                rest, self._leftover = self._leftover, b""
                self._memory.give_back(len(rest))
                self._serve(memoryview(rest), len(rest), end)
        if (held_s := self._monotonic() - begun) > HELD_REPORTED_S:
            self._listener.lateness.held(held_s)
        self._update_reading()

    def _go_on_if_ready(self) -> None:
        """Serve a frame with its own buffer, unless too many requests are unanswered."""
        frame = self._whole_frame
        if frame is None:
            return
        if not self._is_stalled():
            self._whole_frame = None
            view = memoryview(frame)
            if not self._answer_express(view, 0, len(frame)) and self._listener.dispatch(self, view):
                self._whole_frame = frame
            else:
                if self._holds:
                    self._charged_bytes += len(frame)
                else:
                    self._memory.give_back(len(frame))
                self._memory.completed(self)
        self._update_reading()

    # Answers that may be large

    def begin_alone(self, frame: memoryview) -> bool:
        """Whether a request may be handled now; otherwise once the requests before it are answered."""
        if self._lone is None:
            if self._queue or self._parts or self._is_write_paused:
                return False
            is_shared = self.is_shared(frame)
            self._lone = LoneRequest(memoryview(bytes(frame)) if is_shared else frame)
            self.hold(len(frame) if is_shared else 0)
        return True

    @property
    def lone_frame(self) -> memoryview | None:
        """The frame of the request that is handled alone now."""
        return self._lone.frame if self._lone is not None else None

    def _answer_alone(self, lone: LoneRequest, parts: list[Buffer | FileSlice]) -> None:
        """Send the response; or drop it if it is large and there is no room. Then the request is handled
        again.
        """
        size = sum(map(len, parts))
        answers = self._listener.answers
        if size > SMALL_ANSWER_BYTES and not lone.has_room and not answers.take(self, size):
            return
        self._lone = None
        self.answer_now(parts)
        if self._is_write_paused and not self.is_closed:
            lone.is_answered = True
            self._lone = lone
        else:
            answers.give_back(self)
        self.release()

    def room_granted(self) -> None:
        """There is room for the dropped response."""
        assert self._lone is not None
        self._lone.has_room = self._lone.is_to_repeat = True
        self._ask_for_turn()

    @property
    def unsent_bytes(self) -> int:
        held: int = self.transport.get_write_buffer_size()
        return held + sum(map(len, self._parts))

    # Answers out

    def answer_now(self, parts: list[Buffer | FileSlice]) -> None:
        """Send a response now: no request before it is unanswered."""
        if self._lone is not None:
            self._answer_alone(self._lone, parts)
            return
        if len(parts) == 1 and not self._parts and not self._is_write_paused:
            whole = cast(Buffer, parts[0])  # a frame begins with its size: one part is never a file slice
            if self._corked is not None:
                self._corked.append(whole)
                self._corked_bytes += len(whole)
                if self._corked_bytes > WRITE_PAUSE_BYTES:
                    self._uncork()
            else:
                self.transport.write(whole)
            return
        self._uncork()
        self._parts.extend(parts)
        if not self._is_write_paused:
            self._pump()

    def _uncork(self) -> None:
        """Send the small responses of this read, which share a write, before a larger one."""
        if self._corked:
            self.transport.write(b"".join(self._corked))
            self._corked = []
            self._corked_bytes = 0

    @property
    def owes_nothing(self) -> bool:
        """Whether a response completed now would be the next to be sent."""
        return not self._queue

    def answer_later(self, answer: PendingResponse, encode: Encoded) -> None:
        """Send the response once it is completed and everything before it has been sent."""
        self._queue.append((answer, encode))
        if answer.is_completed:
            self._flush()
        else:
            answer.on_completed = self._flush_soon

    def _flush_soon(self) -> None:
        """One step may complete many responses (a new high watermark does): send them in one write."""
        queue = self._queue
        if len(queue) == 1:
            answer, encode = queue[0]
            if (
                isinstance(encode, WholeFrame)
                and answer.response is not None
                and self._corked is None
                and not (self._parts or self._is_write_paused or self.is_closed or self._is_read_paused)
                and self._lone is None
            ):
                queue.popleft()
                try:
                    frame = encode.frame(answer.response)
                except Exception as error:  # noqa: BLE001 - whatever it is, the client must not wait
                    self.close_unwritable(error)
                    return
                self.transport.write(frame)
            else:
                self._flush()
        elif not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Send completed responses in order, as long as the peer accepts them and the slice of time lasts."""
        self._is_flush_due = False
        queue = self._queue
        is_corked_here = self._corked is None
        if is_corked_here:
            self._corked = []
            self._corked_bytes = 0
        stop_at = 0.0
        while queue and queue[0][0].is_completed and not self.is_closed and not self._is_write_paused:
            if stop_at == 0.0:
                stop_at = self._monotonic() + TURN_MS / 1000
            elif self._monotonic() >= stop_at:
                self._is_flush_due = True
                asyncio.get_running_loop().call_soon(self._flush)
                break
            answer, encode = queue.popleft()
            if answer.response is None:
                self._uncork()
                self.close()
                break
            try:
                parts = encode(answer.response)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client must not wait
                self.close_unwritable(error)
                break
            self.answer_now(parts)
        if is_corked_here:
            if not self.is_closed:
                self._uncork()
            self._corked = None
        if self._is_read_paused:
            self._go_on_soon()

    def _pump(self) -> None:
        """Fill the socket: the middle of a large slice from its file, the rest in chunks."""
        parts = self._parts
        try:
            while parts and not self._is_write_paused:
                part = parts[0]
                if type(part) is FileSlice and part.length >= SEND_FILE_BYTES_MIN:
                    self._send_file(part)
                self._write_chunk()
        except ConnectionError:
            self.close()
        except OSError as error:
            self.close(f"records for it could not be read: {error}")

    def _send_file(self, part: FileSlice) -> None:
        """Let the kernel send as much of a slice as the socket accepts now.

        A last chunk is left to the transport: it is sent together with what follows, and waits there if the
        socket is full.
        """
        if self._descriptor < 0 or self.is_closed or self.transport.get_write_buffer_size():
            return
        with suppress(BlockingIOError):
            while (count := part.length - WRITE_CHUNK_BYTES // 2) > 0:
                part.skip(part.file.send_to(self._descriptor, part.position, count))

    def _write_chunk(self) -> None:
        """Pass a chunk to the transport, which buffers it if the socket is full."""
        parts = self._parts
        buffers: list[Buffer] = []
        budget = WRITE_CHUNK_BYTES
        while parts and budget > 0:
            part = parts[0]
            if type(part) is FileSlice:
                buffers.append(part.read(budget))
                if part.length == 0:
                    parts.popleft()
            else:
                buffers.append(cast(Buffer, part))
                parts.popleft()
            budget -= len(buffers[-1])
        self.transport.writelines(buffers)

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if self._parts:
            self._pump()
        if self._is_write_paused:
            return
        if self._lone is not None and self._lone.is_answered:  # else the pause was for answers before it
            self._lone = None
            self._listener.answers.give_back(self)
        if self._queue and self._queue[0][0].is_completed:
            self._flush()
        elif self._is_read_paused:
            self._go_on_soon()


def _as_one_part(response: Any) -> list[Buffer | FileSlice]:
    return [response]
