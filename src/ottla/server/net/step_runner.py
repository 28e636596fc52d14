"""Runs the steps of requests that need more than one slice of the event loop.

Rule: a step, which is what a generator does between two yields, takes well under a millisecond. The first
slice runs at once. The rest runs in the slices shared by all long work of the node, and only a few requests
at a time: the others wait as frames, whose memory is limited, and not as half-built responses.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from ottla.coordinator.slices import SLICE_MS, Job, Slices
from ottla.ports import Clock
from ottla.wire.message import Struct

T = TypeVar("T")

AT_ONCE_MAX = 4
FREED_IN_STEP = 256
PAUSE_S_MAX = 10.0


class Unfinished(Enum):
    """The type of UNFINISHED, which is no outcome of any steps."""

    UNFINISHED = 0


UNFINISHED: Final = Unfinished.UNFINISHED


class StepRunner:
    """See the module."""

    def __init__(self, slices: Slices, clock: Clock) -> None:
        self._slices = slices
        self._clock = clock
        self._waiting: deque[Run[Any]] = deque()
        self._running: dict[Run[Any], Job[Any]] = {}
        self.pause = CollectionPause()

    @property
    def is_busy(self) -> bool:
        """Whether new work must wait."""
        return len(self._running) >= AT_ONCE_MAX

    def first_slice(self, steps: Generator[None, None, T]) -> T | Unfinished:
        """Run the first slice now: the outcome, or UNFINISHED."""
        monotonic = self._clock.monotonic
        end = monotonic() + SLICE_MS / 1000
        try:
            while True:
                next(steps)
                if monotonic() >= end:
                    return UNFINISHED
        except StopIteration as done:
            outcome: T = done.value
            return outcome

    def start(
        self,
        steps: Generator[None, None, T],
        on_done: Callable[[T], None],
        on_error: Callable[[Exception], None],
    ) -> Run[T]:
        """Run steps in the slices of the node, as soon as few enough others run."""
        run = Run(self, steps, on_done, on_error)
        self._waiting.append(run)
        self._admit()
        return run

    async def run(self, steps: Generator[None, None, T]) -> T:
        """`start`, for a coroutine that waits for the outcome."""
        outcome = self.first_slice(steps)
        if outcome is UNFINISHED:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

            def done(outcome: T) -> None:
                if not future.done():  # a coroutine that is cancelled hears of it a turn of the loop later
                    future.set_result(outcome)

            def failed(error: Exception) -> None:
                if not future.done():
                    future.set_exception(error)

            run = self.start(steps, done, failed)
            try:
                return await future
            finally:
                run.cancel()
        return outcome

    def free(self, lists: list[list[Any]]) -> None:
        """Empty lists in the slices of the node; nothing waits for that."""
        if lists:
            self.start(freed(lists), _pass, _pass)

    def _admit(self) -> None:
        while self._waiting and len(self._running) < AT_ONCE_MAX:
            run = self._waiting.popleft()
            if not run.is_over:
                self.pause.begin()
                self._running[run] = self._slices.start(run.steps, run.done, run.failed)

    def forget(self, run: Run[Any]) -> None:
        job = self._running.pop(run, None)
        if job is not None:
            job.cancel()
            self.pause.end()
        self._admit()


class CollectionPause:
    """Pauses the garbage collector during long requests.

    Their many objects are live, and a full collection takes longer than any step. A node that always has long
    requests must collect too: after `PAUSE_S_MAX` it does, until there are none. `freeze` exempts the
    objects that exist when collection resumes.
    """

    __slots__ = ("_is_on", "_open", "_timer", "freeze")

    def __init__(self) -> None:
        self.freeze: Callable[[], None] | None = None
        self._is_on = False
        self._open = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A long request begins; call `end` when it has finished."""
        self._open += 1
        if self._open == 1 and gc.isenabled():
            self._is_on = True
            gc.disable()
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S_MAX, self._collect_again)

    def end(self) -> None:
        self._open -= 1
        if not self._open:
            self._collect_again()

    def _collect_again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_on:
            self._is_on = False
            if self.freeze is not None:
                self.freeze()
            gc.enable()


class Run(Generic[T]):
    """Steps in progress or waiting. `cancel` ends them without a callback."""

    __slots__ = ("_on_done", "_on_error", "_runner", "is_over", "steps")

    def __init__(
        self,
        runner: StepRunner,
        steps: Generator[None, None, T],
        on_done: Callable[[T], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._runner = runner
        self.steps = steps
        self._on_done = on_done
        self._on_error = on_error
        self.is_over = False

    def cancel(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.steps.close()
            self._runner.forget(self)

    def done(self, outcome: T) -> None:
        self.is_over = True
        self._runner.forget(self)
        self._on_done(outcome)

    def failed(self, error: Exception) -> None:
        self.is_over = True
        self._runner.forget(self)
        self._on_error(error)


def _pass(_outcome: object) -> None:
    """Does nothing: there is no waiter."""


def finished(steps: Generator[None, None, T]) -> T:
    """The outcome of steps that are few enough to run at once."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        outcome: T = done.value
        return outcome


def long_lists(message: object) -> list[list[Any]]:
    """Copies of the long lists in a message.

    To free a message in steps, drop it and let `freed` empty the copies: freeing a million objects at once
    takes as long as creating them.
    """
    found: list[list[Any]] = []
    if isinstance(message, Struct):
        _collect(message, found)
    return found


def _collect(struct: Struct, found: list[list[Any]]) -> None:
    for name in type(struct).__slots__:
        value = getattr(struct, name, None)  # what could not be read to its end lacks fields
        if type(value) is list:
            if len(value) > FREED_IN_STEP:
                found.append(value.copy())
            else:
                for one in value:
                    if isinstance(one, Struct):
                        _collect(one, found)


def freed(lists: list[list[Any]]) -> Generator[None, None, None]:
    """Empty lists in steps."""
    for items in lists:
        while items:
            del items[-FREED_IN_STEP:]
            yield
