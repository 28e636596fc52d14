"""An event loop in a background thread, which lets the blocking classes send and heartbeat.

Rules: a coroutine that the user waits for is cancelled when the wait is interrupted (Ctrl-C), so nothing
keeps running without a caller; in a forked process, which has no such thread, calls raise Forked.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar, TypeVarTuple

from ottla.client.errors import Closed, Forked, TimedOut

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_STOP_SECONDS_MAX = 10.0
_SLICE_SECONDS = 0.5
_FIRST_STEP_SECONDS_MAX = 1.0


def wait_in_slices(wait: Callable[[float], bool], timeout: float | None) -> bool:
    """Wait in short steps; return whether `wait` succeeded within `timeout` seconds.

    A Ctrl-C that arrives just before a thread falls asleep is raised only when it wakes up.
    """
    left = timeout
    while left is None or left > _SLICE_SECONDS:
        if wait(_SLICE_SECONDS):
            return True
        left = None if left is None else left - _SLICE_SECONDS
    return wait(left)


class Signal:
    """A flag that one thread waits for: `threading.Event` with a tenth of the work for each wait."""

    __slots__ = ("_unset",)

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        """Wake the waiting thread, or let its next wait return at once."""
        with contextlib.suppress(RuntimeError):  # it is set already
            self._unset.release()

    def clear(self) -> None:
        self._unset.acquire(blocking=False)

    def wait(self, seconds: float) -> None:
        """Wait until it is set, for `seconds` at most, and clear it."""
        self._unset.acquire(timeout=seconds)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _after_turns(loop: asyncio.AbstractEventLoop, turns: int, call: Callable[[], object]) -> None:
    if turns:
        loop.call_soon(_after_turns, loop, turns - 1, call)
    else:
        call()


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    """Finish the tasks of a stopped loop."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())


class _Job(Generic[_T]):
    """A coroutine submitted to the loop, which calls `start` and `cancel`, in any order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> None:
        self.loop = loop
        self.future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        self._work = work
        self._task: asyncio.Task[_T] | None = None
        self._is_cancelled = False

    def start(self) -> None:
        if self._is_cancelled:
            return
        self._task = self.loop.create_task(self._work)
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()

    def fail(self, error: Exception) -> None:
        """The loop has ended without running this job."""
        if not self.future.done():
            self.future.set_exception(error)

    def _done(self, task: asyncio.Task[_T]) -> None:
        if self.future.done():
            return
        if task.cancelled():
            self.future.cancel()
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())


class Background:
    """The thread and its loop, started on first use.

    If a program ends without closing, the thread ends with it. `on_fork` is called in the child when the
    process forks, `on_end` in the thread when it ends.
    """

    def __init__(
        self,
        name: str,
        *,
        on_fork: Callable[[], object] | None = None,
        on_end: Callable[[], object] | None = None,
    ) -> None:
        self._name = name
        self._on_fork = on_fork
        self._on_end = on_end
        self._process_id = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()
        self._is_stopped = False
        self._jobs: dict[_Job[Any], None] = {}
        _all.add(self)

    def forked(self) -> None:
        """Called in the child of a fork, which lacks the thread, and whose locks may stay locked."""
        self._lock = threading.RLock()
        if self._on_fork is not None:
            self._on_fork()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that created it: thread and sockets are not here."""
        return os.getpid() != self._process_id

    @property
    def is_running(self) -> bool:
        """Whether the thread was started, and not stopped."""
        return self._loop is not None

    @property
    def is_inside(self) -> bool:
        """Whether the caller runs on the loop's thread, where waiting would never end."""
        return self._thread is threading.current_thread()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        return self._start() if loop is None or self.is_forked else loop

    def _start(self) -> asyncio.AbstractEventLoop:
        if self.is_forked:
            raise Forked(
                f"The {self._name} was created before this process was forked. Create one after the fork."
            )
        # Before the lock: a finalizer that runs here may come to this point too, in the same thread.
        loop = _new_loop()
        thread = threading.Thread(target=self._main, args=(loop,), name=f"ottla-{self._name}", daemon=True)
        with self._lock:
            started = self._loop
            if started is None and not self._is_stopped:
                self._loop, self._thread = loop, thread
                self._start_thread(loop, thread)
                return loop
        loop.close()
        if started is None:
            raise self._closed()
        return started

    def _start_thread(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        try:
            thread.start()
        except BaseException as error:
            if thread.ident is None:
                # The next use tries again. After Ctrl-C this thread may run all the same: `_main` looks.
                self._loop = self._thread = None
                if isinstance(error, Exception):
                    loop.close()
            raise

    def _closed(self) -> Closed:
        return Closed(f"The {self._name} is closed.")

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            is_wanted = self._thread is threading.current_thread()
        if not is_wanted:
            loop.close()
            return
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        except BaseException:  # sys.exit() in a callback, for instance
            log.exception("The thread of a %s ended.", self._name)
        with self._lock:
            self._is_stopped = True
            self._loop = None
        try:
            _finish(loop)
        finally:
            loop.close()
            try:
                if self._on_end is not None:
                    self._on_end()
            finally:
                for job in list(self._jobs):  # whoever still waits would do so for ever
                    job.fail(self._closed())

    def soon(self, call: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
        """Schedule a function on the loop, without waiting for it."""
        self.loop.call_soon_threadsafe(call, *arguments)

    def run(
        self, work: Coroutine[Any, Any, _T], timeout: float | None = None, failure: str | None = None
    ) -> _T:
        """Run a coroutine on the loop and wait for it, at most `timeout` seconds.

        As with asyncio, work that need not wait for anything succeeds even if `timeout` is 0. `failure` is
        the start of TimedOut's message.
        """
        if self.is_inside:
            work.close()
            raise RuntimeError(
                f"A callback of the {self._name} called a method that waits. Call it from another thread."
            )
        job = self._job(work)
        self._jobs[job] = None

        def is_over(seconds: float) -> bool:
            try:
                job.future.exception(seconds)
            except concurrent.futures.TimeoutError:
                return False
            except concurrent.futures.CancelledError:
                return True
            return True

        try:
            self._begin(job)
            if timeout is not None and timeout <= 0:
                self._wait_for_first_step(job)
            if wait_in_slices(is_over, timeout):
                return job.future.result()
        except concurrent.futures.CancelledError:
            raise self._closed() from None
        except BaseException:
            # Ctrl-C can come at any point here, also before the loop has begun with the work.
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                job.loop.call_soon_threadsafe(job.cancel)
            raise
        finally:
            del self._jobs[job]
        with contextlib.suppress(RuntimeError):
            job.loop.call_soon_threadsafe(job.cancel)
        raise TimedOut(f"{failure or f'The {self._name} was not done'} within {timeout:g} s.")

    def _begin(self, job: _Job[_T]) -> None:
        try:
            job.loop.call_soon_threadsafe(job.start)
        except RuntimeError:  # another thread has closed it meanwhile, and the loop with it
            job.cancel()
            raise self._closed() from None

    def _wait_for_first_step(self, job: _Job[_T]) -> None:
        """Wait until the loop has run a job up to the point where it waits, if it does.

        Not without end: a delivery callback may keep the loop busy, or wait for a lock that the caller has.
        """
        has_run = threading.Event()
        try:
            # Three turns later: its task begins in the first, ends in the second, and is known to have ended.
            job.loop.call_soon_threadsafe(_after_turns, job.loop, 3, has_run.set)
        except RuntimeError:  # the loop is closed: the job has failed, or does so now
            return
        wait_in_slices(has_run.wait, _FIRST_STEP_SECONDS_MAX)

    def _job(self, work: Coroutine[Any, Any, _T]) -> _Job[_T]:
        try:
            return _Job(self.loop, work)
        except BaseException:
            work.close()
            raise

    def stop(self) -> None:
        """Stop the loop and its thread. Does nothing if it never ran, or in a forked child."""
        with self._lock:
            self._is_stopped = True
            loop, self._loop = self._loop, None
        if loop is None or self.is_forked:
            return
        with contextlib.suppress(RuntimeError):  # it has ended by itself meanwhile
            loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None and not self.is_inside:
            self._thread.join(_STOP_SECONDS_MAX)


_all: weakref.WeakSet[Background] = weakref.WeakSet()


def members(items: weakref.WeakSet[_T]) -> list[_T]:
    """Copy a set, although other threads change it."""
    while True:
        try:
            return list(items)
        except RuntimeError:  # one was added or removed in the middle
            continue


def _after_fork() -> None:
    for background in members(_all):
        try:
            background.forked()
        except Exception:
            log.exception("A client failed when the process was forked.")


def _stop_all() -> None:
    """Stop all loops: one that runs during interpreter shutdown can crash the process."""
    for background in members(_all):
        background.stop()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_stop_all)
