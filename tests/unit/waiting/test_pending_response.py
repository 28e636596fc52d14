"""A pending response is completed once, by whichever comes first, and then waits for nothing any more."""

from __future__ import annotations

import asyncio
import weakref

import pytest

from ottla.waiting.gather import Gather
from ottla.waiting.pending_response import PendingResponse
from ottla.waiting.tasks import completion_of, response_of_task
from ottla.waiting.watch_list import WatcherFailed, WatchList
from ottla.wire.errors import NotCoordinator


class Timer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def test_only_the_first_completion_counts() -> None:
    told: list[object] = []
    pending = PendingResponse(lambda error: error.code)
    pending.on_completed = lambda: told.append(pending.response)
    pending.complete("first")
    pending.complete("second")
    pending.fail(NotCoordinator())
    pending.abandon()
    assert told == ["first"]


def test_completion_stops_the_timer_removes_the_callbacks_and_releases() -> None:
    changes, others = WatchList(), WatchList()
    timer = Timer()
    released: list[bool] = []
    pending = PendingResponse()
    pending.timer = timer
    pending.watch(changes, lambda: False)
    pending.watch(others, lambda: False)
    pending.when_released(lambda: released.append(True))
    pending.complete(1)
    assert timer.is_cancelled
    assert released == [True]
    assert not changes.watchers
    assert not others.watchers


def test_an_abandoned_response_is_released_and_nobody_is_told() -> None:
    changes = WatchList()
    told: list[bool] = []
    pending = PendingResponse()
    pending.on_completed = lambda: told.append(True)
    pending.watch(changes, lambda: False)
    pending.abandon()
    assert pending.is_completed
    assert not changes.watchers
    assert told == []


def test_a_callback_that_is_done_leaves_the_list() -> None:
    changes = WatchList()
    calls: list[int] = []

    def watcher() -> bool:
        calls.append(1)
        return len(calls) == 2

    changes.add(watcher)
    for _ in range(3):
        changes.notify()
    assert len(calls) == 2


def test_a_response_that_follows_another_has_its_outcome() -> None:
    for first in (True, False):
        later, pending = PendingResponse(), PendingResponse()
        if first:
            later.complete(5)
        pending.complete_with(later)
        assert pending.is_completed is first
        later.complete(5)
        assert pending.response == 5


def test_parts_that_are_there_make_a_response_at_once() -> None:
    gather: Gather[int, list[int]] = Gather(list)
    completed = PendingResponse()
    completed.complete(2)
    gather.add(1)
    gather.add(completed)
    assert gather.response() == [1, 2]


def test_late_parts_are_joined_in_the_order_of_their_addition() -> None:
    gather: Gather[int, list[int]] = Gather(list)
    first, third = PendingResponse(), PendingResponse()
    for part in (first, 2, third):
        gather.add(part)
    third.complete(3)
    response = gather.response()
    assert isinstance(response, PendingResponse)
    assert not response.is_completed
    first.complete(1)
    assert response.response == [1, 2, 3]


def test_a_task_that_stops_waiting_abandons_the_response() -> None:
    async def main() -> None:
        pending = PendingResponse()
        task = asyncio.ensure_future(completion_of(pending))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert pending.is_completed

    asyncio.run(main())


def test_an_abandoned_response_cancels_its_task() -> None:
    async def main() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        response_of_task(task).abandon()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())


def test_a_callback_that_fails_keeps_no_other_from_the_change() -> None:
    changes = WatchList()
    called: list[str] = []

    def fail() -> bool:
        raise ValueError("as asked for")

    def note() -> bool:
        called.append("note")
        return True

    changes.add(fail)
    changes.add(note)
    with pytest.raises(WatcherFailed, match="as asked for"):
        changes.notify()
    assert called == ["note"]
    changes.notify()
    assert changes.watchers == {}


def test_parts_that_cannot_be_joined_leave_nobody_waiting() -> None:
    def join(_parts: list[str]) -> str:
        raise ValueError("as asked for")

    part = PendingResponse()
    gather = Gather(join)
    gather.add(part)
    response = gather.response()
    assert isinstance(response, PendingResponse)
    with pytest.raises(ValueError, match="as asked for"):
        part.complete("last")
    assert response.is_completed
    assert response.response is None


@pytest.mark.parametrize("is_abandoned", [True, False])
def test_a_response_that_is_over_is_freed_without_the_collector(is_abandoned: bool) -> None:
    class Told:
        """Who is told keeps the response."""

        response: object = None

        def take(self, parts: list[str]) -> str:
            return parts[0]

        def tell(self) -> None:
            assert not is_abandoned

    told = Told()
    part = PendingResponse()
    gather = Gather(told.take)
    gather.add(part)
    told.response = response = gather.response()
    assert isinstance(response, PendingResponse)
    response.on_completed = told.tell
    if is_abandoned:
        response.abandon()
    part.complete("last")
    assert response.response == (None if is_abandoned else "last")
    left = weakref.ref(told)
    del part, gather, response, told
    assert left() is None
