"""The virtual-time loop keeps asyncio's guarantees, and the seed decides the rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from ottla.testing.world import Deadlock, Livelock, ProcessDied, Refused, SimulatedClient, TookTooLong, World
from ottla.testing.world import loop as loop_module


def test_time_jumps_to_the_next_timer() -> None:
    with World(1) as world:

        async def story() -> list[float]:
            times = []
            for seconds in (0.5, 3600.0, 86_400.0):
                await asyncio.sleep(seconds)
                times.append(world.now)
            return times

        assert world.run(story(), limit_s=1e6) == pytest.approx([0.5, 3600.5, 90_000.5])


@pytest.mark.parametrize("seed", range(5))
def test_calls_of_one_process_keep_their_order(seed: int) -> None:
    with World(seed) as world:

        async def story() -> list[int]:
            called: list[int] = []
            for number in range(100):
                asyncio.get_running_loop().call_soon(called.append, number)
            await asyncio.sleep(1)
            return called

        assert world.run(story()) == list(range(100))


def test_the_seed_orders_simultaneous_processes_and_timers() -> None:
    def orders(play: Callable[[World, list[str]], None]) -> set[tuple[str, ...]]:
        found = set()
        for seed in range(12):
            with World(seed) as world:
                called: list[str] = []
                play(world, called)
                world.run(asyncio.sleep(2))
                found.add(tuple(called))
        return found

    def processes(world: World, called: list[str]) -> None:
        for name in ("one", "two", "three"):
            world.loop.call_in(world.client(name).process, called.append, name)

    def timers(world: World, called: list[str]) -> None:
        for name in ("one", "two", "three"):
            world.loop.call_at(world.loop.now + 1.0, called.append, name)

    assert len(orders(processes)) > 1
    assert len(orders(timers)) > 1


def test_the_real_world_is_refused() -> None:
    with World(1) as world:

        async def story() -> None:
            loop = asyncio.get_running_loop()
            with pytest.raises(Refused, match="offload"):
                await loop.run_in_executor(None, print)
            with pytest.raises(Refused, match="ports"):
                await loop.create_connection(asyncio.Protocol, "localhost", 1)
            with pytest.raises(Refused, match="offload"):
                await asyncio.to_thread(print)

        world.run(story())


def test_a_stuck_story_is_a_deadlock() -> None:
    loop = loop_module.WorldLoop(random.Random(1))

    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="wait_for_ever"):
        loop.run_until_complete(wait_for_ever())
    loop.end()


def test_an_endless_loop_is_a_livelock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "TURNS_AT_ONE_INSTANT_MAX", 1_000)
    with World(1) as world:

        async def spin() -> None:
            while True:
                await asyncio.sleep(0)

        with pytest.raises(Livelock):
            world.run(spin())


def test_a_story_has_a_limit() -> None:
    with World(1) as world, pytest.raises(TookTooLong, match="5 virtual seconds"):
        world.run(asyncio.sleep(6), limit_s=5)


def test_a_killed_process_stops_running() -> None:
    with World(1) as world:
        client = world.client("one")
        said: list[str] = []

        async def work() -> None:
            asyncio.get_running_loop().call_later(5, said.append, "timer")
            child = asyncio.ensure_future(asyncio.sleep(5))
            child.add_done_callback(lambda _: said.append("child"))
            try:
                await asyncio.sleep(10)
            finally:
                said.append("finally")

        async def story() -> None:
            working = client.spawn(work())
            await asyncio.sleep(1)
            client.kill()
            with pytest.raises(ProcessDied):
                await working
            await asyncio.sleep(60)
            with pytest.raises(ProcessDied):
                client.spawn(work())

        world.run(story())
        assert said == []


def test_a_paused_process_continues() -> None:
    with World(1) as world:
        client = world.client("one")

        async def work() -> float:
            await asyncio.sleep(1)
            return world.now

        async def story() -> float:
            working = client.spawn(work())
            await asyncio.sleep(0.5)
            client.process.pause()
            await asyncio.sleep(29.5)
            assert not working.done()
            client.process.resume()
            return await working

        assert world.run(story()) == pytest.approx(30)


def test_a_stalled_process_is_late() -> None:
    with World(1) as world:
        client = world.client("one")

        async def work() -> float:
            client.process.stall(7.0)
            await asyncio.sleep(1)
            return world.now

        assert world.run(client.spawn(work())) == pytest.approx(7)


def test_a_fast_clock_makes_timers_early_and_durations_long() -> None:
    with World(1) as world:
        client = world.client("one")

        async def work() -> tuple[float, float, int]:
            client.process.set_rate(2.0)
            began, began_ms = client.clock.monotonic(), client.clock.now_ms()
            await asyncio.sleep(10)
            return world.now, client.clock.monotonic() - began, client.clock.now_ms() - began_ms

        world_time, own_time, wall_ms = world.run(client.spawn(work()))
        assert world_time == pytest.approx(5)
        assert own_time == pytest.approx(10)
        assert wall_ms == 10_000


@pytest.mark.parametrize("rate", [0.9, 0.97, 1.0, 1.03, 1.1])
def test_a_timer_is_never_early_by_the_clock_of_its_process(rate: float) -> None:
    with World(1) as world:
        client = world.client("one")

        async def work() -> None:
            loop = asyncio.get_running_loop()
            for number in range(200):
                deadline = loop.time() + 0.1 + number / 700
                fired = loop.create_future()
                loop.call_at(deadline, fired.set_result, None)
                await asyncio.sleep(0.01)
                client.process.set_rate(rate if number % 2 else 1.0)
                await fired
                assert loop.time() >= deadline

        world.run(client.spawn(work()))


def test_uncaught_exceptions_are_collected() -> None:
    with World(1) as world:
        client = world.client("one")

        def fail() -> None:
            raise ValueError("unforeseen")

        async def fail_later() -> None:
            raise KeyError("forgotten")

        async def work() -> None:
            asyncio.get_running_loop().call_soon(fail)
            asyncio.ensure_future(fail_later())  # noqa: RUF006 - deliberately not stored
            await asyncio.sleep(1)

        async def story() -> None:
            await client.spawn(work())

        world.run(story())
        assert sorted((one.process, repr(one.error)) for one in world.unhandled) == [
            ("one", "KeyError('forgotten')"),
            ("one", "ValueError('unforeseen')"),
        ]


def test_work_started_during_the_end_of_a_world_is_closed() -> None:
    begun: list[asyncio.Task[None]] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            begun.append(asyncio.ensure_future(work()))

    async def story(client: SimulatedClient) -> None:
        client.spawn(work())
        await asyncio.sleep(1)

    outside = asyncio.new_event_loop()
    asyncio.set_event_loop(outside)  # would receive it if no loop were running
    try:
        with World(1) as world:
            world.run(story(world.client("one")))
            assert begun == []
        assert [one.get_loop() for one in begun] == [world.loop]
        assert asyncio.all_tasks(outside) == set()
    finally:
        asyncio.set_event_loop(None)
        outside.close()
