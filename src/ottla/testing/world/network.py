"""The simulated network: hosts, connections between them, and every failure that TCP allows.

What a fault does to the streams of a connection:
- a cut (of one direction) holds the bytes in flight. When it heals, the seed decides for each stream: it
  continues after a delay, as after a retransmission, or it was given up and is reset;
- a host without power is silent to its peers, until it is back and answers "reset";
- when a process dies, its host still works and ends its streams, with an end of file or with a reset;
- bytes that were sent before an abort may still arrive, even after those of the next connection.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from ssl import SSLContext

from ottla.ports import NameNotFound
from ottla.testing.world.loop import Refused, WorldLoop
from ottla.testing.world.process import Process
from ottla.testing.world.streams import Link, Stream
from ottla.testing.world.transport import SimulatedTransport

CONNECT_RETRIES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # when the system asks again for a connection
_LOCAL_DELAY_S = 0.00002
_FIRST_FREE_PORT = 30_000


class _BoundSocket:
    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name


class SimulatedServer(asyncio.AbstractServer):
    """A port that a process listens on."""

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
        """Runs in the server's process."""
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
    """All hosts and the links between them."""

    def __init__(self, loop: WorldLoop, rng: random.Random, trace: Callable[[bytes, int, int], None]) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.split_probability = 0.02
        self.give_up_probability = 0.3
        """The probability that a connection is given up while its link is cut."""
        self.watch: Callable[[SimulatedTransport, bytes], None] | None = None
        """Sees all bytes before the receiving program does: see `request_tap.py`."""
        self.hosts: set[str] = set()
        self.powered_off: set[str] = set()
        self.servers: dict[tuple[str, int], SimulatedServer] = {}
        self.transports: dict[int, SimulatedTransport] = {}
        self.unanswered: dict[Stream, None] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._streams = 0
        self._ports: dict[str, int] = {}

    def network_of(self, process: Process) -> SimulatedNetwork:
        """The network port of a process."""
        self.hosts.add(process.host)
        return SimulatedNetwork(self, process)

    def link(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            if source == target:
                found = Link(self.rng, _LOCAL_DELAY_S, _LOCAL_DELAY_S)
            else:
                found = Link(self.rng, 0.0001 + 0.0005 * self.rng.random(), 0.0005)
            self._links[source, target] = found
        return found

    def delay_s_max(self) -> float:
        """The longest time that bytes travel between any two hosts that have communicated."""
        return max((link.delay_s + link.jitter_s for link in self._links.values()), default=0.0)

    # Faults

    def cut(self, source: str, target: str) -> None:
        """Block one direction between two hosts."""
        link = self.link(source, target)
        if not link.is_cut:
            link.is_cut = True
            link.cut_at = self.loop.now

    def heal(self, source: str, target: str) -> None:
        link = self.link(source, target)
        if not link.is_cut:
            return
        link.is_cut = False
        held, link.held = link.held, {}
        outage = self.loop.now - link.cut_at
        for stream in held:
            if self.rng.random() < self.give_up_probability:
                self._break(stream)
            else:
                stream.retry(self.rng.random() * min(outage, 5.0))

    def heal_all(self) -> None:
        for source, target in list(self._links):
            self.heal(source, target)

    def reset(self, first: str, second: str) -> int:
        """Break every connection between two hosts; return their number."""
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
        """Close the connections of a process as its system does; without power, nothing closes them."""
        for place, server in list(self.servers.items()):
            if server.process is process:
                del self.servers[place]
        for transport in [one for one in self.transports.values() if one.process is process]:
            transport.incoming.queue.clear()
            transport.leave()
            if power_lost:
                transport.outgoing.queue.clear()
            else:
                is_reset = self.rng.random() < 0.5
                if is_reset:
                    transport.outgoing.lose_tail()
                transport.outgoing.finish(is_reset=is_reset)

    def power_off(self, host: str) -> None:
        self.powered_off.add(host)

    def power_on(self, host: str) -> None:
        self.powered_off.discard(host)
        for stream in [one for one in self.unanswered if one.receiver.process.host == host]:
            del self.unanswered[stream]
            stream.retry(self.rng.random())

    # Connections

    def free_port(self, host: str) -> int:
        port = self._ports.get(host, _FIRST_FREE_PORT)
        while (host, port) in self.servers:
            port += 1
        self._ports[host] = port + 1
        return port

    def join(self, client: Process, server: SimulatedServer, port: int) -> SimulatedTransport:
        """The server's system has accepted a connection: create both ends."""
        to, back = self.link(client.host, server.process.host), self.link(server.process.host, client.host)
        self._streams += 2
        outward, homeward = Stream(self, self._streams - 1, to), Stream(self, self._streams, back)
        near = (client.host, self.free_port(client.host))
        far = (server.process.host, port)
        ours = SimulatedTransport(client, homeward, outward, near, far)
        theirs = SimulatedTransport(server.process, outward, homeward, far, near)
        buffer_bytes = self.rng.choice((4 * 1024, 32 * 1024, 128 * 1024, 1024 * 1024))
        for transport in (ours, theirs):
            transport.system_buffer_bytes = buffer_bytes
            self.transports[transport.incoming.number] = transport
        self.loop.call_in(server.process, server.accept, theirs)
        return ours

    def forget(self, transport: SimulatedTransport) -> None:
        self.transports.pop(transport.incoming.number, None)


class SimulatedNetwork:
    """Implements `ottla.ports.Network` for one process. The name of its host is its address."""

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
            raise Refused("The simulation does not support TLS. Use PLAINTEXT listeners.")
        wires, own = self._wires, self._process.host
        if host not in wires.hosts:
            raise NameNotFound(errno.ENOENT, f"{host}: no such host")
        to, back = wires.link(own, host), wires.link(host, own)
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

    async def _reach(self, host: str, port: int, to: Link, back: Link) -> SimulatedServer:
        """Retry until the other host accepts or refuses the connection."""
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
            if host in wires.powered_off and wires.rng.random() < 0.2:
                await asyncio.sleep(3.0)
                raise OSError(errno.EHOSTUNREACH, f"no route to {host}")
            await asyncio.sleep(wait_s)
        raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} did not answer")
