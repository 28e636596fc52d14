"""A proxy between a client and a broker that cuts one connection at a chosen request.

It counts the requests of one client id among the APIs of interest. At the one it is armed for it either does
not hand the request on (`Cut.REQUEST`) or hands it on, waits for the answer and swallows it (`Cut.ANSWER`);
in both cases the client sees a connection that breaks. Everything else passes, but for a client id that is
silenced: its requests are neither handed on nor answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from enum import Enum
from struct import unpack_from
from typing import Any, Self

COUNTED = {0: "Produce", 10: "FindCoordinator", 22: "InitProducerId", 24: "AddPartitionsToTxn"}
COUNTED |= {25: "AddOffsetsToTxn", 26: "EndTxn", 28: "TxnOffsetCommit"}


class Cut(Enum):
    REQUEST = "request"
    ANSWER = "answer"


class CuttingProxy:
    """See the module. Runs in its own thread."""

    def __init__(self, port: int, broker_port: int, client_id: str) -> None:
        self.port = port
        self._broker_port = broker_port
        self._client_id = client_id.encode()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._cut_at = -1
        self._cut = Cut.REQUEST
        self._spare: frozenset[str] = frozenset()
        self.seen: list[str] = []
        self.has_cut = False
        self._silenced: bytes | None = None
        self._is_silence_over = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def arm(self, number: int, cut: Cut = Cut.REQUEST, *, spare: frozenset[str] = frozenset()) -> None:
        """Count from zero, and cut at request `number`, unless it is one to `spare`; -1: never."""
        self.seen = []
        self.has_cut = False
        self._cut_at, self._cut, self._spare = number, cut, spare

    @contextlib.contextmanager
    def silence(self, client_id: str) -> Iterator[None]:
        """Drop a client's requests meanwhile; afterwards its connections break."""
        self._is_silence_over.clear()
        self._silenced = client_id.encode()
        try:
            yield
        finally:
            self._silenced = None
            self._loop.call_soon_threadsafe(self._is_silence_over.set)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            writer.close()
            self._connections.discard(task)
            return
        swallowed: set[int] = set()
        ways = [
            asyncio.ensure_future(self._forward_requests(reader, upstream[1], swallowed)),
            asyncio.ensure_future(self._forward_answers(upstream[0], writer, swallowed)),
        ]
        try:
            with contextlib.suppress(asyncio.CancelledError):  # the proxy closes
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, upstream[1]):
                end.transport.abort()
            self._connections.discard(task)

    async def _forward_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, swallowed: set[int]
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await _frame(reader)
                api_key, _version, correlation_id, length = unpack_from(">hhih", frame, 4)
                name, client_id = COUNTED.get(api_key), frame[14 : 14 + max(length, 0)]
                if client_id == self._silenced:
                    await self._is_silence_over.wait()
                    return
                if name is not None and client_id == self._client_id:
                    self.seen.append(name)
                    if len(self.seen) - 1 == self._cut_at and name not in self._spare:
                        self.has_cut = True
                        if self._cut is Cut.REQUEST:
                            return
                        swallowed.add(correlation_id)
                writer.write(frame)
                await writer.drain()

    async def _forward_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, swallowed: set[int]
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await _frame(reader)
                if unpack_from(">i", frame, 4)[0] in swallowed:
                    return
                writer.write(frame)
                await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))
