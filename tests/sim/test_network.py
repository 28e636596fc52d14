"""Streams of the simulated network behave like TCP: in order and complete, late, cut, half-open or reset."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ottla.ports import NameNotFound
from ottla.testing.world import SimulatedClient, World


class Receiver(asyncio.Protocol):
    """Records the bytes that it receives."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.pieces = 0
        self.lost: list[Exception | None] = []
        self.is_full = False
        self.resumed = 0
        self.transport = cast(asyncio.Transport, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.pieces += 1

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self.resumed += 1


async def _pair(world: World, number: int = 1) -> tuple[SimulatedClient, Receiver, SimulatedClient, Receiver]:
    """Two hosts with a connection between them."""
    near, far = world.client(f"near-{number}"), world.client(f"far-{number}")
    taken: list[Receiver] = []

    def accept() -> Receiver:
        taken.append(Receiver())
        return taken[-1]

    async def listen() -> None:
        server = await far.network.listen(accept, "", 7)
        await server.start_serving()

    async def connect() -> Receiver:
        _, protocol = await near.network.connect(Receiver, far.host, 7)
        return cast(Receiver, protocol)

    await far.spawn(listen())
    ours = await near.spawn(connect())
    await asyncio.sleep(0.1)
    return near, ours, far, taken[0]


@pytest.mark.parametrize("seed", range(8))
def test_bytes_arrive_in_order_and_in_any_pieces(seed: int) -> None:
    with World(seed) as world:
        world.wires.split_probability = 0.5

        async def story() -> None:
            _, ours, _, theirs = await _pair(world)
            sent = bytearray()
            for number in range(200):
                part = number.to_bytes(4, "big") * (number % 7 + 1)
                sent += part
                ours.transport.write(part)
                if number % 10 == 0:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(5)
            assert theirs.heard == sent
            assert theirs.pieces not in (1, 200)

        world.run(story())


def test_a_cut_holds_bytes_of_one_direction_until_it_heals() -> None:
    outcomes = set()
    for seed in range(20):
        with World(seed) as world:

            async def story(world: World = world) -> str:
                near, ours, far, theirs = await _pair(world)
                world.cut(near, far)
                ours.transport.write(b"there")
                theirs.transport.write(b"back")
                await asyncio.sleep(10)
                assert (bytes(theirs.heard), bytes(ours.heard)) == (b"", b"back")
                world.heal()
                await asyncio.sleep(10)
                if theirs.heard:
                    assert theirs.heard == b"there"
                    return "went on"
                assert isinstance(theirs.lost[0], ConnectionResetError)
                assert isinstance(ours.lost[0], ConnectionResetError)
                return "given up"

            outcomes.add(world.run(story()))
    assert outcomes == {"went on", "given up"}


def test_a_killed_process_ends_its_connections() -> None:
    with World(3) as world:

        async def story() -> None:
            _, ours, far, _ = await _pair(world)
            far.kill()
            await asyncio.sleep(1)
            assert len(ours.lost) == 1
            with pytest.raises(ConnectionRefusedError):
                await world.client("late").network.connect(Receiver, far.host, 7)

        world.run(story())


def test_a_host_without_power_is_silent_and_then_resets() -> None:
    with World(3) as world:

        async def story() -> None:
            _, ours, far, _ = await _pair(world)
            world.wires.power_off(far.host)
            far.process.kill()
            world.wires.process_died(far.process, power_lost=True)
            ours.transport.write(b"anybody?")
            await asyncio.sleep(100)
            assert ours.lost == []
            world.wires.power_on(far.host)
            await asyncio.sleep(5)
            assert isinstance(ours.lost[0], ConnectionResetError)

        world.run(story())


def test_an_unanswered_connection_is_retried_by_the_system() -> None:
    with World(3) as world:

        async def story() -> float:
            near, _, far, _ = await _pair(world)
            world.cut(far, near)
            began = world.now
            with pytest.raises(TimeoutError):
                await near.network.connect(Receiver, far.host, 7)
            return world.now - began

        assert 120 < world.run(story()) < 140


def test_a_slow_reader_stops_the_writer() -> None:
    with World(3) as world:

        async def story() -> None:
            _, ours, _, theirs = await _pair(world)
            theirs.transport.pause_reading()
            sent = 0
            while not ours.is_full:
                ours.transport.write(bytes(10_000))
                sent += 10_000
                await asyncio.sleep(0.01)
                assert sent < 10_000_000
            await asyncio.sleep(10)
            assert ours.is_full
            assert theirs.heard == b""
            theirs.transport.resume_reading()
            await asyncio.sleep(10)
            assert (ours.resumed, len(theirs.heard)) == (1, sent)

        world.run(story())


def test_bytes_before_an_abort_may_arrive_after_a_new_connection() -> None:
    orders = set()
    for seed in range(30):
        with World(seed) as world:

            async def story(world: World = world) -> tuple[bytes, ...]:
                near, _, far, _ = await _pair(world)
                way = world.wires.link(near.host, far.host)
                way.delay_s, way.jitter_s = 0.0, 0.1
                heard: list[bytes] = []

                class Order(asyncio.Protocol):
                    def data_received(self, data: bytes) -> None:
                        heard.append(data)

                async def listen() -> None:
                    server = await far.network.listen(Order, "", 8)
                    await server.start_serving()

                await far.spawn(listen())
                first, _ = await near.network.connect(Receiver, far.host, 8)
                second, _ = await near.network.connect(Receiver, far.host, 8)
                cast(asyncio.Transport, first).write(b"old")
                cast(asyncio.Transport, first).abort()
                cast(asyncio.Transport, second).write(b"new")
                await asyncio.sleep(5)
                return tuple(heard)

            orders.add(world.run(story()))
    assert {(b"old", b"new"), (b"new", b"old"), (b"new",)} <= orders


def test_unknown_names_and_ports_are_refused() -> None:
    with World(1) as world:

        async def story() -> None:
            near, ours, far, _ = await _pair(world)
            with pytest.raises(NameNotFound):
                await near.network.connect(Receiver, "nowhere", 7)
            with pytest.raises(ConnectionRefusedError):
                await near.network.connect(Receiver, far.host, 8)
            with pytest.raises(OSError, match="in use"):
                await far.network.listen(Receiver, "", 7)
            assert ours.transport.get_extra_info("socket") is None  # so nothing bypasses the transport
            assert ours.transport.get_extra_info("peername") == (far.host, 7)

        world.run(story())
