"""What lives and dies together: one program on one host of the simulated world.

Every callback, timer and task knows its process by a context variable, which asyncio hands on by itself: what
a process starts is part of it. So the end of a process is one flag: the loop runs nothing of it any more, no
`finally` and no `except`, as after kill -9.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from ottla.testing.world.loop import WorldLoop

_T = TypeVar("_T")

PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("ottla.testing.world.process")


class ProcessDied(Exception):
    """The process ended before it was done with what it was asked for."""


class Process:
    """Made by `World`. `rate` is how fast its clocks run: 1.0001 gains 0.1 ms a second."""

    __slots__ = (
        "_awaited",
        "context",
        "drifts",
        "host",
        "is_dead",
        "is_paused",
        "is_queued",
        "local_start",
        "loop",
        "name",
        "on_death",
        "rate",
        "ready",
        "stalled_until",
        "tasks",
        "world_start",
    )

    def __init__(self, loop: WorldLoop, name: str, host: str) -> None:
        self.loop = loop
        self.name = name
        self.host = host
        self.ready: deque[asyncio.Handle] = deque()
        self.is_queued = False  # whether the loop has it among those with something to do
        self.is_paused = False
        self.is_dead = False
        self.stalled_until = 0.0
        self.rate = 1.0
        self.drifts = False  # whether its time is another one than the world's
        self.world_start = 0.0  # where the rate began to hold, in the world's time and in its own
        self.local_start = 0.0
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.on_death: list[Callable[[], None]] = []
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)
        self._awaited: dict[asyncio.Future[Any], None] = {}

    @property
    def may_run(self) -> bool:
        return not (self.is_dead or self.is_paused) and self.stalled_until <= self.loop.now

    # Time as this process sees it

    def local_time(self, now: float) -> float:
        if self.rate == 1.0:
            return now + self.local_start - self.world_start
        return self.local_start + (now - self.world_start) * self.rate

    def world_time(self, local: float) -> float:
        return self.world_start + (local - self.local_start) / self.rate

    def set_rate(self, rate: float) -> None:
        """Let its clocks run faster or slower from now on. Timers that are set keep their time."""
        now = self.loop.now
        self.local_start, self.world_start = self.local_time(now), now
        self.rate = rate
        self.drifts = rate != 1.0 or self.local_start != self.world_start

    # Work

    def spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
        """Run a coroutine in this process. The future is for others: ProcessDied where the process ends."""
        if self.is_dead:
            work.close()
            raise ProcessDied(f"{self.name} is not running.")
        context = self.context.copy()
        task: asyncio.Task[_T] = self.loop.create_task(work, context=context)
        outcome: asyncio.Future[_T] = self.loop.create_future()
        self._awaited[outcome] = None

        def settle(done: asyncio.Task[_T]) -> None:
            self._awaited.pop(outcome, None)
            if outcome.done():
                return
            if done.cancelled():
                outcome.cancel()
            elif (error := done.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(done.result())

        def give_up(ended: asyncio.Future[_T]) -> None:
            if ended.cancelled() and not self.is_dead:
                task.cancel()

        task.add_done_callback(settle, context=context)
        outcome.add_done_callback(give_up, context=context)
        return outcome

    # Life

    def stall(self, seconds: float) -> None:
        """Nothing of it runs for so long, as if a call to the system had blocked."""
        until = self.loop.now + seconds
        if until > self.stalled_until:
            self.stalled_until = until
            self.loop.wake_at(until, self)

    def pause(self) -> None:
        """As SIGSTOP: nothing of it runs; its timers and what it receives wait."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.loop.enqueue(self)

    def kill(self) -> None:
        """As kill -9."""
        if self.is_dead:
            return
        self.is_dead = True
        self.loop.bury(self)
        for outcome in list(self._awaited):
            if not outcome.done():
                outcome.set_exception(ProcessDied(f"{self.name} died."))
                outcome.exception()  # whoever still waits is told; nobody may
        self._awaited.clear()
        for call in self.on_death:
            call()
