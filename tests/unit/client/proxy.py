"""A TCP proxy in a thread that breaks connections where a test says, with an eye on Kafka's frames.

`rule(proxy, key, stage)` is asked for each request ("request": before it reaches the broker; "answer": the
broker has answered, the client has not heard it) and says what to do: PASS, CUT or HOLD (until `release`).
The broker must advertise the proxy's address, or clients find their way around it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

PASS, CUT, HOLD = "pass", "cut", "hold"
PRODUCE, FIND_COORDINATOR, INIT_PRODUCER_ID, END_TXN = 0, 10, 22, 26

Rule = Callable[["Proxy", int, str], str]


class Proxy:
    """Use it as a context manager; `port` is where it listens."""

    def __init__(self, target_port: int = 0, rule: Rule | None = None, port: int = 0) -> None:
        self.target_port = target_port
        self.rule: Rule = rule or (lambda proxy, key, stage: PASS)
        self.port = port
        self.cuts = 0
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._held: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def release(self) -> None:
        """Let through what is held."""

        def release() -> None:
            if self._held is not None:
                self._held.set()

        self._loop.call_soon_threadsafe(release)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._held = asyncio.Event()
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        asked: deque[int] = deque()
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.ensure_future(self._copy(reader, back, "request", asked)),
            asyncio.ensure_future(self._copy(there, writer, "answer", asked)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            writer.transport.abort()
            back.transport.abort()

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, stage: str, asked: deque[int]
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await source.readexactly(4)
                frame = await source.readexactly(int.from_bytes(head, "big"))
                if stage == "request":
                    key = int.from_bytes(frame[:2], "big")
                    asked.append(key)
                else:
                    key = asked.popleft()
                what: Any = self.rule(self, key, stage)
                if what == CUT:
                    self.cuts += 1
                    return
                if what == HOLD:
                    assert self._held is not None
                    await self._held.wait()
                target.write(head + frame)
