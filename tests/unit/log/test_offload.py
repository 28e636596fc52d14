from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from tests.unit.reports import reported

from ottla.host import HostDisk
from ottla.log.offload import outlast


class Thread:
    """Work on a thread that fails when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.has_ended = False

    def work(self) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        self.has_ended = True
        raise OSError("as asked for")

    async def until_begun(self) -> None:
        while not self.begun.is_set():
            await asyncio.sleep(0.001)


@pytest.fixture
def disk() -> Iterator[HostDisk]:
    made = HostDisk(threads=1)
    yield made
    made.close()


def test_a_cancelled_task_waits_for_the_thread_and_its_failure_is_not_reported(disk: HostDisk) -> None:
    async def story() -> None:
        thread = Thread()
        waiting = asyncio.ensure_future(outlast(disk, thread.work))
        await thread.until_begun()
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done(), "the thread still uses its files"
        thread.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert thread.has_ended

    assert reported(story()) == []


def test_a_failure_is_not_reported_either_when_the_task_is_cancelled_twice(disk: HostDisk) -> None:
    async def story() -> None:
        thread = Thread()
        waiting = asyncio.ensure_future(outlast(disk, thread.work))
        await thread.until_begun()
        for _ in range(2):
            waiting.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        thread.go_on.set()
        await disk.offload(lambda: None)  # behind the other work, in the only thread
        await asyncio.sleep(0)

    assert reported(story()) == []


def test_urgent_work_does_not_wait_behind_other_work(disk: HostDisk) -> None:
    async def story() -> None:
        thread = Thread()
        waiting = asyncio.ensure_future(outlast(disk, thread.work))  # in the only thread of the pool
        await thread.until_begun()
        assert await disk.offload_urgent(lambda: "flushed") == "flushed"
        thread.go_on.set()
        with pytest.raises(OSError, match="as asked for"):
            await waiting

    assert reported(story()) == []


def test_a_failure_of_the_thread_is_raised_to_its_awaiter(disk: HostDisk) -> None:
    async def story() -> None:
        thread = Thread()
        thread.go_on.set()
        with pytest.raises(OSError, match="as asked for"):
            await outlast(disk, thread.work)

    assert reported(story()) == []
