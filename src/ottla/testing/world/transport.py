"""One end of a simulated connection, as an asyncio transport.

It has no socket, so sendfile is not used.
"""

from __future__ import annotations

import asyncio
import errno
import zlib
from collections.abc import Iterable
from typing import Any

from ottla.testing.world.loop import Crashed
from ottla.testing.world.process import Process
from ottla.testing.world.streams import Stream, StreamEnd


class SimulatedTransport(asyncio.Transport):
    """One end of a connection, as an asyncio transport."""

    __slots__ = (
        "_high",
        "_is_closing",
        "_is_paused",
        "_is_reading",
        "_is_started",
        "_low",
        "_protocol",
        "incoming",
        "is_gone",
        "outgoing",
        "process",
        "system_buffer_bytes",
    )

    def __init__(
        self,
        process: Process,
        incoming: Stream,
        outgoing: Stream,
        own: tuple[str, int],
        peer: tuple[str, int],
    ):
        super().__init__({"peername": peer, "sockname": own})
        self.process = process
        self.incoming = incoming
        self.outgoing = outgoing
        incoming.receiver = self
        outgoing.sender = self
        self.is_gone = False
        self.system_buffer_bytes = 128 * 1024
        self._protocol: Any = None  # a plain or a buffered protocol, set by `start`
        self._high, self._low = 64 * 1024, 16 * 1024
        self._is_reading = True
        self._is_paused = False  # whether the protocol's writing is paused
        self._is_closing = False
        self._is_started = False

    @property
    def peer_host(self) -> str:
        return str(self.get_extra_info("peername")[0])

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._is_started = True
        protocol.connection_made(self)
        self.incoming.expect()

    # Reading

    def receive(self) -> None:
        """Pass received bytes to the protocol. Runs in its process."""
        stream = self.incoming
        while self._is_reading and self._is_started and not self.is_gone and not self._is_closing:
            piece = stream.take()
            if piece is None:
                break
            if isinstance(piece, StreamEnd):
                self._end(piece)
                return
            self._give(piece)
        if self.is_gone or self._is_closing or (self._is_reading and self._is_started):
            stream.expect()

    def _give(self, data: bytes) -> None:
        stream, protocol = self.incoming, self._protocol
        wires = stream.wires
        is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        if is_buffered:
            room = protocol.get_buffer(len(data))
            count = min(len(room), len(data))
            if not count:
                raise RuntimeError(f"{protocol!r} gave an empty buffer")
            room[:count] = data[:count]
            if count < len(data):
                stream.put_back(data[count:])
                data = data[:count]
            del room
        wires.trace(b"read", stream.number, zlib.crc32(data))
        stream.unread -= len(data)
        stream.sender.drained()
        if wires.watch is not None:
            wires.watch(self, data)
            if self.process.is_dead:
                return  # the watcher has ended it
        try:
            if is_buffered:
                protocol.buffer_updated(len(data))
            else:
                protocol.data_received(data)
        except (Exception, asyncio.CancelledError) as error:
            if self.process.is_dead:
                raise
            stream.wires.loop.call_exception_handler(
                {"message": "Fatal error: a protocol failed at what it received", "exception": error}
            )
            self.lose(error)

    def _end(self, end: StreamEnd) -> None:
        if end.is_reset:
            self.lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            return
        keeps_open = self._protocol.eof_received()
        if not keeps_open:
            self.close()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self.incoming.wires.loop.call_in(self.process, self._look_again)

    def _look_again(self) -> None:
        if not self.incoming.link.is_cut:
            self.receive()
        else:
            self.incoming.expect()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    # Writing

    def write(self, data: Any) -> None:
        if self.process.is_dead:
            raise Crashed
        if self._is_closing or self.is_gone or not len(data):
            return
        self.outgoing.send(bytes(data))
        self._check_full()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self.outgoing.finish(is_reset=False)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return max(0, self.outgoing.unread - self.system_buffer_bytes)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low
        self._check_full()

    def _check_full(self) -> None:
        if not self._is_paused and self.get_write_buffer_size() > self._high:
            self._is_paused = True
            self._protocol.pause_writing()

    def drained(self) -> None:
        """The other end has read some bytes."""
        if self._is_paused and not self.is_gone and self.get_write_buffer_size() <= self._low:
            self.outgoing.wires.loop.call_in(self.process, self._resume_writing)

    def _resume_writing(self) -> None:
        if self._is_paused and not self.is_gone and self.get_write_buffer_size() <= self._low:
            self._is_paused = False
            self._protocol.resume_writing()

    # Ends

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self.process.is_dead:
            raise Crashed
        if not self._is_closing:
            self._is_closing = True
            self.outgoing.finish(is_reset=False)
            self.incoming.wires.loop.call_in(self.process, self._lost, None)

    def abort(self) -> None:
        if self.process.is_dead:
            raise Crashed
        if not self._is_closing:
            self._is_closing = True
            wires = self.incoming.wires
            is_reset = wires.rng.random() < 0.5
            if is_reset:
                self.outgoing.lose_tail()
            self.outgoing.finish(is_reset=is_reset)
            wires.loop.call_in(self.process, self._lost, None)

    def lose(self, error: BaseException) -> None:
        """The connection broke. Runs in its process."""
        if not self._is_closing:
            self._is_closing = True
            self.outgoing.lose_tail()
            self.outgoing.finish(is_reset=True)
            self.incoming.wires.loop.call_in(self.process, self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        self.leave()
        if self._is_started:
            self._protocol.connection_lost(error)

    def leave(self) -> None:
        """Detach from a process that has died."""
        if not self.is_gone:
            self.is_gone = True
            self.incoming.wires.forget(self)
            self.incoming.abandon()
