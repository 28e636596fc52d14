from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.unit.reports import reported

from ottla.detached import cannot_await, detach, mark_retrieved


def test_asyncio_reports_unretrieved_errors_of_ordinary_tasks() -> None:
    async def story() -> None:
        failing = asyncio.get_running_loop().create_future()
        failing.set_exception(OSError("as asked for"))

    assert [type(report["exception"]) for report in reported(story())] == [OSError]


def test_detached_work_survives_its_waiter_and_fails_silently() -> None:
    ended = []

    async def story() -> None:
        go_on = asyncio.Event()

        async def work() -> None:
            await go_on.wait()
            ended.append("work")
            raise OSError("as asked for")

        async def wait() -> None:
            await detach(work())

        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        while not ended:
            await asyncio.sleep(0)

    assert reported(story()) == []
    assert ended == ["work"]


def test_a_remaining_waiter_gets_the_result() -> None:
    async def story() -> None:
        async def work(number: int) -> int:
            await asyncio.sleep(0)
            return 10 // number

        assert await detach(work(2)) == 5
        with pytest.raises(ZeroDivisionError):
            await detach(work(0))
        with pytest.raises(ZeroDivisionError):
            await mark_retrieved(asyncio.ensure_future(work(0)))

    assert reported(story()) == []


def test_only_a_coroutine_without_a_task_cannot_await() -> None:
    assert cannot_await(GeneratorExit)
    assert not cannot_await(None)
    assert not cannot_await(KeyboardInterrupt)
    found: list[bool] = []

    async def generate() -> AsyncGenerator[int, None]:
        try:
            yield 1
        except GeneratorExit:
            found.append(cannot_await(GeneratorExit))
            raise

    async def take_one() -> None:
        generator = generate()
        assert await anext(generator) == 1
        await generator.aclose()

    asyncio.run(take_one())
    assert found == [False]
