"""Work on large batches, off the event loop: one at a time, and nothing of a refused batch is kept."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from ottla.host import HostDisk
from ottla.server.net.batch_worker import BatchWorker
from ottla.wire.errors import InvalidRecord


class Content(bytearray):
    """What a batch is decompressed to: a reference to it can be weak."""


@pytest.mark.parametrize("kind", [InvalidRecord, MemoryError])
def test_what_a_refused_batch_was_decompressed_to_is_freed_at_once(kind: type[Exception]) -> None:
    seen: list[weakref.ref[Content]] = []

    def check() -> None:
        content = Content(10)
        seen.append(weakref.ref(content))
        try:
            raise ValueError(content)
        except ValueError as cause:
            raise kind("the batch is refused") from cause

    async def refuse() -> None:
        worker = BatchWorker(HostDisk())
        for _ in range(3):
            with pytest.raises(kind, match="the batch is refused"):
                await worker.run(check)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(refuse())
        assert [content() for content in seen] == [None] * 3
    finally:
        gc.enable()


def test_an_unforeseen_error_says_where_it_came_from() -> None:
    def check() -> None:
        raise ZeroDivisionError("of the batch")

    async def fail() -> None:
        with pytest.raises(ZeroDivisionError) as raised:
            await BatchWorker(HostDisk()).run(check)
        assert "in check" in raised.value.__notes__[0]

    asyncio.run(fail())


def test_one_batch_is_worked_on_at_a_time() -> None:
    busy = threading.Lock()
    done: list[int] = []

    def work(number: int) -> int:
        assert busy.acquire(blocking=False)
        done.append(number)
        busy.release()
        return number

    async def work_on_all() -> None:
        worker = BatchWorker(HostDisk())
        assert await asyncio.gather(*(worker.run(work, number) for number in range(20))) == list(range(20))

    asyncio.run(work_on_all())
    assert done == list(range(20))
