"""Connections under random requests, peers that stop reading, and losses: every answer once and in its order,
and in the end nothing is held and no budget is used."""

from __future__ import annotations

import asyncio
import random
from struct import pack, unpack_from
from typing import Any, cast

from tests.unit.server.net.test_connection import SlowPeer, listening

from ottla.server.net.connection import Connection, Encoded
from ottla.server.net.listener import Listener
from ottla.server.net.response_memory import ResponseMemory
from ottla.waiting.pending_response import PendingResponse

RUNS = 300
CLIENTS = 3
ANSWER_BYTES = (8, 100, 12_000, 20_000, 33_000, 100_000)
NOW, LATER, ALONE, ALONE_LATER, HELD = range(5)
KINDS = (NOW, NOW, NOW, NOW, NOW, NOW, LATER, ALONE, ALONE_LATER, ALONE_LATER, ALONE_LATER, HELD)
TURNS_MAX = 2_000


class _Client:
    def __init__(self, listener: Listener) -> None:
        self.connection = Connection(listener)
        self.peer = SlowPeer(self.connection)
        self.connection.connection_made(cast(Any, self.peer))
        self.unsent = bytearray()
        self.sizes: list[int] = []

    @property
    def may_send(self) -> bool:
        return bool(self.unsent) and not self.connection.is_closed and self.peer.is_reading

    def request(self, kind: int, answer_bytes: int, padding: int) -> None:
        body = pack(">BIi", kind, len(self.sizes), answer_bytes) + bytes(padding)
        self.sizes.append(answer_bytes)
        self.unsent += pack(">i", len(body)) + body

    def send(self, count: int) -> None:
        while count > 0 and self.may_send:
            buffer = self.connection.get_buffer(-1)
            part = self.unsent[: min(count, len(buffer))]
            buffer[: len(part)] = part
            del buffer, self.unsent[: len(part)]
            count -= len(part)
            self.connection.buffer_updated(len(part))

    def answers(self) -> list[tuple[int, int]]:
        found = []
        position = 0
        while position < len(self.peer.written):
            size, number = unpack_from(">iI", self.peer.written, position)
            found.append((number, size))
            position += 4 + size
        return found


class _Handler:
    def __init__(self) -> None:
        self.open: list[PendingResponse] = []
        self.holding: list[Connection] = []

    def dispatch(self, connection: Connection, frame: memoryview) -> bool | None:
        kind, number, size = unpack_from(">BIi", frame)
        if kind in (ALONE, ALONE_LATER) and not connection.begin_alone(frame):
            return True
        parts: list[Any] = [pack(">iI", size, number) + bytes(size - 4)]
        if kind in (NOW, ALONE) and connection.owes_nothing:
            connection.answer_now(parts)
            return None
        if kind == HELD:
            connection.hold(len(frame))
            self.holding.append(connection)
        answer = PendingResponse()
        if kind in (NOW, ALONE):
            answer.complete("answer")
        else:
            self.open.append(answer)
        connection.answer_later(answer, cast(Encoded, lambda _response: parts))
        return None


def _take(rng: random.Random, items: list[Any]) -> Any:
    return items.pop(rng.randrange(len(items)))


def _step(rng: random.Random, clients: list[_Client], handler: _Handler) -> None:
    client = rng.choice(clients)
    choice = rng.random()
    if choice < 0.45:
        for _ in range(rng.randrange(1, 6)):
            client.request(rng.choice(KINDS), rng.choice(ANSWER_BYTES), rng.choice([0] * 12 + [70_000]))
    elif choice < 0.6:
        client.peer.is_blocked = True
    elif choice < 0.75:
        client.peer.drain()
    elif choice < 0.9:
        if handler.open:
            _take(rng, handler.open).complete("answer")
    elif choice < 0.985:
        if handler.holding:
            _take(rng, handler.holding).release()
    else:
        client.connection.close()
    for one in clients:
        if one.may_send and rng.random() < 0.7:
            one.send(rng.randrange(1, len(one.unsent) + 1))


async def _finish(clients: list[_Client], handler: _Handler) -> None:
    idle_turns = 0
    for _ in range(TURNS_MAX):
        idle_turns += 1
        for client in clients:
            if client.peer.is_blocked or client.may_send:
                idle_turns = 0
                client.peer.drain()
                client.send(len(client.unsent))
        if handler.open or handler.holding:
            idle_turns = 0
            while handler.open:
                handler.open.pop().complete("answer")
            while handler.holding:
                handler.holding.pop().release()
        await asyncio.sleep(0)
        if idle_turns > 10:
            return
    raise AssertionError("the connections never come to rest")


async def _run(seed: int) -> None:
    rng = random.Random(seed)
    handler = _Handler()
    async with listening(cast(Any, handler.dispatch)) as listener:
        listener.answers = ResponseMemory(60_000)
        clients = [_Client(listener) for _ in range(CLIENTS)]
        for _ in range(rng.randrange(10, 80)):
            _step(rng, clients, handler)
            if rng.random() < 0.5:
                await asyncio.sleep(0)
        await _finish(clients, handler)
        for client in clients:
            if not client.connection.is_closed:
                assert client.answers() == list(enumerate(client.sizes)), seed
                assert not client.connection.has_unanswered, seed
        assert listener.answers.used_bytes == 0, seed
        for client in clients:
            client.connection.close()
        await asyncio.sleep(0)
        assert listener.memory.used_bytes == 0, seed


def test_every_answer_leaves_once_and_in_order_and_all_memory_is_given_back() -> None:
    async def main() -> None:
        for seed in range(RUNS):
            await _run(seed)

    asyncio.run(main())
