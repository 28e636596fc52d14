"""The wires of the simulated world: streams between hosts, with everything that TCP lets through.

A stream keeps its bytes in order and without gaps, whatever happens; different streams know nothing of each
other. What a fault does to it:
- a cut (of one direction) holds what is under way. When it heals, each stream goes on after a wait, as a
  retransmission would, or has been given up and is reset, as the seed says;
- a host without power answers nothing: who talks to it hears nothing, until it is back and answers "reset";
- a process that dies leaves a working host, which ends its streams: with an end of file or with a reset;
- bytes that were sent before an abort may still arrive, also after those of the connection that followed.
Reads end at any byte, since writes are joined and split by chance. Nothing goes by sendfile: transports have
no socket, so the plain path is used.
"""

from __future__ import annotations

import asyncio
import errno
import random
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from ssl import SSLContext
from typing import Any, cast

from ottla.ports import NameNotFound
from ottla.testing.world.loop import Crashed, Refused, WorldLoop
from ottla.testing.world.process import Process

CONNECT_RETRIES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # when the system asks again for a connection
READ_BYTES_MAX = 256 * 1024
_LOCAL_DELAY_S = 0.00002
_FIRST_FREE_PORT = 30_000


class Way:
    """One direction between two hosts. Change its fields at any time; `cut` and `heal` for the rest."""

    __slots__ = (
        "_chance",
        "bytes_per_second",
        "cut_at",
        "delay_s",
        "free_at",
        "held",
        "is_cut",
        "jitter_s",
        "spike_probability",
        "spike_s",
    )

    def __init__(self, chance: random.Random, delay_s: float, jitter_s: float) -> None:
        self._chance = chance.random
        self.delay_s = delay_s
        self.jitter_s = jitter_s
        self.spike_probability = 0.0
        self.spike_s = 0.0
        self.bytes_per_second: float | None = None
        self.free_at = 0.0
        self.is_cut = False
        self.cut_at = 0.0
        self.held: dict[Stream, None] = {}

    def arrival(self, now: float, count: int) -> float:
        """When bytes that leave now arrive."""
        delay = self.delay_s + self.jitter_s * self._chance()
        if self.spike_probability and self._chance() < self.spike_probability:
            delay += self.spike_s * self._chance()
        if self.bytes_per_second is not None:
            self.free_at = max(self.free_at, now) + count / self.bytes_per_second
            return self.free_at + delay
        return now + delay


class _End:
    """What ends a stream, after its bytes: an end of file, or a reset."""

    __slots__ = ("is_reset",)

    def __init__(self, is_reset: bool) -> None:
        self.is_reset = is_reset


class Stream:
    """The bytes of one connection in one direction."""

    __slots__ = (
        "_alarm",
        "_due",
        "_is_ended",
        "number",
        "queue",
        "receiver",
        "sender",
        "unread",
        "way",
        "wires",
    )

    def __init__(self, wires: Wires, number: int, way: Way) -> None:
        self.wires = wires
        self.number = number
        self.way = way
        self.sender: SimulatedTransport = cast(SimulatedTransport, None)
        self.receiver: SimulatedTransport = cast(SimulatedTransport, None)
        self.queue: deque[tuple[float, bytes | _End]] = deque()
        self.unread = 0
        self._due = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._is_ended = False

    def send(self, data: bytes) -> None:
        loop = self.wires.loop
        due = self.way.arrival(loop.now, len(data))
        if due < self._due:
            due = self._due  # in order
        self._due = due
        self.queue.append((due, data))
        self.unread += len(data)
        self.expect()

    def finish(self, *, is_reset: bool) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._due = max(self.way.arrival(self.wires.loop.now, 0), self._due)
            self.queue.append((self._due, _End(is_reset)))
            self.expect()

    def expect(self) -> None:
        """Have the receiver look when the next bytes are there."""
        if self._alarm is None and self.queue:
            receiver = self.receiver
            if receiver.is_gone:
                # The system answers for a process that is not there any more.
                root = self.wires.loop.root
                self._alarm = self.wires.loop.call_in_at(root, self.queue[0][0], self._bounce)
            else:
                self._alarm = self.wires.loop.call_in_at(receiver.process, self.queue[0][0], self._arrive)

    def _arrive(self) -> None:
        self._alarm = None
        if self.receiver.is_gone:
            self.expect()
        elif self.way.is_cut:
            self.way.held[self] = None
        else:
            self.receiver.receive()

    def _bounce(self) -> None:
        """Bytes reach a host where nobody takes them: it answers with a reset, if it answers at all."""
        self._alarm = None
        back = self.receiver.outgoing.way
        if self.way.is_cut or back.is_cut:
            (self.way if self.way.is_cut else back).held[self] = None
        elif self.receiver.process.host in self.wires.powered_off:
            self.wires.unanswered[self] = None
        else:
            self.queue.clear()
            if not self.sender.is_gone:
                due = back.arrival(self.wires.loop.now, 0)
                self.wires.loop.call_in_at(
                    self.sender.process,
                    due,
                    self.sender.lose,
                    ConnectionResetError(errno.ECONNRESET, "reset by peer"),
                )

    def take(self) -> bytes | _End | None:
        """What is there now: bytes up to a random point, or the end; None if it is not yet time."""
        now, queue = self.wires.loop.now, self.queue
        if not queue or queue[0][0] > now:
            return None
        _, first = queue.popleft()
        if isinstance(first, _End):
            return first
        if queue and queue[0][0] <= now and isinstance(queue[0][1], bytes):
            pieces, size = [first], len(first)
            while queue and queue[0][0] <= now and size < READ_BYTES_MAX and isinstance(queue[0][1], bytes):
                pieces.append(queue.popleft()[1])  # type: ignore[arg-type]
                size += len(pieces[-1])
            first = b"".join(pieces)
        chance = self.wires.chance
        if len(first) > 1 and chance.random() < self.wires.split_probability:
            at = 1 + int(chance.random() * (len(first) - 1))
            queue.appendleft((now + 0.001 * chance.random(), first[at:]))
            first = first[:at]
        return first

    def put_back(self, data: bytes) -> None:
        self.queue.appendleft((self.wires.loop.now, data))

    def lose_tail(self) -> None:
        """A reset overtakes some of what was sent."""
        keep = int(self.wires.chance.random() * (len(self.queue) + 1))
        while len(self.queue) > keep:
            _, lost = self.queue.pop()
            if isinstance(lost, bytes):
                self.unread -= len(lost)

    def retry(self, wait_s: float) -> None:
        """The way is free again."""
        if self._alarm is not None:
            return
        due = self.wires.loop.now + wait_s
        self.queue = deque((max(due, when), piece) for when, piece in self.queue)
        self._due = max(self._due, due)
        self.expect()


class SimulatedTransport(asyncio.Transport):
    """One end of a connection, in the terms of asyncio."""

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
        self._protocol: Any = None  # of either kind, once it is started
        self._high, self._low = 64 * 1024, 16 * 1024
        self._is_reading = True
        self._is_paused = False  # its protocol was told to write no more
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
        """Give the protocol what has arrived. Runs in its process."""
        stream = self.incoming
        while self._is_reading and self._is_started and not self.is_gone and not self._is_closing:
            piece = stream.take()
            if piece is None:
                break
            if isinstance(piece, _End):
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
                return  # whoever watches has ended it
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

    def _end(self, end: _End) -> None:
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
        if not self.incoming.way.is_cut:
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
        """The other end has read something."""
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
            is_reset = wires.chance.random() < 0.5
            if is_reset:
                self.outgoing.lose_tail()
            self.outgoing.finish(is_reset=is_reset)
            wires.loop.call_in(self.process, self._lost, None)

    def lose(self, error: BaseException) -> None:
        """The connection is broken. Runs in its process."""
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
        """Nobody is at this end any more."""
        if not self.is_gone:
            self.is_gone = True
            self.incoming.wires.forget(self)
            if self.incoming._alarm is not None:
                self.incoming._alarm.cancel()
                self.incoming._alarm = None
            self.incoming.expect()


class _BoundSocket:
    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name


class SimulatedServer(asyncio.AbstractServer):
    """A port that a process holds."""

    def __init__(
        self,
        wires: Wires,
        process: Process,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
    ) -> None:
        self.process = process
        self.factory = factory
        self.sockets = [_BoundSocket((host, port))]
        self._wires = wires
        self._place = (process.host, port)
        self._is_serving = False

    def accept(self, transport: SimulatedTransport) -> None:
        """Runs in its process."""
        if transport.is_closing() or transport.is_gone:
            return
        if not self._is_serving:
            transport.abort()
            return
        transport.start(self.factory())

    def is_serving(self) -> bool:
        return self._is_serving

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._wires.loop

    async def start_serving(self) -> None:
        self._is_serving = True

    async def serve_forever(self) -> None:
        self._is_serving = True
        await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self._is_serving = False
        if self._wires.servers.get(self._place) is self:
            del self._wires.servers[self._place]

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)


class Wires:
    """All hosts and what lies between them."""

    def __init__(
        self, loop: WorldLoop, chance: random.Random, trace: Callable[[bytes, int, int], None]
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.split_probability = 0.02
        self.give_up_probability = 0.3
        """That a connection is given up while its way is cut."""
        self.watch: Callable[[SimulatedTransport, bytes], None] | None = None
        """Sees all bytes before the program that they are for: see `tap.py`."""
        self.hosts: set[str] = set()
        self.powered_off: set[str] = set()
        self.servers: dict[tuple[str, int], SimulatedServer] = {}
        self.transports: dict[int, SimulatedTransport] = {}
        self.unanswered: dict[Stream, None] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._streams = 0
        self._ports: dict[str, int] = {}

    def network_of(self, process: Process) -> SimulatedNetwork:
        """The port that a process uses."""
        self.hosts.add(process.host)
        return SimulatedNetwork(self, process)

    def way(self, source: str, target: str) -> Way:
        found = self._ways.get((source, target))
        if found is None:
            if source == target:
                found = Way(self.chance, _LOCAL_DELAY_S, _LOCAL_DELAY_S)
            else:
                found = Way(self.chance, 0.0001 + 0.0005 * self.chance.random(), 0.0005)
            self._ways[source, target] = found
        return found

    # Faults

    def cut(self, source: str, target: str) -> None:
        """Nothing goes from one host to another."""
        way = self.way(source, target)
        if not way.is_cut:
            way.is_cut = True
            way.cut_at = self.loop.now

    def heal(self, source: str, target: str) -> None:
        way = self.way(source, target)
        if not way.is_cut:
            return
        way.is_cut = False
        held, way.held = way.held, {}
        outage = self.loop.now - way.cut_at
        for stream in held:
            if self.chance.random() < self.give_up_probability:
                self._break(stream)
            else:
                stream.retry(self.chance.random() * min(outage, 5.0))

    def heal_all(self) -> None:
        for source, target in list(self._ways):
            self.heal(source, target)

    def reset(self, first: str, second: str) -> int:
        """Break every connection between two hosts; how many there were."""
        broken = 0
        for transport in list(self.transports.values()):
            if (transport.process.host, transport.peer_host) in ((first, second), (second, first)):
                self._lose(transport)
                broken += 1
        return broken

    def _break(self, stream: Stream) -> None:
        for transport in (stream.sender, stream.receiver):
            self._lose(transport)

    def _lose(self, transport: SimulatedTransport) -> None:
        if not transport.is_gone:
            error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            self.loop.call_in(transport.process, transport.lose, error)

    def process_died(self, process: Process, *, power_lost: bool) -> None:
        """End what the process had open, as its system does; without power nobody does."""
        for place, server in list(self.servers.items()):
            if server.process is process:
                del self.servers[place]
        for transport in [one for one in self.transports.values() if one.process is process]:
            transport.incoming.queue.clear()
            transport.leave()
            if power_lost:
                transport.outgoing.queue.clear()
            else:
                is_reset = self.chance.random() < 0.5
                if is_reset:
                    transport.outgoing.lose_tail()
                transport.outgoing.finish(is_reset=is_reset)

    def power_off(self, host: str) -> None:
        self.powered_off.add(host)

    def power_on(self, host: str) -> None:
        self.powered_off.discard(host)
        for stream in [one for one in self.unanswered if one.receiver.process.host == host]:
            del self.unanswered[stream]
            stream.retry(self.chance.random())

    # Connections

    def free_port(self, host: str) -> int:
        port = self._ports.get(host, _FIRST_FREE_PORT)
        while (host, port) in self.servers:
            port += 1
        self._ports[host] = port + 1
        return port

    def join(self, client: Process, server: SimulatedServer, port: int) -> SimulatedTransport:
        """The system of the server has taken a connection: both ends exist."""
        to, back = self.way(client.host, server.process.host), self.way(server.process.host, client.host)
        self._streams += 2
        outward, homeward = Stream(self, self._streams - 1, to), Stream(self, self._streams, back)
        near = (client.host, self.free_port(client.host))
        far = (server.process.host, port)
        ours = SimulatedTransport(client, homeward, outward, near, far)
        theirs = SimulatedTransport(server.process, outward, homeward, far, near)
        buffer_bytes = self.chance.choice((4 * 1024, 32 * 1024, 128 * 1024, 1024 * 1024))
        for transport in (ours, theirs):
            transport.system_buffer_bytes = buffer_bytes
            self.transports[transport.incoming.number] = transport
        self.loop.call_in(server.process, server.accept, theirs)
        return ours

    def forget(self, transport: SimulatedTransport) -> None:
        self.transports.pop(transport.incoming.number, None)


class SimulatedNetwork:
    """Fills `ottla.ports.Network` for one process. The name of its host is its address."""

    __slots__ = ("_process", "_wires")

    def __init__(self, wires: Wires, process: Process) -> None:
        self._wires = wires
        self._process = process

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, backlog: int = 50
    ) -> asyncio.AbstractServer:
        wires, own = self._wires, self._process.host
        if host not in ("", "0.0.0.0", own):
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is no address of {own}")
        port = port or wires.free_port(own)
        if (own, port) in wires.servers:
            raise OSError(errno.EADDRINUSE, f"port {port} of {own} is in use")
        server = SimulatedServer(wires, self._process, factory, own, port)
        wires.servers[own, port] = server
        return server

    async def connect(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl: SSLContext | None = None,
        server_hostname: str | None = None,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        if ssl is not None:
            raise Refused("There is no TLS in the simulated world: use PLAINTEXT listeners.")
        wires, own = self._wires, self._process.host
        if host not in wires.hosts:
            raise NameNotFound(errno.ENOENT, f"{host}: no such host")
        to, back = wires.way(own, host), wires.way(host, own)
        server = await self._reach(host, port, to, back)
        transport = wires.join(self._process, server, port)
        try:
            await asyncio.sleep(max(back.arrival(wires.loop.now, 0) - wires.loop.now, 0.0))
            if transport.is_closing() or transport.is_gone:
                raise ConnectionResetError(errno.ECONNRESET, f"{host}:{port} reset the connection")
            protocol = factory()
            transport.start(protocol)
        except BaseException:
            transport.abort()
            raise
        return transport, protocol

    async def _reach(self, host: str, port: int, to: Way, back: Way) -> SimulatedServer:
        """Ask until the other host answers: with a connection, or a refusal."""
        wires = self._wires
        for wait_s in (*CONNECT_RETRIES_S, None):
            await asyncio.sleep(max(to.arrival(wires.loop.now, 0) - wires.loop.now, 0.0))
            if not (to.is_cut or back.is_cut or host in wires.powered_off):
                server = wires.servers.get((host, port))
                if server is not None and server.is_serving():
                    return server
                await asyncio.sleep(max(back.arrival(wires.loop.now, 0) - wires.loop.now, 0.0))
                raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} refused the connection")
            if wait_s is None:
                break
            if host in wires.powered_off and wires.chance.random() < 0.2:
                await asyncio.sleep(3.0)
                raise OSError(errno.EHOSTUNREACH, f"no route to {host}")
            await asyncio.sleep(wait_s)
        raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} did not answer")
