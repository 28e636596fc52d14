"""How a call that is written once becomes a blocking method and a coroutine function."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, assert_type

import pytest

import ottla
import ottla.aio
from ottla.client.calls import AwaitedCalls, BlockingCalls, Call, FromThread, LoopAccess, OnLoop, complete
from ottla.client.errors import TimedOut
from ottla.client.net.background import Background


class Core:
    def __init__(self, loop: LoopAccess) -> None:
        self._loop = loop
        self.threads: list[str] = []

    async def double(self, number: int, *, times: int = 1) -> int:
        """Double a number."""
        self.threads.append(threading.current_thread().name)
        return await self._loop.run(self._double(number, times))

    async def _double(self, number: int, times: int) -> int:
        self.threads.append(threading.current_thread().name)
        for _ in range(times):
            await asyncio.sleep(0)
            number *= 2
        return number

    async def wait(self, seconds: float) -> None:
        await self._loop.run(asyncio.sleep(60), seconds, "The sleep did not end")


class Calls:
    _core: Core

    double = Call(Core.double)
    wait = Call(Core.wait)


class Blocking(Calls, BlockingCalls):
    def __init__(self, background: Background) -> None:
        self._core = Core(FromThread(background))


class Awaited(Calls, AwaitedCalls):
    def __init__(self) -> None:
        self._core = Core(OnLoop())


class Own(Blocking):
    def double(self, number: int, *, times: int = 1) -> int:
        return super().double(number, times=times) + 1


def test_a_blocking_call_runs_in_the_users_thread_and_what_it_waits_for_on_the_loop() -> None:
    background = Background("test")
    try:
        blocking = Blocking(background)
        assert blocking.double(3, times=2) == 12
        assert blocking._core.threads == [threading.current_thread().name, "ottla-test"]
        with pytest.raises(TimedOut, match=r"The sleep did not end within 0\.01 s"):
            blocking.wait(0.01)
    finally:
        background.stop()


def test_an_awaited_call_runs_on_the_users_loop() -> None:
    async def use() -> None:
        awaited = Awaited()
        assert await awaited.double(3, times=2) == 12
        with pytest.raises(TimedOut, match=r"The sleep did not end within 0\.01 s"):
            await awaited.wait(0.01)

    asyncio.run(use())


def test_methods_have_the_signature_name_and_documentation_of_the_call() -> None:
    for owner in (Blocking, Awaited):
        method = inspect.getattr_static(owner, "double")
        assert inspect.signature(method) == inspect.signature(Core.double)
        assert method.__doc__ == "Double a number."
        assert method.__qualname__ == f"{owner.__name__}.double"
        assert inspect.iscoroutinefunction(method) == (owner is Awaited)


def test_a_subclass_may_have_a_method_of_its_own_in_place_of_a_call() -> None:
    background = Background("test")
    try:
        assert Own(background).double(3) == 7
    finally:
        background.stop()


def test_a_coroutine_that_must_be_awaited_is_refused_by_a_call_that_blocks() -> None:
    with pytest.raises(RuntimeError, match="a blocking call cannot wait"):
        complete(Awaited()._core.double(3))


if TYPE_CHECKING:  # for `make check`: users' type checkers see the types of the class that they use

    def use_blocking(consumer: ottla.Consumer[str, int], producer: ottla.Producer) -> None:
        assert_type(consumer.poll(0.5, max_records=3), list[ottla.ConsumerRecord[str, int]])
        assert_type(consumer.position(("t", 0)), int)
        assert_type([record.value for record in consumer], list[int])
        assert_type(producer.partitions_for("t"), int)
        assert_type(producer.flush(timeout=1), None)
        consumer.seek(("t", 0), "1")  # type: ignore[arg-type]
        consumer.poll(max_record=1)  # type: ignore[call-arg]

    async def use_awaited(consumer: ottla.aio.Consumer[str, int], producer: ottla.aio.Producer) -> None:
        assert_type(await consumer.poll(0.5, max_records=3), list[ottla.ConsumerRecord[str, int]])
        assert_type(await consumer.position(("t", 0)), int)
        assert_type([record.value async for record in consumer], list[int])
        assert_type(await producer.partitions_for("t"), int)
        assert_type(await producer.flush(timeout=1), None)
        await consumer.seek(("t", 0), "1")  # type: ignore[arg-type]
        await consumer.poll(max_record=1)  # type: ignore[call-arg]
