"""The network between nodes, as proxies in this process: each direction between two nodes can be cut
separately.

All nodes know the same address of a node, so the proxy identifies a connecting node by the process at the
other end of the connection. Bytes sent over a cut link are neither refused nor lost: as on a network that
drops packets they do not arrive, the connection stays open, and they arrive late, when the link heals. The
same applies to the end of a connection. Links can also be slow, and connections over them can be reset, at
once or in the middle of the next message.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Self

_CHUNK_BYTES = 65536
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_LISTENS = 10
_DIAG_BYTES = 72
_DIAG_HEADER = struct.Struct("=IHHIIBBBBI")


class _Way:
    """One direction between two nodes."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.delay_s = 0.0
        self.tears = False  # what is sent next arrives in part, and the connection ends


class Links:
    """Proxies in front of the nodes' ports, on their own event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._process_ids: dict[int, int] = {}
        self._ways: dict[tuple[int, int], _Way] = defaultdict(_Way)
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], tuple[int, int] | None] = {}  # with their ends
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def listen(self, node_id: int, port: int, *, source: int | None = None) -> int:
        """A port by which others reach this port of a node: `source`, or any connecting node."""
        listening = socket.create_server(("127.0.0.1", 0))
        own_port: int = listening.getsockname()[1]

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections[task] = None
            try:
                with contextlib.suppress(asyncio.CancelledError):  # it is reset
                    known = source
                    if known is None:
                        known = self._node_at(writer.get_extra_info("peername")[1], own_port)
                    if known is not None:  # else it was gone before it was known
                        await self._connect(known, node_id, port, reader, writer)
            finally:
                writer.transport.abort()
                del self._connections[task]

        async def start() -> None:
            self._servers.append(await asyncio.start_server(serve, sock=listening))

        self._run(start)
        return own_port

    def know(self, node_id: int, process_id: int) -> None:
        """Register the process of a started node."""
        self._process_ids[node_id] = process_id

    # Cutting

    def cut(self, sources: Iterable[int], targets: Iterable[int]) -> None:
        """Block everything from `sources` to `targets`."""
        targets = list(targets)
        pairs = [(source, target) for source in sources for target in targets if source != target]

        async def close() -> None:
            for pair in pairs:
                self._ways[pair].open.clear()

        self._run(close)

    def part(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Block both directions."""
        some, others = list(some), list(others)
        self.cut(some, others)
        self.cut(others, some)

    def heal(self, *, resets: bool = False) -> None:
        """Heal every link. With `resets`, connections over cut links end, as after a long cut."""

        async def open_all() -> None:
            cut = {pair for pair, way in self._ways.items() if not way.open.is_set()}
            for task, pair in self._connections.items():
                if resets and pair is not None and (pair in cut or pair[::-1] in cut):
                    task.cancel()
            for way in self._ways.values():
                way.open.set()
                way.delay_s, way.tears = 0.0, False

        self._run(open_all)

    def slow(self, some: Iterable[int], others: Iterable[int], seconds: float) -> None:
        """Delay everything between the two sides by this time."""

        async def delay() -> None:
            for way in self._between(some, others):
                way.delay_s = seconds

        self._run(delay)

    def tear(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Truncate the next message between the two sides, and close its connection."""

        async def arm() -> None:
            for way in self._between(some, others):
                way.tears = True

        self._run(arm)

    def reset(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Close the connections between the two sides; new ones are allowed."""
        ends = [{one, other} for one in some for other in others]

        async def end() -> None:
            for task, pair in self._connections.items():
                if pair is not None and set(pair) in ends:
                    task.cancel()

        self._run(end)

    def _between(self, some: Iterable[int], others: Iterable[int]) -> list[_Way]:
        others = list(others)
        pairs = [(one, other) for one in some for other in others if one != other]
        return [self._ways[pair] for one, other in pairs for pair in ((one, other), (other, one))]

    # Passing on

    async def _connect(
        self,
        source: int,
        target: int,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = source, target
        out, back = self._ways[source, target], self._ways[target, source]
        await out.open.wait()
        await back.open.wait()  # a connection comes about when both hear each other
        try:
            upstream = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        ways = [
            asyncio.ensure_future(_pass_on(reader, upstream[1], out)),
            asyncio.ensure_future(_pass_on(upstream[0], writer, back)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            upstream[1].transport.abort()

    def _node_at(self, port: int, own_port: int) -> int | None:
        """The node whose process has a connection from `port` to us."""
        inode = _inode_of(port, own_port)
        if inode is None:
            return None
        wanted = f"socket:[{inode}]"
        for node_id, process_id in self._process_ids.items():
            directory = f"/proc/{process_id}/fd"
            with contextlib.suppress(OSError):
                for name in os.listdir(directory):
                    with contextlib.suppress(OSError):
                        if os.readlink(f"{directory}/{name}") == wanted:
                            return node_id
        return None

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _run(self, work: Callable[[], object]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(60)  # type: ignore[arg-type]


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Way) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_CHUNK_BYTES):
            await asyncio.sleep(way.delay_s)
            await way.open.wait()
            if way.tears:
                way.tears = False
                writer.write(data[: len(data) // 2])
                await writer.drain()
                return
            writer.write(data)
            await writer.drain()
    await way.open.wait()


def _inode_of(port: int, remote_port: int) -> str | None:
    """The inode of the socket that is bound to `port` and connected to `remote_port`."""
    try:
        return _asked_inode_of(port, remote_port)
    except OSError:  # a kernel without it, or a sandbox
        return _listed_inode_of(port, remote_port)


def _asked_inode_of(port: int, remote_port: int) -> str | None:
    """The system is asked for this one socket (sock_diag(7)).

    Its table has all sockets of the machine, thousands that wait for their time to pass among them, and takes
    milliseconds to read: as the proxies do nothing else meanwhile, all of them stood still where many nodes
    try to connect again and again, as they do when one is down.
    """
    address = socket.inet_aton("127.0.0.1").ljust(16, b"\0")
    request = _DIAG_HEADER.pack(
        _DIAG_BYTES, _SOCK_DIAG_BY_FAMILY, 1, 0, 0, socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF
    )
    request += struct.pack("!HH", port, remote_port) + address + address + struct.pack("=I", 0) + b"\xff" * 8
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
        asking.settimeout(1.0)
        asking.send(request)
        answer = asking.recv(8192)
    (kind,) = struct.unpack_from("=H", answer, 4)
    if kind != _SOCK_DIAG_BY_FAMILY:
        (error,) = struct.unpack_from("=i", answer, 16)
        if -error == errno.ENOENT:
            return None
        raise OSError(-error, os.strerror(-error))
    if answer[17] == _LISTENS:  # where nobody is connected it finds who listens
        return None
    return str(struct.unpack_from("=I", answer, 84)[0])


def _listed_inode_of(port: int, remote_port: int) -> str | None:
    """Searches the table's text as a whole: a busy machine has thousands of lines."""
    ends = b"0100007F:%04X 0100007F:%04X " % (port, remote_port)
    with open("/proc/net/tcp", "rb") as table:
        text = table.read()
    at = text.find(ends)
    return None if at < 0 else text[at : at + 200].split()[8].decode()
