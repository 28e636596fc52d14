"""Our clients against a broker with damaged responses: clear errors, no unexpected exceptions, bounded
memory.

In a simulated world: a real node, and in front of it a proxy that changes some of its responses.
"""

from __future__ import annotations

import asyncio
import os
import random
import tracemalloc
from collections.abc import Awaitable
from typing import Any

import pytest

from ottla.client.admin import NewTopic
from ottla.client.errors import ClientError
from ottla.ports import Network
from ottla.testing.world import World
from ottla.testing.world.nodes import SimulatedClient
from ottla.wire.errors import KafkaError
from ottla.wire.frame import FrameReader
from tests.fuzz.mutation import Mutation

SEEDS = range(1, 1 + int(os.environ.get("OTTLA_FUZZ_HOSTILE_SEEDS", "3")))
MEMORY_BYTES_MAX = 64 * 1024 * 1024
_HOSTILE = "hostile"
_ROUNDS = 4


class _Towards(asyncio.Protocol):
    """The connection to the node: receives its responses and damages some."""

    def __init__(self, proxy: _Proxy, client: asyncio.Transport) -> None:
        self._proxy = proxy
        self._client = client
        self._frames = FrameReader()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._client.write(self._proxy.changed(len(frame).to_bytes(4, "big") + frame))

    def connection_lost(self, error: Exception | None) -> None:
        self._client.close()


class _From(asyncio.Protocol):
    """The connection from a client."""

    def __init__(self, proxy: _Proxy) -> None:
        self._proxy = proxy
        self._early: list[bytes] = []
        self._node: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        towards = _Towards(self._proxy, self._transport)
        try:
            made, _ = await self._proxy.network.connect(lambda: towards, "node-1", 9092)
        except OSError:
            self._transport.close()
            return
        assert isinstance(made, asyncio.Transport)
        self._node = made
        made.writelines(self._early)

    def data_received(self, data: bytes) -> None:
        if self._node is None:
            self._early.append(data)
        else:
            self._node.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._opening.cancel()
        if self._node is not None:
            self._node.close()


class _Proxy:
    """Listens as `hostile:9092`, the node's advertised address."""

    def __init__(self, network: Network, draw: random.Random) -> None:
        self.network = network
        self.share = 0.0
        self.damaged = 0
        self._draw = draw
        self._mutation = Mutation(draw)
        self._before = b"\x00" * 16

    def changed(self, frame: bytes) -> bytes:
        if self._draw.random() >= self.share:
            self._before = frame
            return frame
        self.damaged += 1
        return self._mutation.mutated(frame, self._before)

    async def serve(self) -> None:
        server = await self.network.listen(lambda: _From(self), _HOSTILE, 9092)
        await server.start_serving()


async def _outcome(work: Awaitable[Any]) -> str:
    """The outcome: any error is fine that a program can handle."""
    try:
        async with asyncio.timeout(30):
            await work
    except (ClientError, KafkaError, TimeoutError) as error:
        return type(error).__name__
    return "done"


async def _produce(client: SimulatedClient) -> None:
    async with client.producer(delivery_timeout_ms=20_000, request_timeout_ms=5_000) as producer:
        for number in range(20):
            await (await producer.send("topic", b"%d" % number))


async def _consume(client: SimulatedClient, group: str | None) -> None:
    settings = {} if group is None else {"group_id": group}
    async with client.consumer(
        auto_offset_reset="earliest", request_timeout_ms=6_000, **settings
    ) as consumer:
        if group is None:
            await consumer.assign([("topic", 0)])
        else:
            await consumer.subscribe(["topic"])
        for _ in range(5):
            await consumer.poll(0.5)


async def _administer(client: SimulatedClient, number: int) -> None:
    async with client.admin(request_timeout_ms=5_000) as admin:
        await admin.create_topics([NewTopic(f"made-{number}", 1)])
        await admin.list_topics()
        await admin.describe_cluster()


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_responses_raise_errors_that_a_program_can_handle(seed: int) -> None:
    draw = random.Random(seed)
    advertised = "PLAINTEXT://hostile:9092,CONTROLLER://node-1:9093"
    with World(seed) as world:
        world.add_nodes(1, settings={"advertised.listeners": advertised, "num.partitions": "1"})
        proxy = _Proxy(world.client(_HOSTILE).network, draw)
        hostile, client = world.clients[0], world.client("program")
        outcomes: list[str] = []

        async def program() -> None:
            outcomes.append(await _outcome(_produce(client)))
            assert outcomes == ["done"], "the way through the proxy does not work"
            tracemalloc.start()  # after all imports, which are slow when traced
            proxy.share = 0.12
            for number in range(_ROUNDS):
                for work in (
                    _produce(client),
                    _consume(client, None),
                    _consume(client, f"group-{number}"),
                    _administer(client, number),
                ):
                    outcomes.append(await _outcome(work))
            proxy.share = 0.0
            outcomes.append(await _outcome(_produce(client)))

        async def story() -> None:
            await hostile.spawn(proxy.serve())
            await world.start()
            await client.spawn(program())

        try:
            world.run(story(), limit_s=24 * 3600)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert proxy.damaged >= 3
        assert outcomes[-1] == "done", outcomes
        unhandled = [one for one in world.unhandled if one.process != "hostile"]
        assert not unhandled, f"seed {seed}: {unhandled[0]}"
        assert peak < MEMORY_BYTES_MAX, f"seed {seed}: {peak / 2**20:.0f} MB"
