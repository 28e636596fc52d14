"""Proxies before every node of a cluster, which clients cannot get around: answers name them, not the nodes.

`rule(key, stage)` is asked for each request: at "request" it has not reached the broker, at "answer" the
broker has carried it out and the client has not heard of it. It says PASS, CUT, or how long to wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.wire.frame import read_request_start, read_response, response_frame

PASS = 0.0
CUT = -1.0

PRODUCE, METADATA, FIND_COORDINATOR, INIT_PRODUCER_ID = 0, 3, 10, 22
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28

Rule = Callable[[int, str], float]


def count_cuts(*cuts: tuple[int, str]) -> Rule:
    """Cut at each of these once, the first time that it comes."""
    left = list(cuts)
    lock = threading.Lock()

    def rule(key: int, stage: str) -> float:
        with lock:
            if (key, stage) in left:
                left.remove((key, stage))
                return CUT
        return PASS

    return rule


class Proxies:
    """One proxy for each address of `bootstrap`, all on an event loop in a thread."""

    def __init__(self, bootstrap: str, rule: Rule = lambda key, stage: PASS) -> None:
        self.rule = rule
        self.cuts = 0
        self._real = [int(address.rpartition(":")[2]) for address in bootstrap.split(",")]
        self._by_real: dict[int, int] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._main, daemon=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._by_real.values())

    def __enter__(self) -> Proxies:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        for port in self._real:
            serve = partial(self._serve, port)
            server = self._loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
            self._servers.append(server)
            self._by_real[port] = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        for server in self._servers:
            server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        asked: deque[tuple[int, int]] = deque()
        ways = [
            asyncio.ensure_future(self._requests(reader, back, asked)),
            asyncio.ensure_future(self._answers(there, writer, asked)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            writer.transport.abort()
            back.transport.abort()

    async def _requests(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, asked: deque[tuple[int, int]]
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await source.readexactly(4)
                frame = await source.readexactly(int.from_bytes(head, "big"))
                key, version, _ = read_request_start(frame)
                if not await self._passes(key, "request"):
                    return
                asked.append((key, version))
                target.write(head + frame)

    async def _answers(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, asked: deque[tuple[int, int]]
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await source.readexactly(4)
                frame = await source.readexactly(int.from_bytes(head, "big"))
                key, version = asked.popleft()
                if not await self._passes(key, "answer"):
                    return
                target.write(self._renamed(head + frame, key, version))

    async def _passes(self, key: int, stage: str) -> bool:
        what = self.rule(key, stage)
        if what == CUT:
            self.cuts += 1
            return False
        if what:
            await asyncio.sleep(what)
        return True

    def _renamed(self, whole: bytes, key: int, version: int) -> bytes:
        """The answer, with the proxies' ports where it names nodes."""
        if key not in (PRODUCE, METADATA, FIND_COORDINATOR):
            return whole
        correlation_id, answer = read_response(whole[4:], key, version)
        named: list[Any] = []
        if key == METADATA:
            named = answer.brokers
        elif key == FIND_COORDINATOR:
            named = answer.coordinators if version >= 4 else [answer]
        elif version >= 10:
            named = answer.node_endpoints
        for one in named:
            one.port = self._by_real.get(one.port, one.port)
        return response_frame(answer, version, correlation_id)
