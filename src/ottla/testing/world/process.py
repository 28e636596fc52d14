"""A process of the simulated world: one program on one host, which lives and dies as a unit.

A context variable assigns every callback, timer and task to its process, and asyncio propagates it to
everything that the process starts. So one flag ends a process: the loop runs nothing of it any more, no
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
    """The process ended before it completed a request."""


class Process:
    """Created by `World`. `rate` is the speed of its clocks: 1.0001 gains 0.1 ms per second."""

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
        self.is_queued = False  # whether the loop has queued it as ready
        self.is_paused = False
        self.is_dead = False
        self.stalled_until = 0.0
        self.rate = 1.0
        self.drifts = False  # whether its time differs from the world's
        self.world_start = 0.0  # when the rate was set, in the world's time and in its own
        self.local_start = 0.0
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.on_death: list[Callable[[], None]] = []
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)
        self._awaited: dict[asyncio.Future[Any], None] = {}

    @property
    def may_run(self) -> bool:
        return not (self.is_dead or self.is_paused) and self.stalled_until <= self.loop.now

    # Time on the clock of this process

    def local_time(self, now: float) -> float:
        if self.rate == 1.0:
            return now + self.local_start - self.world_start
        return self.local_start + (now - self.world_start) * self.rate

    def world_time(self, local: float) -> float:
        return self.world_start + (local - self.local_start) / self.rate

    def set_rate(self, rate: float) -> None:
        """Let its clocks run faster or slower from now on. Timers that are set keep their deadlines."""
        now = self.loop.now
        self.local_start, self.world_start = self.local_time(now), now
        self.rate = rate
        self.drifts = rate != 1.0 or self.local_start != self.world_start

    # Work

    def spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
        """Run a coroutine in this process. The future is for other processes: ProcessDied if this one
        ends."""
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
        """Block the process for so long, as a slow system call would."""
        until = self.loop.now + seconds
        if until > self.stalled_until:
            self.stalled_until = until
            self.loop.wake_at(until, self)

    def pause(self) -> None:
        """As SIGSTOP: nothing of it runs; its timers and incoming bytes wait."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.loop.enqueue(self)

    def kill(self) -> None:
        """As kill -9."""
        if self.is_dead:
            return
        self.is_dead = True
        self.loop.keep_dead(self)
        for outcome in list(self._awaited):
            if not outcome.done():
                outcome.set_exception(ProcessDied(f"{self.name} died."))
                outcome.exception()  # marks it as retrieved, in case nobody waits
        self._awaited.clear()
        for call in self.on_death:
            call()
