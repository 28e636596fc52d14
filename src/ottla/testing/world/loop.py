"""An event loop on virtual time: the clock jumps to the next timer, and a seed decides the order of events.

asyncio and uvloop promise that `call_soon` is first in, first out, and code may rely on it, so this loop
keeps that order within a process. Between processes there is no order: if several are ready, the seed picks
one, which runs all its ready callbacks, as one turn of a real loop would. Timers of one process that are due
at the same instant fire in any order, bytes of different connections arrive in any order (see `network.py`),
and the seed decides when blocking work ends (`disk.py`). Callbacks take no time; `Process.stall` makes them
take some.

Real threads, sockets, signals and child processes are refused.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, NoReturn

from ottla.testing.world.process import PROCESS, Process

TURNS_AT_ONE_INSTANT_MAX = 200_000
_CANCELLED_MIN = 1_000
_NOT_BEFORE_S = 1e-6
"""Added when a drifting clock is converted back, so that rounding makes no timer early."""

_Due = tuple[float, float, int, asyncio.TimerHandle | None, Process]


class WorldError(RuntimeError):
    """The simulation cannot continue."""


class Deadlock(WorldError):
    """No process is ready, and no timer is set."""


class Livelock(WorldError):
    """Callbacks keep running without time passing."""


class Refused(WorldError):
    """Code tried to use the real world, which the simulation does not provide."""


class Crashed(BaseException):
    """Raised in code of a process that has just died within a call. No handler may catch it."""


@dataclass(frozen=True, slots=True)
class Unhandled:
    """An exception that nobody caught, or an error that the code logged; `str` includes the traceback."""

    at: float
    process: str
    text: str
    error: BaseException | None = None

    def __str__(self) -> str:
        trace = "".join(traceback.format_exception(self.error)) if self.error is not None else ""
        return f"{self.at:10.3f}  {self.process}: {self.text}\n{trace}".rstrip()


class _Handle(asyncio.Handle):
    """asyncio's handle without its debugging support: a simulation creates half a million of them."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: WorldLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False


class _Timer(asyncio.TimerHandle):
    """A timer in the world's time."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: WorldLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._when = when
        self._scheduled = True  # the loop counts timers that are cancelled before they are due

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]
            if self._scheduled:
                self._loop._timer_handle_cancelled(self)


class _LocalTimer(_Timer):
    """A timer in the time of its process, whose clock may drift."""

    __slots__ = ()


class WorldLoop(asyncio.BaseEventLoop):
    """The loop of all processes of one world."""

    def __init__(self, rng: random.Random, *, start: float = 1_000.0) -> None:
        super().__init__()
        self.now = self.start = start
        self.turns = 0
        self.root = Process(self, "world", "world")
        self.current = self.root
        self.unhandled: list[Unhandled] = []
        self._chance = rng.random
        self._timers: list[_Due] = []
        self._timer_number = 0
        self._timers_cancelled = 0
        self._task_number = 0
        self._runnable: list[Process] = []
        self._turns_of_instant = 0
        self._graves: list[tuple[Process, list[asyncio.Task[Any]]]] = []
        self._is_ending = False

    # Scheduling

    def time(self) -> float:
        """Seconds on the clock of the calling process."""
        process = self.current
        return process.local_time(self.now) if process.drifts else self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        process = self.current if context is None else context.get(PROCESS, self.root)
        if not process.is_dead:
            process.ready.append(handle)
            if not process.is_queued:
                process.is_queued = True
                self._runnable.append(process)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = _LocalTimer(when, callback, args, self, context)
        process = self.current if context is None else context.get(PROCESS, self.root)
        if process.drifts:
            when = process.world_time(when) + _NOT_BEFORE_S
        self._timer_number += 1
        heappush(self._timers, (when, self._chance(), self._timer_number, handle, process))
        return handle

    def _push(self, when: float, handle: asyncio.TimerHandle | None, process: Process) -> None:
        self._timer_number += 1
        heappush(self._timers, (when, self._chance(), self._timer_number, handle, process))

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    get_debug = staticmethod(bool)  # returns False; every future calls it

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > _CANCELLED_MIN and self._timers_cancelled * 2 > len(self._timers):
            self._timers = [one for one in self._timers if one[3] is None or not one[3].cancelled()]
            heapify(self._timers)
            self._timers_cancelled = 0

    def enqueue(self, process: Process) -> None:
        """The process may run: queue it if it has something to do."""
        if process.ready and not process.is_queued and not process.is_dead:
            process.is_queued = True
            self._runnable.append(process)

    def call_in(self, process: Process, callback: Callable[..., object], *args: Any) -> None:
        """`call_soon` in a process, from outside."""
        if not process.is_dead:
            process.ready.append(_Handle(callback, args, self, process.context))
            self.enqueue(process)

    def call_in_at(
        self, process: Process, when: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """A timer in a process, from outside, in the world's time."""
        handle = _Timer(when, callback, args, self, process.context)
        self._push(when, handle, process)
        return handle

    def wake_at(self, when: float, process: Process) -> None:
        self._push(when, None, process)

    def create_task(self, coro: Any, *, name: Any = None, context: contextvars.Context | None = None) -> Any:
        process = self.current if context is None else context.get(PROCESS, self.root)
        self._task_number += 1
        task = asyncio.Task(
            coro, loop=self, name=name or f"{process.name}/{self._task_number}", context=context
        )
        process.tasks.add(task)
        return task

    # Running

    def _run_once(self) -> None:
        """Run turns until the loop is stopped."""
        runnable, rng, root = self._runnable, self._chance, self.root
        while not self._stopping:  # type: ignore[attr-defined]
            while not runnable:
                self._advance()
            process = runnable.pop()
            if runnable:
                at = int(rng() * (len(runnable) + 1))
                if at < len(runnable):
                    process, runnable[at] = runnable[at], process
            ready = process.ready
            if not process.may_run:
                process.is_queued = False
                continue
            self.turns += 1
            self._turns_of_instant += 1
            if self._turns_of_instant > TURNS_AT_ONE_INSTANT_MAX:
                raise self._livelock(process)
            self.current = process
            try:
                handle: Any
                for _ in range(len(ready)):
                    handle = ready.popleft()
                    if not handle._cancelled:
                        try:
                            handle._context.run(handle._callback, *handle._args)
                        except (SystemExit, KeyboardInterrupt):
                            raise
                        except BaseException as error:  # noqa: BLE001 - reported, as asyncio does
                            message = f"Exception in callback {handle._callback}"
                            self.call_exception_handler({"message": message, "exception": error})
                        if process.is_dead or process.is_paused:
                            break
                handle = None  # a stored exception keeps this frame alive, and so the task
            finally:
                self.current = root
            if ready and process.may_run:
                runnable.append(process)
            else:
                process.is_queued = False

    def _livelock(self, process: Process) -> Livelock:
        return Livelock(
            f"{self._turns_of_instant} turns at {self.now:.6f} s, the last in {process.name}: "
            f"{[str(handle) for handle in list(process.ready)[:3]]}"
        )

    def _advance(self) -> None:
        """Jump to the next timer, and queue all timers that are due then."""
        timers = self._timers
        while timers and (first := timers[0][3]) is not None and first._cancelled:
            heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            raise Deadlock(f"Nothing is left to do at {self.now:.3f} s. {self.describe_waiting()}")
        if timers[0][0] > self.now:
            self.now = timers[0][0]
            self._turns_of_instant = 0
        now = self.now
        handle: Any
        while timers and timers[0][0] <= now:
            _, _, _, handle, process = heappop(timers)
            if handle is not None:
                if handle._cancelled:
                    self._timers_cancelled -= 1
                    continue
                if process.is_dead:
                    handle._scheduled = False
                    continue
                if process.drifts and type(handle) is _LocalTimer and process.local_time(now) < handle.when():
                    # Its clock has slowed down since: a timer may be late, but never early.
                    self._push(process.world_time(handle.when()) + _NOT_BEFORE_S, handle, process)
                    continue
                handle._scheduled = False
                process.ready.append(handle)
            if not process.is_queued and process.ready and process.may_run:
                process.is_queued = True
                self._runnable.append(process)

    def describe_waiting(self) -> str:
        """Describe the waiting tasks, for debugging."""
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        shown = [f"{task.get_name()} in {getattr(task.get_coro(), '__qualname__', '?')}" for task in tasks]
        return f"{len(shown)} tasks wait: {'; '.join(shown[:40])}"

    def keep_dead(self, process: Process) -> None:
        """Keep the objects of a dead process: garbage collection would close its coroutines, and so run
        them."""
        self._graves.append((process, list(process.tasks)))

    def end(self) -> None:
        """End the world: close the remaining coroutines, while every port is dead, and then the loop."""
        self._is_ending = True
        self.root.is_dead = True
        left = [*asyncio.all_tasks(self), *(task for _, tasks in self._graves for task in tasks)]
        outside = asyncio._get_running_loop()
        # Otherwise coroutines that start work while they close would leave it in the real thread's loop.
        asyncio._set_running_loop(self)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # about coroutines that were never started
                for task in left:
                    _close(task)
                for task in asyncio.all_tasks(self):  # including tasks that this created
                    _close(task)
                left.clear()
                self._graves.clear()
        finally:
            asyncio._set_running_loop(outside)
        self._timers.clear()
        self._runnable.clear()
        self.close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self._is_ending or isinstance(error, Crashed) or self.current.is_dead:
            return
        task = context.get("task") or context.get("future")
        owner = task.get_name().split("/")[0] if isinstance(task, asyncio.Task) else self.current.name
        if any(owner == process.name for process, _ in self._graves):
            return
        text = f"{context.get('message')}: {error!r}" if error is not None else str(context.get("message"))
        self.unhandled.append(Unhandled(self.now - self.start, owner, text, error))

    # Internals of asyncio that do not apply here

    def _process_events(self, event_list: Any) -> None:
        return

    def _write_to_self(self) -> None:
        return

    def close(self) -> None:
        self._timers.clear()
        super().close()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        raise Refused(f"The simulation has no threads to run {func!r} in. Use Disk.offload.")


def _close(task: asyncio.Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    try:
        if coroutine is not None:
            coroutine.close()
    except (Exception, Crashed, asyncio.CancelledError):  # noqa: BLE001 - errors of dead code do not matter
        return


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: WorldLoop, *_: object, **__: object) -> NoReturn:
        raise Refused(f"loop.{name} bypasses the simulation. Use the ports (ottla.ports).")

    refuse.__name__ = name
    return refuse


for _name in (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_sendall",
    "sock_sendfile",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
):
    setattr(WorldLoop, _name, _refusal(_name))
