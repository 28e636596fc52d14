"""One client connection: bytes in, frames out to the dispatcher, answers back in the order of the requests.

Rules that keep it right:
- Reading is bounded. A frame is at most `socket.request.max.bytes`; all frames in memory share one budget;
  a connection with too many unanswered requests, or whose peer does not read, is not read from.
- Writing is bounded. A response is held as parts; slices of files go from their file to the socket as it
  drains, so a slow reader costs one chunk and not the whole response. What goes to the socket beside the
  transport (sendfile) goes only while the transport holds nothing, so that it overtakes nothing.
- Answers leave in the order in which their requests came, whatever order they are settled in.
- Small frames are views on a buffer shared by all connections: a handler that needs the bytes after it
  returned must copy them. Frames that arrive in several pieces have a buffer of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.ports import Buffer, Clock, File
from ottla.server.waiting import Answer
from ottla.wire.errors import MalformedMessage, UnencodableMessage, UnsupportedVersion
from ottla.wire.frame import read_size

if TYPE_CHECKING:
    from ottla.server.listener import Listener

READ_BUFFER_BYTES = 256 * 1024
READ_LITTLE_BYTES = 4 * 1024
WRITE_CHUNK_BYTES = 64 * 1024
WRITE_PAUSE_BYTES = WRITE_CHUNK_BYTES // 2  # below a chunk: the transport sends a chunk at once
SEND_FILE_BYTES_MIN = 2 * WRITE_CHUNK_BYTES
UNANSWERED_MAX = 64
HELD_REPORTED_S = 0.01  # shorter holds of the loop are not worth a call

_SIZE = Struct(">i")

logger = logging.getLogger("ottla.server.connection")


class FileSlice:
    """Part of a file that goes to a socket as it is. It has a length, and is read when its turn comes."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self, count: int = -1) -> bytes:
        """Take the next `count` bytes off the slice, or all of them."""
        if count < 0 or count > self.length:
            count = self.length
        data = self.file.pread(count, self.position)
        if len(data) != count:
            raise self._too_short(count - len(data))
        self.skip(count)
        return data

    def skip(self, count: int) -> None:
        """Leave out the next `count` bytes, which have been sent; there are always some."""
        if not count:
            raise self._too_short(self.length)
        self.position += count
        self.length -= count

    def _too_short(self, missing: int) -> OSError:
        return OSError(f"{self.file.path} ends {missing} bytes before the records it should hold")


class RequestMemory:
    """The budget that all frames in memory share (`queued.max.request.bytes`).

    A frame takes its whole size before its buffer is made. One frame always fits, however large, so that
    nobody waits for ever.
    """

    __slots__ = ("_waiting", "limit_bytes", "most_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.most_bytes = 0  # since somebody set it back to 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def is_full(self) -> bool:
        return bool(self._waiting) or self.used_bytes >= self.limit_bytes

    def take(self, count: int, when_granted: Callable[[], None]) -> bool:
        """Take `count` bytes now, or be granted them later."""
        if not self._waiting and self._fits(count):
            self._use(count)
            return True
        self._waiting.append((count, when_granted))
        return False

    def take_now(self, count: int) -> None:
        """Take a little, over the limit if need be: for what is in memory already."""
        self.used_bytes += count

    def give_back(self, count: int) -> None:
        self.used_bytes -= count
        while self._waiting and self._fits(self._waiting[0][0]):
            wanted, when_granted = self._waiting.popleft()
            self._use(wanted)
            when_granted()

    def _use(self, count: int) -> None:
        self.used_bytes += count
        if self.used_bytes > self.most_bytes:
            self.most_bytes = self.used_bytes

    def _fits(self, count: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + count <= self.limit_bytes


class Encoded(Protocol):
    """Turns a response message into the parts of its frame."""

    def __call__(self, response: Any) -> list[Buffer | FileSlice]: ...


class Connection(asyncio.BufferedProtocol):
    """The server's end of one connection."""

    __slots__ = (
        "_clock",
        "_corked",
        "_descriptor",
        "_filled",
        "_frame",
        "_frame_bytes",
        "_head",
        "_held",
        "_is_flush_due",
        "_is_read_paused",
        "_is_write_paused",
        "_listener",
        "_memory",
        "_parts",
        "_queue",
        "_waits_for_memory",
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
        self._clock: Clock = listener.clock
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.peer_host = "?"
        self.peer_port = 0
        self.client_software = ("unknown", "unknown")
        self.last_active = 0.0
        self.is_closed = True
        self._frame: bytearray | None = None
        self._frame_bytes = 0
        self._filled = 0
        self._head = b""
        self._descriptor = -1  # of the socket; -1 where bytes may only go through the transport
        self._corked: list[Buffer] | None = None  # answers that leave together
        self._is_flush_due = False
        self._held: deque[bytearray] = deque()
        self._queue: deque[tuple[Answer, Encoded]] = deque()
        self._parts: deque[Buffer | FileSlice] = deque()
        self._is_read_paused = False
        self._is_write_paused = False
        self._waits_for_memory = False

    # Life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        self.last_active = self._clock.monotonic()
        self.transport.set_write_buffer_limits(high=WRITE_PAUSE_BYTES, low=0)
        socket = transport.get_extra_info("socket")
        if socket is not None and transport.get_extra_info("sslcontext") is None:
            self._descriptor = socket.fileno()
        self.is_closed = False
        refusal = self._listener.admit(self)
        if refusal is not None:
            self.close(refusal)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._listener.forget(self)
        for answer, _ in self._queue:
            answer.abandon()
        self._queue.clear()
        self._parts.clear()
        for frame in self._held:
            self._memory.give_back(len(frame))
        self._held.clear()
        if self._frame is not None:
            self._frame = None
            self._memory.give_back(self._frame_bytes)

    def close(self, reason: str | None = None) -> None:
        """Close at once. A reason is logged with the peer's address."""
        if self.is_closed:
            return
        self.is_closed = True
        if reason is not None:
            logger.warning("Closed the connection from %s:%d: %s", self.peer_host, self.peer_port, reason)
        self.transport.abort()

    def close_unwritable(self, error: Exception) -> None:
        """An answer cannot be written, which is a mistake of ours: the client must not wait for it."""
        logger.error(
            "An answer for %s:%d cannot be written: %s", self.peer_host, self.peer_port, error, exc_info=error
        )
        self.close()

    @property
    def has_unanswered(self) -> bool:
        return bool(self._queue or self._parts or self._held)

    # Bytes in

    def get_buffer(self, size_hint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        shared = self._listener.read_buffer
        head = self._head
        if head:
            shared[: len(head)] = head
        # With the budget used up, what is read may have to be kept aside: then read little.
        stop = READ_LITTLE_BYTES if self._memory.is_full else len(shared)
        return shared[len(head) : stop]

    def buffer_updated(self, count: int) -> None:
        begun = self.last_active = self._clock.monotonic()
        if self._frame is not None:
            self._filled += count
            if self._filled == self._frame_bytes:
                frame, self._frame = self._frame, None
                self._accept_owned(frame)
                self._listener.lateness.held(self._clock.monotonic() - begun)
            return
        end = count + len(self._head)
        self._head = b""
        self._corked = []
        self._split(self._listener.read_buffer, end)
        corked, self._corked = self._corked, None
        if corked and not self.is_closed:
            self.transport.write(corked[0] if len(corked) == 1 else b"".join(corked))
        if (held_s := self._clock.monotonic() - begun) > HELD_REPORTED_S:
            self._listener.lateness.held(held_s)

    def _split(self, shared: memoryview, end: int) -> None:
        """Accept each whole frame of what was read, and keep the rest."""
        size_max = self._listener.frame_bytes_max
        position = 0
        while end - position >= 4:
            size = _SIZE.unpack_from(shared, position)[0]
            if not 0 <= size <= size_max:
                self._refuse_size(shared, position, size_max)
                return
            start = position + 4
            position = start + size
            if position > end:
                self._begin_large_frame(shared[start:end], size)
                return
            if self._held or self._is_write_paused or len(self._queue) >= UNANSWERED_MAX:
                self._memory.take_now(size)
                self._hold(bytearray(shared[start:position]))
            else:
                self._listener.dispatch(self, shared[start:position])
                if self._queue or self._is_write_paused:
                    self._update_reading()
            if self.is_closed:
                return
        if position < end:
            self._head = bytes(shared[position:end])

    def _refuse_size(self, shared: memoryview, position: int, size_max: int) -> None:
        try:
            read_size(shared, position, size_max)
        except MalformedMessage as error:
            self.close(str(error))

    def _begin_large_frame(self, first: memoryview, size: int) -> None:
        self._frame_bytes = size
        if self._memory.take(size, self._on_memory):
            self._make_frame(first)
            return
        self._head = bytes(first)
        self._waits_for_memory = True
        self._update_reading()

    def _make_frame(self, first: memoryview | bytes) -> None:
        self._frame = bytearray(self._frame_bytes)
        self._filled = len(first)
        self._frame[: self._filled] = first

    def _on_memory(self) -> None:
        self._waits_for_memory = False
        if self.is_closed:
            self._memory.give_back(self._frame_bytes)
            return
        first, self._head = self._head, b""
        self._make_frame(first)
        self._update_reading()

    def _accept_owned(self, frame: bytearray) -> None:
        """Hand a frame with its own buffer to the dispatcher, or hold it while too much is unanswered."""
        if self._is_stalled():
            self._hold(frame)
        else:
            self._dispatch_owned(frame)
            self._update_reading()

    def _hold(self, frame: bytearray) -> None:
        """Keep a frame for later. Its bytes are in the budget already."""
        self._held.append(frame)
        self._update_reading()

    def _dispatch_owned(self, frame: bytearray) -> None:
        self._listener.dispatch(self, memoryview(frame))
        self._memory.give_back(len(frame))

    def _is_stalled(self) -> bool:
        return len(self._queue) >= UNANSWERED_MAX or self._is_write_paused or bool(self._held)

    def _update_reading(self) -> None:
        stalled = self._is_stalled() or self._waits_for_memory
        if stalled == self._is_read_paused or self.is_closed:
            return
        self._is_read_paused = stalled
        if stalled:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _go_on(self) -> None:
        """Work through what was held, then read again."""
        while (
            self._held
            and not self.is_closed
            and len(self._queue) < UNANSWERED_MAX
            and not self._is_write_paused
        ):
            self._dispatch_owned(self._held.popleft())
        self._update_reading()

    # Answers out

    def answer_now(self, parts: list[Buffer | FileSlice]) -> None:
        """Send an answer whose turn it is, since nothing unanswered is before it."""
        if len(parts) == 1 and not self._parts and not self._is_write_paused:
            whole = cast(Buffer, parts[0])  # a frame begins with its size: one part is never a file slice
            if self._corked is not None:
                self._corked.append(whole)
            else:
                self.transport.write(whole)
            return
        self._uncork()
        self._parts.extend(parts)
        if not self._is_write_paused:
            self._pump()

    def _uncork(self) -> None:
        """Let the small answers of this read, which leave in one write, go before a larger one."""
        if self._corked:
            self.transport.write(b"".join(self._corked))
            self._corked = []

    @property
    def owes_nothing(self) -> bool:
        """Whether an answer given now would be the next to leave."""
        return not self._queue

    def answer_later(self, answer: Answer, encode: Encoded) -> None:
        """Send the answer once it is settled and everything before it has left."""
        self._queue.append((answer, encode))
        if answer.is_settled:
            self._flush()
        else:
            answer.on_settled = self._flush_soon

    def _flush_soon(self) -> None:
        """One step may settle many answers, as a high watermark that moves does: they leave in one write."""
        if len(self._queue) == 1:
            self._flush()
        elif not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        queue = self._queue
        is_corked_here = self._corked is None
        if is_corked_here:
            self._corked = []
        while queue and queue[0][0].is_settled and not self.is_closed:
            answer, encode = queue.popleft()
            if answer.response is None:
                self._uncork()
                self.close()
                break
            try:
                parts = encode(answer.response)
            except (UnencodableMessage, UnsupportedVersion) as error:
                self.close_unwritable(error)
                break
            self.answer_now(parts)
        if is_corked_here:
            if not self.is_closed:
                self._uncork()
            self._corked = None
        if not self.is_closed and (self._held or self._is_read_paused):
            self._go_on()

    def _pump(self) -> None:
        """Give the socket what it takes: the middle of a large slice from its file, the rest in chunks."""
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
        """Have the kernel send of a slice what the socket takes now.

        A last chunk stays for the transport: it goes together with what follows, and where the socket is full
        it waits for it.
        """
        if self._descriptor < 0 or self.is_closed or self.transport.get_write_buffer_size():
            return
        with suppress(BlockingIOError):
            while (count := part.length - WRITE_CHUNK_BYTES // 2) > 0:
                part.skip(part.file.send_to(self._descriptor, part.position, count))

    def _write_chunk(self) -> None:
        """Hand a chunk to the transport, which waits for the socket where it must."""
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
        if not self._is_write_paused and (self._held or self._is_read_paused):
            self._go_on()
